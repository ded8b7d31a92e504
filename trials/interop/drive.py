"""Drives one MCP server with the official Python client: lists every tool, makes the calls of a script, and prints one
JSON document. Runs under mcp 2.x and mcp 1.x; which one is decided by the environment it is started in.

    python drive.py --calls FILE --era auto|legacy|modern (--url URL | [--env K=V]... --command COMMAND ARG...)
"""

import argparse
import asyncio
import json
import sys
from contextlib import asynccontextmanager
from datetime import timedelta
from importlib.metadata import version

from mcp import StdioServerParameters

MODERN = "2026-07-28"
# A cold Python server on a busy machine has been seen to take 30 s to its first answer.
REQUEST_SECONDS_MAX = 60
IS_VERSION_1 = version("mcp").startswith("1.")


def dump(model):
    # exclude_unset keeps what came over the wire: a null that was sent stays, a default that was not sent stays away.
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True)


def error_of(error):
    data = getattr(error, "error", None)  # MCPError and McpError carry the JSON-RPC error; others are the client's own
    if hasattr(data, "code"):
        return {"kind": "jsonrpc", **dump(data)}
    return {"kind": type(error).__name__, "message": str(error)}


@asynccontextmanager
async def connect_version_2(target, era):
    from mcp import Client

    mode = MODERN if era == "modern" else era
    async with Client(target, mode=mode, read_timeout_seconds=REQUEST_SECONDS_MAX) as client:
        yield client.protocol_version, lambda cursor: client.list_tools(cursor=cursor), client.call_tool


@asynccontextmanager
async def connect_version_1(target, era):
    from mcp import ClientSession
    from mcp.client.stdio import stdio_client
    from mcp.client.streamable_http import streamable_http_client
    from mcp.types import PaginatedRequestParams

    if era == "modern":
        raise SystemExit("mcp 1.x speaks only the legacy era")
    transport = streamable_http_client(target) if isinstance(target, str) else stdio_client(target)
    timeout = timedelta(seconds=REQUEST_SECONDS_MAX)
    async with transport as streams, ClientSession(streams[0], streams[1], read_timeout_seconds=timeout) as session:
        initialized = await session.initialize()
        page = lambda cursor: session.list_tools(params=PaginatedRequestParams(cursor=cursor) if cursor else None)
        yield initialized.protocolVersion, page, session.call_tool


async def list_all(page):
    tools, cursor = [], None
    while True:
        result = dump(await page(cursor))
        tools += result["tools"]
        cursor = result.get("nextCursor")
        if cursor is None:  # not falsy: the empty string is a valid cursor
            return tools


async def drive(target, era, calls):
    connect = connect_version_1 if IS_VERSION_1 else connect_version_2
    async with connect(target, era) as (protocol_version, page, call_tool):
        tools = await list_all(page)
        answers = []
        for call in calls:
            try:
                answers.append({"result": dump(await call_tool(call["tool"], call["arguments"]))})
            except Exception as error:
                answers.append({"error": error_of(error)})
    return {"client": f"mcp {version('mcp')}", "protocolVersion": protocol_version, "tools": tools, "answers": answers}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", required=True)
    parser.add_argument("--era", choices=["auto", "legacy", "modern"], default="auto")
    parser.add_argument("--url")
    parser.add_argument("--env", action="append", default=[])
    parser.add_argument("--command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    with open(options.calls, encoding="utf-8") as script:
        calls = json.load(script)
    env = dict(pair.split("=", 1) for pair in options.env)
    target = options.url or StdioServerParameters(command=options.command[0], args=options.command[1:], env=env)
    json.dump(asyncio.run(drive(target, options.era, calls)), sys.stdout, ensure_ascii=False)


main()
