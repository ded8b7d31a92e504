"""An MCP server of which everything can be read, asked, watched and announced. `tenants.py ID HEARD`: the tools that were called are written to HEARD."""
import json, sys

ID, HEARD = sys.argv[1], sys.argv[2]
TOOLS = ["note", "slow", "write", "ask", "announce", "limited", "send", "staff", "release"]
BOOK = "book://" + ID
state = {"extra": False, "asked": {}, "slow": []}


def say(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def result(text):
    return {"content": [{"type": "text", "text": text}]}


def announce(params, of):
    token = (params.get("_meta") or {}).get("progressToken")
    if of == "all":
        state["extra"] = not state["extra"]
        for kind in ["tools", "prompts", "resources"]:
            say({"method": "notifications/" + kind + "/list_changed"})
        say({"method": "notifications/message", "params": {"level": "error", "data": ID + " logged"}})
        if token is not None:
            say({"method": "notifications/progress", "params": {"progressToken": token, "progress": 1}})
    say({"method": "notifications/resources/updated", "params": {"uri": BOOK}})


def call(id, params):
    name, arguments = params["name"], params.get("arguments") or {}
    with open(HEARD, "a") as heard:
        heard.write(name + " " + json.dumps(arguments) + "\n")
    if name == "slow":
        state["slow"].append(id)
        return None
    if name == "release":
        while state["slow"]:
            say({"id": state["slow"].pop(), "result": result("at last")})
    if name == "ask":
        state["asked"]["q%s" % id] = id
        schema = {"type": "object", "properties": {"word": {"type": "string"}}}
        say({"id": "q%s" % id, "method": "elicitation/create", "params": {"message": "Which word?", "requestedSchema": schema}})
        return None
    if name == "announce":
        announce(params, arguments.get("text"))
    return result(ID + " says " + str(arguments.get("text")))


def answer(id, method, params):
    if method == "initialize":
        changing = {"listChanged": True}
        capabilities = {"tools": changing, "prompts": changing, "resources": {**changing, "subscribe": True}, "completions": {}, "logging": {}}
        return {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": {"name": ID, "version": "1"}}
    if method == "tools/list":
        names = TOOLS + (["extra"] if state["extra"] else [])
        return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names]}
    if method == "tools/call":
        return call(id, params)
    return {
        "resources/list": {"resources": [{"uri": BOOK, "name": ID}]},
        "resources/templates/list": {"resourceTemplates": [{"uriTemplate": BOOK + "/{page}", "name": ID}]},
        "resources/read": {"contents": [{"uri": BOOK, "text": "of " + ID}]},
        "resources/subscribe": {},
        "resources/unsubscribe": {},
        "prompts/list": {"prompts": [{"name": "greet"}]},
        "prompts/get": {"messages": [{"role": "user", "content": {"type": "text", "text": ID}}]},
        "completion/complete": {"completion": {"values": [ID]}},
        "logging/setLevel": {},
        "ping": {},
    }.get(method, 0)


for line in sys.stdin:
    message = json.loads(line)
    id, method = message.get("id"), message.get("method")
    if method is None:
        asked = state["asked"].pop(id, None)
        if asked is not None:
            say({"id": asked, "result": result("heard " + json.dumps(message.get("result")))})
    elif id is not None:
        said = answer(id, method, message.get("params") or {})
        if said == 0:
            say({"id": id, "error": {"code": -32601, "message": "unknown"}})
        elif said is not None:
            say({"id": id, "result": said})
