"""Which parts of two answers must be equal, and how a difference is shown."""

import json
import re

from servers.script import INVALID, MEANT, TASKED

# One cause usually makes many differences; the first few say enough.
DIFFERENCES_SHOWN_MAX = 3
# Of the era, not of the answer: what a modern result must have and a legacy one has not.
ENVELOPE = {"_meta", "resultType", "ttlMs", "cacheScope", "nextCursor"}
LISTED = ("outputSchema", "title", "description")
# Where an answer names something that Servanda renames when there are several upstreams.
URI_KEYS = {"uri", "uriTemplate"}
NAMED_LISTS = {"tools", "prompts"}
# What Servanda adds to the schemas it lists.
CLOSURE = ("additionalProperties", "unevaluatedProperties")
OPERATION = "servanda_operation_id"
# Servanda's own tool, which no server has: it fetches what long work ended with.
OWN_TOOLS = {"servanda__result"}
# What server-everything logs when told to: `Debug-level message`, `Alert level-message` and six more, at random.
RANDOM_MESSAGE = re.compile(r"^\"\w+[- ]level[- ]message")
ASKED_BY = re.compile(r"^\[asked by the tool server `[^`]+`\] ?")
# The modern era has one code less: a resource that is not there is -32602 instead.
RESOURCE_NOT_FOUND, INVALID_PARAMS = -32002, -32602


def canonical(value):
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def difference(expected, found, width=400):
    start = max(0, next((i for i, (a, b) in enumerate(zip(expected, found)) if a != b), 0) - 60)
    return f"    wanted: …{expected[start : start + width]}\n    found : …{found[start : start + width]}"


# ---- calls of tools -----------------------------------------------------------------------------------------------


def is_error(answer):
    return "result" in answer and answer["result"].get("isError") is True


def comparable_call(server, tool, answer):
    """Leaves out `_meta`, where Servanda reports on the call, and the era's envelope."""
    if "error" in answer:
        return canonical(answer)
    kept = {key: answer["result"][key] for key in ("content", "structuredContent", "isError") if key in answer["result"]}
    return canonical(server.normalise(tool, kept))


def with_own_addresses(value, upstream):
    """A result with the URIs its server wrote: Servanda gives every server an address space of its own."""
    if isinstance(value, list):
        return [with_own_addresses(item, upstream) for item in value]
    if not isinstance(value, dict):
        return value
    scheme = f"servanda://{upstream}/"
    return {
        key: item.removeprefix(scheme) if key in ("uri", "url") and isinstance(item, str) else with_own_addresses(item, upstream)
        for key, item in value.items()
    }


def same_call(server, call, answer, expected):
    """INVALID calls need only be errors on both sides, TASKED ones may succeed through Servanda, MEANT ones are refused by it
    (see servers/script.py)."""
    tool, _, kind = call
    if kind == MEANT:
        return is_error(answer) and '\\"gate\\":\\"behaviour\\"' in canonical(answer)
    if kind == TASKED:
        return "error" in answer or "gateways" in canonical(answer)
    if kind == INVALID and "error" in expected:
        return is_error(answer) or "error" in answer
    if kind == INVALID:
        return is_error(answer)
    return comparable_call(server, tool, answer) == comparable_call(server, tool, expected)


def opened(schema, root=True):
    """A schema without what Servanda writes into those it lists: the closure of objects that it enforces, and the argument by which a
    model names its operation. That it takes what the gates take is tested in `crates/catalog`."""
    if isinstance(schema, list):
        return [opened(item, False) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {
        key: opened(item, False)
        for key, item in schema.items()
        if not (key in CLOSURE and item is False) and not (root and key == "type")
    }
    if root:
        kept["properties"] = {key: item for key, item in kept.get("properties", {}).items() if key != OPERATION}
    return kept


def listed(answer, prefix=""):
    """name -> what a model is told about the tool: its arguments, its answers, its purpose."""
    return {
        tool["name"].removeprefix(prefix): canonical([opened(tool.get("inputSchema")), *(tool.get(key) for key in LISTED)])
        for tool in answer.get("result", {}).get("tools", [])
        if tool["name"].startswith(prefix) and tool["name"] not in OWN_TOOLS
    }


# ---- features -----------------------------------------------------------------------------------------------------


def addressed(step, upstream):
    """The step as a client of Servanda makes it when several upstreams share one address space."""
    changed = dict(step)
    if "name" in step:
        changed["name"] = f"{upstream}__{step['name']}"
    if "uri" in step:
        changed["uri"] = f"servanda://{upstream}/{step['uri']}"
    if "ref" in step:
        changed["ref"] = addressed(step["ref"], upstream)
    return changed


def unaddressed(value, upstream):
    """The inverse, in an answer; a list is reduced to the part of this upstream."""
    prefix, scheme = f"{upstream}__", f"servanda://{upstream}/"
    if isinstance(value, list):
        return [unaddressed(item, upstream) for item in value]
    if not isinstance(value, dict):
        return value
    changed = {}
    for key, item in value.items():
        if key in NAMED_LISTS and isinstance(item, list):
            item = [{**one, "name": one["name"].removeprefix(prefix)} for one in item if one["name"].startswith(prefix)]
        elif key in ("resources", "resourceTemplates"):
            item = [one for one in item if any(str(one.get(name)).startswith(scheme) for name in URI_KEYS)]
        if key in URI_KEYS and isinstance(item, str):
            changed[key] = item.removeprefix(scheme)
        else:
            changed[key] = unaddressed(item, upstream)
    return changed


def comparable(server, step, answer):
    """An answer to a step of a feature, as one text."""
    kept = {}
    if "error" in answer:
        # The words are the server's, the client's or Servanda's; the code decides what an agent does next.
        code = answer["error"].get("code", answer["error"]["kind"])
        kept["error"] = INVALID_PARAMS if code == RESOURCE_NOT_FOUND else code
    else:
        kept["result"] = {key: item for key, item in answer["result"].items() if key not in ENVELOPE}
        if "tools" in kept["result"]:
            kept["result"] = {"tools": listed(answer)}
    if "asked" in answer:
        kept["asked"] = [{"method": one["method"], "params": question(one["params"])} for one in answer["asked"]]
    if "told" in answer:
        kept["told"] = [told(one) for one in awaited(step, answer["told"])]
    return canonical(server.normalise("", kept))


def question(params):
    """`form` may be said or left out; the id of a URL elicitation is gone from the modern era. The gateway says who asks: a server
    that is asked directly does not, so the name is taken away where it stands."""
    kept = {key: item for key, item in params.items() if key not in {"_meta", "elicitationId"} and item is not None}
    for name in {"message", "systemPrompt"} & kept.keys():
        kept[name] = ASKED_BY.sub("", kept[name])
    if not kept.get("systemPrompt", "some"):
        del kept["systemPrompt"]
    return {**kept, "mode": kept.get("mode", "form")} if "message" in kept else kept


def awaited(step, notifications):
    """The events that the step is about. Only as many progress events as it waits for; a change may be announced twice."""
    kept, count = [], dict(step.get("told", {}))
    for one in notifications:
        method = one["method"]
        if str(one["params"].get("logger")).rpartition("/")[2] == "everything-server":
            continue  # it has received the roots, which it asks for some time after it was started
        if method == "notifications/message" or count.get(method, 0) > 0:
            count[method] = count.get(method, 0) - 1
            kept.append(one)
    return kept


def told(notification):
    params = {key: item for key, item in notification["params"].items() if key != "_meta" and item is not None}
    if notification["method"] == "notifications/message" and RANDOM_MESSAGE.search(canonical(params.get("data"))):
        params = {"level": "<random>", "data": "<random>"}
    if notification["method"] == "notifications/message":
        params.pop("logger", None)  # the gateway begins it with the server's name
    if notification["method"] == "notifications/progress":
        params.pop("progressToken", None)
    return {"method": notification["method"], "params": params}

