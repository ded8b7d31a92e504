"""An official Python client (`mcp` 1.x or 2.x, whichever is installed) whose calls wait for people.

    python client.py --url URL --key KEY --mode plain|page|task --plan JSON

The plan is a list of {"tool", "arguments", "dry_run"?}. For each of them one JSON line says that the call waits and with which words; after a
line on stdin the client goes on, and another line says how the call ended. The tools are listed first, so that this client checks every
result against the output schema of its tool.
"""

import argparse
import asyncio
import importlib
import json
import sys
from contextlib import asynccontextmanager
from importlib.metadata import version

sys.dont_write_bytecode = True

from mcp import ClientSession, types
from mcp.client.streamable_http import streamable_http_client

IS_VERSION_1 = version("mcp").startswith("1.")
NAME = f"mcp {version('mcp')} for Python"
MODERN = "2026-07-28"
SECONDS_MAX = 60
POLL_SECONDS = 0.3
httpx = importlib.import_module("httpx" if IS_VERSION_1 else "httpx2")


def say(**line):
    print(json.dumps(line), flush=True)


async def told_to_go_on():
    if not await asyncio.to_thread(sys.stdin.readline):
        raise SystemExit("nobody said to go on")


def words(result):
    return "\n".join(getattr(block, "text", "") for block in result.content)


def ended(result, **more):
    is_error = result.isError if IS_VERSION_1 else result.is_error
    structured = result.structuredContent if IS_VERSION_1 else result.structured_content
    say(event="ended", is_error=bool(is_error), text=words(result), has_structured=structured is not None, **more)


async def elicit(_context, params):
    """The person is shown the page, and the client answers that they looked."""
    say(event="waits", text=params.message, url=getattr(params, "url", None))
    await told_to_go_on()
    return types.ElicitResult(action="accept")


@asynccontextmanager
async def connected(url, key, mode):
    async with httpx.AsyncClient(headers={"authorization": f"Bearer {key}"}, timeout=SECONDS_MAX) as http:
        transport = streamable_http_client(url, http_client=http)
        callbacks = {"elicitation_callback": elicit} if mode == "page" else {}
        if not IS_VERSION_1:
            from mcp import Client

            async with Client(transport, mode=MODERN, read_timeout_seconds=SECONDS_MAX, **callbacks) as client:
                yield client, client.protocol_version
            return
        async with transport as streams, ClientSession(streams[0], streams[1], **callbacks) as session:
            yield session, (await session.initialize()).protocolVersion


async def as_task(session, tool, arguments):
    tasks = session.experimental
    task_id = (await tasks.call_tool_as_task(tool, arguments)).task.taskId
    task = await tasks.get_task(task_id)
    say(event="waits", text=task.statusMessage or "", status=task.status)
    await told_to_go_on()
    while (task := await tasks.get_task(task_id)).status == "working":
        await asyncio.sleep(POLL_SECONDS)
    result = await tasks.get_task_result(task_id, types.CallToolResult)
    ended(result, status=task.status, message=task.statusMessage or "")


async def step(session, mode, tool, arguments, dry_run=False):
    if dry_run:
        ended(await session.call_tool(tool, arguments, meta={"servanda/dry-run": True}))
    elif mode == "task":
        await as_task(session, tool, arguments)
    elif mode == "page":
        ended(await session.call_tool(tool, arguments))
    else:
        say(event="waits", text=words(await session.call_tool(tool, arguments)))
        await told_to_go_on()
        ended(await session.call_tool(tool, arguments))


async def main():
    parser = argparse.ArgumentParser()
    for name in ["--url", "--key", "--mode", "--plan"]:
        parser.add_argument(name, required=True)
    options = parser.parse_args()
    async with connected(options.url, options.key, options.mode) as (session, protocol):
        listed = (await session.list_tools()).tools
        schema = "outputSchema" if IS_VERSION_1 else "output_schema"
        say(event="listed", client=NAME, protocol=protocol, with_schema=[tool.name for tool in listed if getattr(tool, schema)])
        for one in json.loads(options.plan):
            try:
                await step(session, options.mode, one["tool"], one["arguments"], one.get("dry_run", False))
            except Exception as error:
                say(event="ended", rejected=f"{type(error).__name__}: {error}")


asyncio.run(main())
