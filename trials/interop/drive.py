"""Drives MCP servers with one Python client: makes the steps of a script, and prints one JSON document.

    python drive.py --client official|fast|openai_agents|langchain --script FILE

The script: {"sessions": [{"target", "era", "declares", "roots", "steps"}]}, every session a connection of its own, all at
once. The document: {"client", "sessions": [{"protocolVersion", "answers"}]}, an answer for every step: {"result"} or
{"error"}, and `asked` and `told` of the requests and notifications the step is about. A session that could not be opened
or not be closed has `failed` with the reason.
"""

import argparse
import asyncio
import importlib
import json
import sys
import time
import traceback

sys.dont_write_bytecode = True  # before the next import: the tree stays clean
from clients.exchange import TOLD_SECONDS_MAX, Exchange, error_of


async def call(session, step):
    more = {name: step[name] for name in ("progress", "log_level") if name in step}
    deadline = time.monotonic() + TOLD_SECONDS_MAX
    while True:
        result = await session.call(step["name"], step["arguments"], **more)
        if step.get("until", "") in json.dumps(result) or time.monotonic() > deadline:
            return result
        await asyncio.sleep(0.1)


async def perform(session, exchange, step):
    """The result of one step; features.py says what the steps are."""
    match step["do"]:
        case "list":
            return {step["what"]: await session.list(step["what"])}
        case "call":
            return await call(session, step)
        case "follow":
            content = (await session.call(step["name"], step["arguments"]))["content"]
            return await session.read(next(block["uri"] for block in content if block["type"] == "resource_link"))
        case "read":
            return await session.read(step["uri"])
        case "prompt":
            return await session.prompt(step["name"], step.get("arguments"))
        case "complete":
            return await session.complete(step["ref"], step["argument"], step.get("context"))
        case "roots":
            exchange.roots = step["roots"]
            await session.roots_changed()
            await exchange.until(lambda: exchange.asked)
        case "task":
            return await session.task(step["name"], step["arguments"])
        case "task-cancelled":
            return await session.task_cancelled(step["name"], step["arguments"])
        case "level":
            await session.level(step["level"])
        case "subscribe":
            await session.subscribe(step["uri"])
        case "unsubscribe":
            await session.unsubscribe(step["uri"])
        case "changes":
            await session.changes(step["what"])
        case unknown:
            raise SystemExit(f"unknown step `{unknown}`")
    return {}


async def answer(session, exchange, step, spoilt):
    exchange.begin(step.get("answers", {}))
    awaited = step.get("told", {})
    try:
        result = {"result": await perform(session, exchange, step)}
        if awaited and step.get("feature") not in spoilt:
            count = lambda method: sum(one["method"] == method for one in exchange.told)
            await exchange.until(lambda: all(count(method) >= least for method, least in awaited.items()))
    except Exception as error:
        result = {"error": error_of(error)}
        spoilt.add(step.get("feature"))  # there is no point in waiting for more of it
    # Only what the step is about: a server may ask for roots or send a log message at any time.
    about = {*step.get("answers", {}), *(["roots/list"] if step["do"] == "roots" else [])}
    if about:
        result["asked"] = [one for one in exchange.asked if one["method"] in about]
    if awaited:
        result["told"] = [one for one in exchange.told if one["method"] in awaited]
    return result


async def drive(connect, script):
    exchange, document = Exchange(script.get("declares", False), script.get("roots", [])), {}
    try:
        async with connect(script["target"], script["era"], exchange) as session:
            spoilt = set()
            answers = [await answer(session, exchange, step, spoilt) for step in script["steps"]]
            document = {"protocolVersion": session.version, "answers": answers}
    except Exception as error:
        document["failed"] = "".join(traceback.format_exception(error))[-3000:]
    return document


async def drive_all(client, sessions):
    return await asyncio.gather(*(drive(client.connect, session) for session in sessions))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--client", required=True)
    parser.add_argument("--script", required=True)
    options = parser.parse_args()
    with open(options.script, encoding="utf-8") as file:
        sessions = json.load(file)["sessions"]
    client = importlib.import_module(f"clients.{options.client}")
    document = {"client": client.NAME, "sessions": asyncio.run(drive_all(client, sessions))}
    json.dump(document, sys.stdout, ensure_ascii=False)


main()
