"""A legacy MCP server that asks its client: over stdio, or over HTTP with sessions it counts. Standard library only.

usage: upstream.py stdio | upstream.py http PORT
Over HTTP, GET /open answers with the number of sessions that were begun and not ended.
"""

import json
import sys
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

VERSION = "2025-11-25"
TOOLS = [
    {"name": "echo", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
    {"name": "ask", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
]
QUESTION = {
    "method": "elicitation/create",
    "params": {"message": "go on?", "requestedSchema": {"type": "object", "properties": {"yes": {"type": "boolean"}}}},
}


def text(value):
    return {"content": [{"type": "text", "text": value}]}


def plain_answer(message):
    """The result or error of a request that the server answers without asking the client."""
    method = message["method"]
    if method == "initialize":
        return {"result": {"protocolVersion": VERSION, "capabilities": {"tools": {}}, "serverInfo": {"name": "hygiene", "version": "1"}}}
    if method == "tools/list":
        return {"result": {"tools": TOOLS}}
    if method == "tools/call":
        return {"result": text(message["params"]["name"])}
    if method == "ping":
        return {"result": {}}
    return {"error": {"code": -32601, "message": "no such method"}}


def asks(message):
    return message.get("method") == "tools/call" and message["params"]["name"] == "ask"


def over_stdio():
    def send(message):
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()

    waiting = {}
    for line in sys.stdin:
        message = json.loads(line)
        if asks(message):
            key = f"q{message['id']}"
            waiting[key] = message["id"]
            send({"id": key, **QUESTION})
        elif "method" in message and "id" in message:
            send({"id": message["id"], **plain_answer(message)})
        elif message.get("id") in waiting:
            send({"id": waiting.pop(message["id"]), "result": text(json.dumps(message.get("result", message.get("error"))))})


SESSIONS = set()
REPLIES = {}
LOCK = threading.Lock()


class Http(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        session = self.headers.get("mcp-session-id")
        headers = {}
        if message.get("method") == "initialize":
            session = uuid.uuid4().hex
            with LOCK:
                SESSIONS.add(session)
            headers["mcp-session-id"] = session
        elif session is None:
            return self.answer(400, {"error": {"code": -32000, "message": "Server not initialized"}, "id": None})
        elif session not in SESSIONS:
            return self.answer(404, {"error": {"code": -32001, "message": "no such session"}, "id": None})
        if "method" not in message:
            with LOCK:
                event = REPLIES.get((session, message.get("id")))
                if event:
                    event[1] = message
                    event[0].set()
            return self.answer(202, None)
        if "id" not in message:
            return self.answer(202, None)
        if asks(message):
            return self.ask(session, message)
        self.answer(200, {"id": message["id"], **plain_answer(message)}, headers)

    def ask(self, session, message):
        key = f"q{message['id']}"
        event = [threading.Event(), None]
        with LOCK:
            REPLIES[session, key] = event
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.event({"id": key, **QUESTION})
        event[0].wait(60)
        with LOCK:
            REPLIES.pop((session, key), None)
        self.event({"id": message["id"], "result": text(json.dumps((event[1] or {}).get("result")))})
        self.close_connection = True

    def event(self, message):
        self.wfile.write(b"data: " + json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n\n")
        self.wfile.flush()

    def do_GET(self):
        if self.path == "/open":
            return self.answer(200, {"open": len(SESSIONS)})
        self.answer(405, None)

    def do_DELETE(self):
        with LOCK:
            SESSIONS.discard(self.headers.get("mcp-session-id"))
        self.answer(204, None)

    def answer(self, status, message, headers=None):
        body = b"" if message is None else json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if sys.argv[1] == "stdio":
    over_stdio()
else:
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Http)
    server.daemon_threads = True
    print("ready", flush=True)
    server.serve_forever()
