"""PyPI fastmcp: its `Client`, with its own handlers."""

from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import version

from fastmcp import Client
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from mcp import types
from mcp.client.subscriptions import listen

from .exchange import MODERN, REQUEST_SECONDS_MAX, dump
from .official import Version2, message_handler, progress_callback, reference

NAME = f"fastmcp {version('fastmcp')}"


def handlers(exchange):
    async def elicit(message, response_type, params, context):
        return types.ElicitResult.model_validate(exchange.ask("elicitation/create", dump(params)))

    async def sample(messages, params, context):
        return types.CreateMessageResult.model_validate(exchange.ask("sampling/createMessage", dump(params)))

    async def list_roots(context):
        return [types.Root.model_validate(root) for root in exchange.ask("roots/list", {})["roots"]]

    if not exchange.declares:
        return {"message_handler": message_handler(exchange)}
    return {
        "elicitation_handler": elicit,
        "sampling_handler": sample,
        "roots": list_roots,
        "message_handler": message_handler(exchange),
    }


@asynccontextmanager
async def connect(target, era, exchange):
    if "url" in target:
        transport = StreamableHttpTransport(target["url"])
    else:
        # By default the command outlives the connection, to be used again; here each session is on its own.
        transport = StdioTransport(target["command"], target["args"], env=target.get("env"), keep_alive=False)
    mode = MODERN if era == "modern" else era
    timing = {"timeout": REQUEST_SECONDS_MAX, "init_timeout": REQUEST_SECONDS_MAX}
    async with Client(transport, mode=mode, **timing, **handlers(exchange)) as client, AsyncExitStack() as stack:
        yield Fast(client, exchange, stack)


class Fast(Version2):
    """Like the SDK's client underneath, where fastmcp adds nothing of its own."""

    def listen(self, **what):
        return listen(self.client.session, **what)

    async def list(self, what):
        names = {
            "tools": self.client.list_tools,
            "resources": self.client.list_resources,
            "resourceTemplates": self.client.list_resource_templates,
            "prompts": self.client.list_prompts,
        }
        return [dump(item) for item in await names[what]()]

    async def call(self, name, arguments, progress=False, log_level=None):
        if log_level and not self.modern:  # in the modern era it asks for every message with every request
            await self.level(log_level)
        handler = progress_callback(self.exchange) if progress else None
        return dump(await self.client.call_tool_mcp(name, arguments, progress_handler=handler))

    async def read(self, uri):
        return dump(await self.client.read_resource_mcp(uri))

    async def prompt(self, name, arguments):
        return dump(await self.client.get_prompt_mcp(name, arguments))

    async def complete(self, ref, argument, context):
        return dump(await self.client.complete_mcp(reference(ref), argument, context))

    async def level(self, level):
        await self.client.set_logging_level(level)

    def session(self):
        return self.client.session
