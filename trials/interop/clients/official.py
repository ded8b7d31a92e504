"""PyPI mcp: `Client` of 2.x and `ClientSession` of 1.x. Which one is installed is decided by the environment."""

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from importlib.metadata import version

from mcp import StdioServerParameters, types

from .exchange import MODERN, REQUEST_SECONDS_MAX, dump

IS_VERSION_1 = version("mcp").startswith("1.")
NAME = f"mcp {version('mcp')}"
LOG_LEVEL = "io.modelcontextprotocol/logLevel"
# What a list is called in its result -> what the method that lists it is called.
LISTS = {
    "tools": "list_tools",
    "resources": "list_resources",
    "resourceTemplates": "list_resource_templates",
    "prompts": "list_prompts",
}


def connect(target, era, exchange):
    if "url" not in target:
        target = StdioServerParameters(command=target["command"], args=target["args"], env=target.get("env"))
    else:
        target = target["url"]
    return connect_version_1(target, era, exchange) if IS_VERSION_1 else connect_version_2(target, era, exchange)


def callbacks(exchange):
    """What a client that declares roots, sampling and elicitation answers with; the same words in both versions."""

    async def elicit(context, params):
        return types.ElicitResult.model_validate(exchange.ask("elicitation/create", dump(params)))

    async def sample(context, params):
        return types.CreateMessageResult.model_validate(exchange.ask("sampling/createMessage", dump(params)))

    async def list_roots(context):
        return types.ListRootsResult.model_validate(exchange.ask("roots/list", {}))

    if not exchange.declares:
        return {"message_handler": message_handler(exchange)}
    return {
        "elicitation_callback": elicit,
        "sampling_callback": sample,
        "list_roots_callback": list_roots,
        "message_handler": message_handler(exchange),
    }


def message_handler(exchange):
    async def handle(message):
        notification = getattr(message, "root", message)  # 1.x wraps it
        method = getattr(notification, "method", "")
        # Progress comes to the callback of its call, which is where a user of this client sees it.
        if method.startswith("notifications/") and method != "notifications/progress":
            exchange.tell(method, dump(notification.params) if notification.params else {})

    return handle


def progress_callback(exchange):
    async def progress(progress, total, message):
        exchange.tell("notifications/progress", {"progress": progress, "total": total, "message": message})

    return progress


def reference(ref):
    kind = types.PromptReference if ref["type"] == "ref/prompt" else types.ResourceTemplateReference
    return kind.model_validate(ref)


@asynccontextmanager
async def connect_version_2(target, era, exchange):
    from mcp import Client

    mode = MODERN if era == "modern" else era
    async with (
        Client(target, mode=mode, read_timeout_seconds=REQUEST_SECONDS_MAX, **callbacks(exchange)) as client,
        AsyncExitStack() as subscriptions,
    ):
        yield Version2(client, exchange, subscriptions)


class Version2:
    def __init__(self, client, exchange, subscriptions):
        self.client, self.exchange, self.version = client, exchange, client.protocol_version
        self.modern = self.version >= MODERN
        self.all_subscriptions, self.subscriptions = subscriptions, {}

    def listen(self, **what):
        return self.client.listen(**what)

    async def list(self, what):
        method, items, cursor = getattr(self.client, LISTS[what]), [], None
        while True:
            page = dump(await method(cursor=cursor))
            items += page[what]
            cursor = page.get("nextCursor")
            if cursor is None:  # not falsy: the empty string is a valid cursor
                return items

    async def call(self, name, arguments, progress=False, log_level=None):
        meta = None
        if log_level and self.modern:
            meta = {LOG_LEVEL: log_level}
        elif log_level:
            await self.level(log_level)
        callback = progress_callback(self.exchange) if progress else None
        return dump(await self.client.call_tool(name, arguments, progress_callback=callback, meta=meta))

    async def read(self, uri):
        return dump(await self.client.read_resource(uri))

    async def prompt(self, name, arguments):
        return dump(await self.client.get_prompt(name, arguments))

    async def complete(self, ref, argument, context):
        return dump(await self.client.complete(reference(ref), argument, context))

    async def level(self, level):
        return dump(await self.client.set_logging_level(level))

    async def subscribe(self, uri):
        if not self.modern:
            return await self.session().subscribe_resource(uri)
        honoured = await self.opened(uri, resource_subscriptions=[uri])
        if uri not in (honoured.resource_subscriptions or []):
            raise RuntimeError(f"the server acknowledged {dump(honoured)}")

    async def unsubscribe(self, uri):
        if not self.modern:
            return await self.session().unsubscribe_resource(uri)
        await self.subscriptions.pop(uri).aclose()

    async def changes(self, what):
        """From now on, changes of a list are told. In the legacy era they always are."""
        if not self.modern:
            return
        honoured = await self.opened(what, **{f"{what}_list_changed": True})
        if not getattr(honoured, f"{what}_list_changed"):
            raise RuntimeError(f"the server acknowledged {dump(honoured)}")

    async def opened(self, key, **filter):
        stack = self.subscriptions[key] = await self.all_subscriptions.enter_async_context(AsyncExitStack())
        return (await stack.enter_async_context(self.listen(**filter))).honored

    def session(self):
        return self.client

    async def roots_changed(self):
        await self.client.send_roots_list_changed()


@asynccontextmanager
async def connect_version_1(target, era, exchange):
    from mcp import ClientSession
    from mcp.client.stdio import stdio_client
    from mcp.client.streamable_http import streamable_http_client

    if era == "modern":
        raise SystemExit("mcp 1.x speaks only the legacy era")
    transport = streamable_http_client(target) if isinstance(target, str) else stdio_client(target)
    timeout = timedelta(seconds=REQUEST_SECONDS_MAX)
    async with (
        transport as streams,
        ClientSession(streams[0], streams[1], read_timeout_seconds=timeout, **callbacks(exchange)) as session,
    ):
        yield Version1(session, exchange, (await session.initialize()).protocolVersion)


class Version1:
    def __init__(self, session, exchange, protocol_version):
        self.session, self.exchange, self.version = session, exchange, protocol_version

    async def list(self, what):
        method, items, cursor = getattr(self.session, LISTS[what]), [], None
        while True:
            params = types.PaginatedRequestParams(cursor=cursor) if cursor is not None else None
            page = dump(await method(params=params))
            items += page[what]
            cursor = page.get("nextCursor")
            if cursor is None:
                return items

    async def call(self, name, arguments, progress=False, log_level=None):
        if log_level:
            await self.level(log_level)
        callback = progress_callback(self.exchange) if progress else None
        return dump(await self.session.call_tool(name, arguments, progress_callback=callback))

    async def read(self, uri):
        return dump(await self.session.read_resource(uri))

    async def prompt(self, name, arguments):
        return dump(await self.session.get_prompt(name, arguments))

    async def complete(self, ref, argument, context):
        return dump(await self.session.complete(reference(ref), argument, context))

    async def level(self, level):
        return dump(await self.session.set_logging_level(level))

    async def subscribe(self, uri):
        await self.session.subscribe_resource(uri)

    async def unsubscribe(self, uri):
        await self.session.unsubscribe_resource(uri)

    async def changes(self, what):
        pass  # in the legacy era they are always told

    async def roots_changed(self):
        await self.session.send_roots_list_changed()

    async def task(self, name, arguments):
        tasks = self.session.experimental
        task_id = (await tasks.call_tool_as_task(name, arguments)).task.taskId
        while True:
            status = (await tasks.get_task(task_id)).status
            # What a task asks for arrives with the request for its result, which then waits for the end.
            if status != "working":
                break
            await asyncio.sleep(0.2)
        result = dump(await tasks.get_task_result(task_id, types.CallToolResult))
        return {"status": (await tasks.get_task(task_id)).status, **result}

    async def task_cancelled(self, name, arguments):
        tasks = self.session.experimental
        task_id = (await tasks.call_tool_as_task(name, arguments)).task.taskId
        listed = [task.taskId for task in (await tasks.list_tasks()).tasks]
        cancelled = await tasks.cancel_task(task_id)
        after = (await tasks.get_task(task_id)).status
        return {"listed": task_id in listed, "cancelled": cancelled.status, "after": after}
