"""Drives MCP servers with the MCP Inspector's CLI: the steps of a script, and the same JSON document as drive.py. The
CLI makes one request and ends, so every step is a process and a session of its own.

    python drive_inspector.py --script FILE
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path

TOOLS = Path(__file__).resolve().parent.parent.parent / ".tools"
PACKAGE = TOOLS / "inspector/node_modules/@modelcontextprotocol/inspector"
# It needs Node >= 22.19, which the conformance suite's folder has (Linux; elsewhere `node` in PATH must be that new).
PINNED_NODE = TOOLS / "conformance/node_modules/.bin/node"
NODE = str(PINNED_NODE) if PINNED_NODE.exists() else shutil.which("node")
STEP_SECONDS_MAX = 120
AT_ONCE_MAX = 4  # most of a step is waiting for the end of the server
# What it prints when the server answers with a JSON-RPC error.
ERROR = re.compile(r"(?:MCP error )?(-?\d+):")


def options_of(step):
    match step["do"]:
        case "list" if step["what"] == "resourceTemplates":
            return ["--method", "resources/templates/list"]
        case "list":
            return ["--method", f"{step['what']}/list"]
        case "call" | "task":  # it makes a task of a call by itself, where the tool wants one
            arguments = json.dumps(step["arguments"])
            return ["--method", "tools/call", "--tool-name", step["name"], "--tool-args-json", arguments]
        case "read":
            return ["--method", "resources/read", "--uri", step["uri"]]
        case "prompt":
            pairs = [f"{name}={value}" for name, value in (step.get("arguments") or {}).items()]
            return ["--method", "prompts/get", "--prompt-name", step["name"], *(["--prompt-args", *pairs] if pairs else [])]
    raise SystemExit(f"the Inspector has no step `{step['do']}`")


def inspect(configuration, era, options):
    command = [NODE, str(PACKAGE / "clients/launcher/build/index.js"), "--cli", "--config", configuration]
    command += ["--server", "server", "--protocol-era", era, "--connect-timeout", "60000", "--format", "json", "-q"]
    ended = subprocess.run([*command, *options], capture_output=True, text=True, timeout=STEP_SECONDS_MAX)
    if ended.stdout.strip():
        return json.loads(ended.stdout)
    # The error is one JSON object on a line of its own; deprecation warnings of Node may stand before it.
    for line in reversed(ended.stderr.splitlines()):
        if line.startswith('{"error"'):
            return {"error": error_of(json.loads(line)["error"])}
    return {"error": {"kind": f"exit status {ended.returncode}", "message": ended.stderr[-1000:]}}


def error_of(error):
    if found := ERROR.match(error["message"]):
        return {"kind": "jsonrpc", "code": int(found.group(1)), "message": error["message"]}
    return {"kind": error["code"], "message": error["message"]}


def drive(session, folder, pool):
    target = session["target"]
    entry = {"type": "streamable-http", "url": target["url"]} if "url" in target else target
    configuration = Path(tempfile.mkdtemp(dir=folder)) / "servers.json"
    configuration.write_text(json.dumps({"mcpServers": {"server": entry}}))
    ask = lambda options: inspect(str(configuration), session["era"], options)
    first = pool.submit(ask, ["--method", "initialize"]) if session["versioned"] else None
    # The steps of a feature know each other: one after the other. Everything else runs side by side.
    groups = [list(group) for _, group in groupby(enumerate(session["steps"]), key=lambda step: step[1].get("feature", step[0]))]
    answers = [pool.submit(lambda group=group: [ask(options_of(step)) for _, step in group]) for group in groups]
    return first, answers


def document_of(first, answers):
    document = {"answers": [answer for group in answers for answer in group.result()]}
    if first and "error" in first.result():
        document["failed"] = json.dumps(first.result()["error"], ensure_ascii=False)
    elif first:
        document["protocolVersion"] = first.result()["result"]["protocolVersion"]
    return document


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--script", type=Path, required=True)
    options = parser.parse_args()
    sessions = json.loads(options.script.read_text())["sessions"]
    version = json.loads((PACKAGE / "package.json").read_text())["version"]
    with ThreadPoolExecutor(AT_ONCE_MAX) as pool:
        running = [drive(session, options.script.parent, pool) for session in sessions]
        documents = [document_of(first, answers) for first, answers in running]
    json.dump({"client": f"inspector {version}", "sessions": documents}, sys.stdout, ensure_ascii=False)


main()
