"""An MCP server of both eras whose tools ask in the way of one: `both_eras.py stdio LOG` or `both_eras.py http LOG`.

`consult` sends the client a request and waits for the answer, whatever era it is called in; a modern client never sees that
request. `confirm` asks by its answer. Like some real servers it lists only modern versions. Every message is noted in LOG as
process, era and method. Standard library only.
"""
import json, os, queue, sys, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MODE, LOG = sys.argv[1], sys.argv[2]
MODERN = "2026-07-28"
PREFIX = "io.modelcontextprotocol/"
QUESTION = {"messages": [{"role": "user", "content": {"type": "text", "text": "Which?"}}], "maxTokens": 10}
FORM = {"mode": "form", "message": "Sure?", "requestedSchema": {"type": "object", "properties": {"ok": {"type": "boolean"}}}}
waiting = {}
lock = threading.Lock()
counter = [0]


def era_of(params):
    return "modern" if (params.get("_meta") or {}).get(PREFIX + "protocolVersion") else "legacy"


def note(era, method):
    with lock, open(LOG, "a") as log:
        log.write(f"{os.getpid()} {era} {method}\n")


def number():
    with lock:
        counter[0] += 1
        return counter[0]


def ask(send, method, params):
    """Asks the client and waits for as long as it takes."""
    id = f"ask-{number()}"
    answers = waiting[id] = queue.Queue()
    send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
    return answers.get()


def said(text):
    return {"resultType": "complete", "content": [{"type": "text", "text": text}]}


def call(params, send):
    name, era = params["name"], era_of(params)
    if name == "consult":
        reply = ask(send, "sampling/createMessage", QUESTION)
        return said(f"{era}: {reply.get('result', {}).get('content', {}).get('text', 'nothing')}")
    if name == "confirm":
        answers = params.get("inputResponses")
        if answers is None:
            wanted = {"sure": {"method": "elicitation/create", "params": FORM}}
            return {"resultType": "input_required", "inputRequests": wanted}
        return said(f"{era}: {answers['sure']['content']['ok']}")
    return said(era)


def answer(message, send):
    """The result of a request, after whatever is said before it; none of a notification."""
    method, id, params = message.get("method"), message.get("id"), message.get("params") or {}
    if method is None:
        waiting.pop(id, queue.Queue()).put(message)
        return None
    note(era_of(params), method)
    if id is None:
        return None
    tool = lambda name: {"name": name, "inputSchema": {"type": "object"}}
    if method == "server/discover":
        return {"resultType": "complete", "supportedVersions": [MODERN], "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private"}
    if method == "initialize":
        info = {"name": "both", "version": "1"}
        return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {"resultType": "complete", "tools": [tool("consult"), tool("confirm"), tool("era")], "ttlMs": 0, "cacheScope": "private"}
    return call(params, send)


def reply(message, send):
    result = answer(message, send)
    if result is not None:
        send({"jsonrpc": "2.0", "id": message["id"], "result": result})


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_GET(self):
        self.send_response(405)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_DELETE = do_GET

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if message.get("id") is None or message.get("method") is None:
            answer(message, None)
            self.send_response(202)
            self.send_header("Content-Length", "0")
            return self.end_headers()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        if message["method"] == "initialize":
            self.send_header("Mcp-Session-Id", f"session-{number()}")
        self.end_headers()
        reply(message, self.event)
        self.chunk(b"")

    def event(self, message):
        self.chunk(f"data: {json.dumps(message)}\n\n".encode())

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()


def write(message):
    with lock:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


if MODE == "http":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    with open(LOG + ".new", "w") as port:
        port.write(str(server.server_port))
    os.rename(LOG + ".new", LOG + ".port")
    server.serve_forever()
for line in sys.stdin:
    threading.Thread(target=reply, args=(json.loads(line), write), daemon=True).start()
