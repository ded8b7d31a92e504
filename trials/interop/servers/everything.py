"""npm @modelcontextprotocol/server-everything (legacy): one of each thing the protocol has. Its tools are here; its
resources, prompts and the rest are in features.py."""

from .script import COFFEE, EVERY_TOOL, FAILS, INVALID, OK, TASKED, Normalisation, Server

MARK = "set in .mcp.json ☕"
DOCUMENT = "data:text/plain;base64,SGVsbG8sIHdvcmxkIQ=="


def launch(tools, root):
    entry = tools / "node/node_modules/@modelcontextprotocol/server-everything/dist/index.js"
    return {"command": "node", "args": [str(entry), "stdio"], "env": {"INTEROP_MARK": MARK}}


def fixture(root):
    pass  # it keeps everything in memory


def calls(root):
    def archive(name, **more):
        return {"name": name, "data": DOCUMENT, **more}

    return [
        ("echo", {"message": COFFEE}, OK),
        ("echo", {"message": ""}, OK),
        ("echo", {"message": "x" * 100_000}, OK),
        # Annotations with a float that JSON libraries like to rewrite: 1.0 must not come back as 1 in one place only.
        ("get-annotated-message", {"messageType": "error"}, OK),
        ("get-annotated-message", {"messageType": "success", "includeImage": True}, OK),
        ("get-annotated-message", {"messageType": "debug", "includeImage": False}, OK),
        ("get-env", {}, OK),
        ("get-resource-links", {"count": 4}, OK),
        ("get-resource-links", {}, OK),
        ("get-resource-reference", {"resourceType": "Text", "resourceId": 7}, OK),
        ("get-resource-reference", {"resourceType": "Blob", "resourceId": 1}, OK),
        ("get-structured-content", {"location": "New York"}, OK),
        ("get-structured-content", {"location": "Los Angeles"}, OK),
        ("get-sum", {"a": 0.1, "b": 0.2}, OK),
        ("get-sum", {"a": 9007199254740991, "b": -1}, OK),
        ("get-sum", {"a": 1e300, "b": 1e-7}, OK),
        ("get-tiny-image", {}, OK),
        ("gzip-file-as-resource", archive("one.gz", outputType="resource"), OK),
        ("gzip-file-as-resource", archive("two.gz", outputType="resourceLink"), OK),
        # On and off again: what it sends meanwhile is random, and must not disturb the answers.
        ("toggle-simulated-logging", {}, OK),
        ("toggle-simulated-logging", {}, OK),
        ("toggle-subscriber-updates", {}, OK),
        ("toggle-subscriber-updates", {}, OK),
        ("trigger-long-running-operation", {"duration": 0.2, "steps": 2}, OK),
        ("gzip-file-as-resource", {"name": "three.gz", "data": "ftp://127.0.0.1/nothing"}, FAILS),
        ("get-resource-reference", {"resourceType": "Text", "resourceId": -1}, FAILS),
        # It may only be called as a task of 2025-11-25, as features.py does.
        ("simulate-research-query", {"topic": "gateways"}, TASKED),
        ("get-structured-content", {"location": "Prague"}, INVALID),
        ("get-resource-links", {"count": 11}, INVALID),
        ("get-sum", {"a": "one", "b": 2}, INVALID),
        ("echo", {}, INVALID),
    ]


SERVER = Server(
    launch,
    fixture,
    calls,
    normalisations=(
        Normalisation(
            "get-env",
            r'(?s).*("INTEROP_MARK": "[^"]*").*',
            r"\1",
            "only the variable of .mcp.json: the rest of the environment is what the one who starts the server passes on",
        ),
        Normalisation(
            EVERY_TOOL,
            r"created at \d{1,2}:\d\d:\d\d [AP]M",
            "created at <time>",
            "a dynamic resource names the time at which it was made",
        ),
        Normalisation(
            EVERY_TOOL,
            # `Resource N: This is a base64 blob created at `, 45 bytes or 60 characters, and then the time.
            r"^(UmVzb3VyY2Ug[A-Za-z0-9+/]{48})[A-Za-z0-9+/=]+$",
            r"\1<time>",
            "the same in base64",
        ),
    ),
    asking=("get-roots-list", "trigger-elicitation-request", "trigger-url-elicitation", "trigger-sampling-request"),
    skipped=(
        ("trigger-sampling-request-async", "only listed to a client that runs tasks for the server, which none here does"),
        ("trigger-elicitation-request-async", "the same"),
    ),
)
