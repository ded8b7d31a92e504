"""PyPI langchain-mcp-adapters (mcp 1.x): MCP tools as LangChain tools. Answers are what LangChain makes of them."""

from contextlib import asynccontextmanager
from datetime import timedelta
from importlib.metadata import version

from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.prompts import load_mcp_prompt
from langchain_mcp_adapters.resources import load_mcp_resources
from langchain_mcp_adapters.tools import load_mcp_tools

from .exchange import REQUEST_SECONDS_MAX

NAME = f"langchain-mcp-adapters {version('langchain-mcp-adapters')}"


@asynccontextmanager
async def connect(target, era, exchange):
    if era != "legacy":
        raise SystemExit("langchain-mcp-adapters speaks only the legacy era")
    if "url" in target:
        connection = {"transport": "streamable_http", "url": target["url"]}
    else:
        connection = {"transport": "stdio", **target}
    connection["session_kwargs"] = {"read_timeout_seconds": timedelta(seconds=REQUEST_SECONDS_MAX)}
    client = MultiServerMCPClient({"server": connection})
    async with client.session("server", auto_initialize=False) as session:
        initialized = await session.initialize()
        yield LangChain(session, initialized.protocolVersion)


class LangChain:
    def __init__(self, session, protocol_version):
        self.session, self.version, self.tools = session, protocol_version, {}

    async def list(self, what):
        if what != "tools":
            raise SystemExit(f"langchain-mcp-adapters does not list {what}")
        self.tools = {tool.name: tool for tool in await load_mcp_tools(self.session)}
        return [
            {"name": tool.name, "description": tool.description, "inputSchema": tool.args_schema, **extra(tool)}
            for tool in self.tools.values()
        ]

    async def call(self, name, arguments):
        if not self.tools:
            await self.list("tools")
        call = {"type": "tool_call", "id": "1", "name": name, "args": arguments}
        message = await self.tools[name].ainvoke(call)
        result = {"content": unnumbered(message.content), "isError": message.status == "error"}
        if message.artifact:
            result["structuredContent"] = message.artifact["structured_content"]
        return result

    async def read(self, uri):
        blobs = await load_mcp_resources(self.session, uris=uri)
        return {"contents": [{"uri": blob.metadata["uri"], "text": blob.as_string()} for blob in blobs]}

    async def prompt(self, name, arguments):
        messages = await load_mcp_prompt(self.session, name, arguments=arguments)
        return {"messages": [{"type": message.type, "content": message.content} for message in messages]}


def extra(tool):
    """What of the listing the adapter keeps as metadata: title and annotations."""
    return {"metadata": tool.metadata} if tool.metadata else {}


def unnumbered(content):
    """LangChain gives every block a random id of its own making."""
    return [{key: value for key, value in block.items() if key != "id"} for block in content]
