"""PyPI openai-agents: `MCPServerStreamableHttp` and `MCPServerStdio`, without an agent and so without a model."""

from contextlib import asynccontextmanager
from importlib.metadata import version

from agents.mcp import MCPServerStdio, MCPServerStreamableHttp

from .exchange import REQUEST_SECONDS_MAX, dump
from .official import message_handler

NAME = f"openai-agents {version('openai-agents')}"


@asynccontextmanager
async def connect(target, era, exchange):
    if era != "auto":
        raise SystemExit("openai-agents negotiates the era itself")
    more = {
        "client_session_timeout_seconds": REQUEST_SECONDS_MAX,  # its default is 5 s: less than a cold server needs
        "message_handler": message_handler(exchange),
    }
    if "url" in target:
        server = MCPServerStreamableHttp({"url": target["url"], "timeout": REQUEST_SECONDS_MAX}, **more)
    else:
        server = MCPServerStdio(target, **more)
    async with server:
        yield Agents(server)


class Agents:
    def __init__(self, server):
        self.server, self.version = server, server.session.protocol_version

    async def list(self, what):
        if what == "tools":
            return [dump(tool) for tool in await self.server.list_tools()]
        methods = {
            "resources": self.server.list_resources,
            "resourceTemplates": self.server.list_resource_templates,
            "prompts": self.server.list_prompts,
        }
        return dump(await methods[what]())[what]

    async def call(self, name, arguments):
        return dump(await self.server.call_tool(name, arguments))

    async def read(self, uri):
        return dump(await self.server.read_resource(uri))

    async def prompt(self, name, arguments):
        return dump(await self.server.get_prompt(name, arguments))
