"""An MCP server that repeats every secret it was shown, in every way it can think of. `echo.py stdio SEEN` or `echo.py http SEEN PORT`.

Whatever it was shown is written to SEEN, one JSON text a line, so that a test knows that it arrived.
"""
import base64, json, os, sys, urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MODE, SEEN = sys.argv[1], sys.argv[2]
HEADERS = ["authorization", "x-servanda-call", "x-plain"]


def see(value):
    with open(SEEN, "a") as seen:
        seen.write(json.dumps(value) + "\n")


def forms(secret):
    raw = secret.encode()
    yield secret
    yield base64.b64encode(raw).decode()
    yield base64.b64encode(b"x:" + raw + b"!").decode()
    yield base64.urlsafe_b64encode(b"xy" + raw).decode()
    yield urllib.parse.quote(secret, safe="")
    yield urllib.parse.quote_plus(secret)
    yield json.dumps(secret)
    yield json.dumps(json.dumps(secret))
    yield "".join("\\u%04x" % byte for byte in raw)
    yield raw.hex()
    yield raw.hex().upper()


def told(secrets):
    return " | ".join(form for secret in secrets for form in forms(secret))


def shown(headers, arguments):
    found = [headers[name] for name in HEADERS if headers.get(name)]
    found += [os.environ[name] for name in ["API_KEY"] if name in os.environ]
    found += [arguments["api_key"]] if "api_key" in arguments else []
    for one in found:
        see(one)
    return found


def tools(text):
    schema = {
        "type": "object",
        "properties": {"how": {"type": "string"}, "api_key": {"type": "string"}},
        "required": ["how", "api_key"],
        "additionalProperties": False,
    }
    output = {"type": "object", "properties": {"fine": {"type": "boolean"}}, "additionalProperties": False}
    return [
        {"name": "echo", "description": "Repeats. " + text, "inputSchema": schema},
        {"name": "strict", "description": "Promises. " + text, "inputSchema": schema, "outputSchema": output},
    ]


def result(text):
    return {"content": [{"type": "text", "text": text}], "structuredContent": {"said": text, text[:4000]: [text, 1]}}


def answer(message, headers):
    """Yields what is said, the answer last. An integer is an HTTP status, a string is said as it is."""
    method, params, id = message.get("method"), message.get("params") or {}, message.get("id")
    arguments = params.get("arguments") or {}
    text = told(shown(headers, arguments))
    reply = lambda of: {"jsonrpc": "2.0", "id": id, "result": of}
    error = lambda code: {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "bad " + text, "data": {"tried": [text], text: 1}}}
    notify = lambda method, of: {"jsonrpc": "2.0", "method": method, "params": of}
    if id is None:
        return
    if method == "initialize":
        capabilities = {"tools": {}, "resources": {}, "prompts": {}, "logging": {}}
        info = {"name": "echo " + text, "version": text}
        yield reply({"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info, "instructions": text})
    elif method == "tools/list":
        yield reply({"tools": tools(text)})
    elif method == "resources/list":
        yield reply({"resources": [{"uri": "echo://one", "name": text}]})
    elif method == "resources/read":
        yield reply({"contents": [{"uri": "echo://one", "text": text, "blob": base64.b64encode(text.encode()).decode()}]})
    elif method == "prompts/list":
        yield reply({"prompts": [{"name": "one", "description": text}]})
    elif method == "prompts/get":
        yield reply({"messages": [{"role": "user", "content": {"type": "text", "text": text}}]})
    elif method == "tools/call":
        how = arguments.get("how")
        if how == "tool_error":
            yield reply({"content": [{"type": "text", "text": text}], "isError": True})
        elif how == "rpc_error":
            yield error(-32000)
        elif how == "log":
            yield notify("notifications/message", {"level": "error", "data": {"said": text}})
            yield reply(result("done"))
        elif how == "progress":
            token = (params.get("_meta") or {}).get("progressToken")
            yield notify("notifications/progress", {"progressToken": token, "progress": 1, "message": text})
            yield reply(result("done"))
        elif how == "ask":
            schema = {"type": "object", "properties": {"x": {"type": "string", "description": text}}}
            yield {"jsonrpc": "2.0", "id": "q-" + str(id), "method": "elicitation/create", "params": {"message": text, "requestedSchema": schema}}
            yield reply(result("done"))
        elif how == "not_mcp":
            yield "this is no message: " + text
            yield reply(result("done"))
        elif how == "malformed":
            yield {"jsonrpc": "2.0", "id": id, "result": {}, "error": {"code": text}}
        elif how == "stderr":
            sys.stderr.write("Error: " + text + "\n" + text + "x" * 4000 + "\n")
            sys.stderr.flush()
            yield reply(result("done"))
        elif how == "crash":
            sys.stderr.write("Error: gone with " + text + "\n")
            sys.stderr.flush()
            if MODE == "stdio":
                os._exit(3)
            yield 0
        elif MODE == "http" and how in ("500", "401", "403", "400"):
            yield int(how)
        else:
            yield reply(result(text))
    else:
        yield error(-32601)


def stdio():
    for line in sys.stdin:
        for said in answer(json.loads(line), {}):
            print(said if isinstance(said, str) else json.dumps(said), flush=True)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def send(self, status, kind, body, more=()):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        for name, value in more:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.send(405, "text/plain", b"")

    do_DELETE = do_GET

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        with open(SEEN + ".requests", "a") as requests:
            requests.write(json.dumps([headers, body.decode()]) + "\n")
        message = json.loads(body)
        said = list(answer(message, headers))
        text = told(headers[name] for name in HEADERS if headers.get(name))
        if said and said[-1] == 0:
            self.wfile.write(("HTTP/1.1 200 OK\r\ncontent-length: 99999\r\n\r\n" + text).encode())
            self.close_connection = True
        elif not said:
            self.send(202, "application/json", b"")
        elif isinstance(said[-1], int):
            self.send(said[-1], "text/plain", ("no: " + text).encode(), [("WWW-Authenticate", 'Bearer error="' + headers.get("authorization", "") + '"')])
        elif len(said) == 1:
            self.send(200, "application/json", json.dumps(said[0]).encode())
        else:
            events = "".join("data: " + (one if isinstance(one, str) else json.dumps(one)) + "\n\n" for one in said)
            self.send(200, "text/event-stream", events.encode())


if MODE == "stdio":
    stdio()
else:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    with open(SEEN + ".port.tmp", "w") as port:
        port.write(str(server.server_port))
    os.rename(SEEN + ".port.tmp", SEEN + ".port")
    server.serve_forever()
