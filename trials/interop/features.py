"""What the protocol has beside tools, and what real servers do with it: resources, prompts, completions, logging,
progress, and the requests a server makes of its client. The client declares roots, sampling and elicitation.

A feature is a list of steps, and passes when every answer through Servanda is the answer without it. A step:
  list       `what`: tools, resources, resourceTemplates or prompts
  call       `name`, `arguments`; `progress` asks for it; `log_level` asks for log messages, in the way of the era;
             `until` repeats the call until the answer contains that text
  follow     calls a tool, and reads the first resource its answer links to, by the URI in the link
  read       `uri`
  prompt     `name`, `arguments`
  complete   `ref`, `argument`, `context`
  subscribe, unsubscribe  `uri`: in the modern era, `subscriptions/listen`
  changes    `what`: asks to be told when that list changes; the legacy era does not have to ask
  level      `level`: logging/setLevel                                         (legacy)
  roots      `roots`: the client's roots are now these, and it says so          (legacy)
  task, task-cancelled  calls a tool as a task of 2025-11-25                    (legacy, and clients that have it)
`answers` is what the client answers when it is asked, `told` how many notifications to wait for; both are compared. A
step with `answers` is only for clients that can declare roots, sampling and elicitation.
"""

from dataclasses import dataclass

LEGACY_ONLY = {"level", "roots", "task", "task-cancelled"}
DECLARING = "declaring"  # the client can declare roots, sampling and elicitation, and answer
EVENTS = "events"  # the client shows notifications
CODES = "codes"  # the client passes on the code of an error
EMBEDDED = "embedded"  # the client passes on resources in prompts
ROOTS = [{"uri": "file:///srv/interop", "name": "first ☕"}]
OTHER_ROOTS = [{"uri": "file:///srv/other", "name": "second"}]
ARCHIVED = "data:text/plain;base64,SGVsbG8sIHdvcmxkIQ=="


@dataclass(frozen=True)
class Feature:
    server: str
    name: str
    steps: tuple  # every one also says of which feature it is
    legacy_only: bool = False
    slow: bool = False  # left out of --quick

    @property
    def label(self):
        return f"{self.server}/{self.name}"

    @property
    def needs(self):
        """What a client must be able to do for it."""
        needs = {f"list {step['what']}" if step["do"] == "list" else step["do"] for step in self.steps}
        needs |= {DECLARING for step in self.steps if "answers" in step or step["do"] == "roots"}
        needs |= {step["needs"] for step in self.steps if "needs" in step}
        needs |= {EVENTS for step in self.steps if "told" in step or "log_level" in step}
        return needs

    def fits(self, abilities, modern):
        return self.needs <= abilities and not (modern and (self.legacy_only or self.needs & LEGACY_ONLY))


def listing(what):
    return {"do": "list", "what": what}


def call(name, **more):
    return {"do": "call", "name": name, "arguments": {}, **more}


def read(uri):
    return {"do": "read", "uri": uri}


def prompt(name, /, **arguments):
    return {"do": "prompt", "name": name, **({"arguments": arguments} if arguments else {})}


def complete_prompt(name, argument, value, /, **context):
    ref = {"type": "ref/prompt", "name": name}
    return {"do": "complete", "ref": ref, "argument": {"name": argument, "value": value}, "context": context or None}


def complete_template(uri, argument, value):
    ref = {"type": "ref/resource", "uri": uri}
    return {"do": "complete", "ref": ref, "argument": {"name": argument, "value": value}}


def asked(name, method, answer, /, **arguments):
    return {"do": "call", "name": name, "arguments": arguments, "answers": {method: answer}}


UPDATED = "notifications/resources/updated"
MESSAGE = "notifications/message"
PROGRESS = "notifications/progress"
DYNAMIC = "demo://resource/dynamic/text/1"
FILLED_FORM = {
    "name": "Ada ☕",
    "check": True,
    "email": "ada@example.org",
    "birthdate": "1815-12-10",
    "integer": 42,
    "number": 3.14,
    "untitledMultipleSelectEnum": ["Guitar", "Piano"],
}
CLARIFIED = {"action": "accept", "content": {"interpretation": "snake"}}
SAMPLED = {
    "role": "assistant",
    "content": {"type": "text", "text": "a canned answer ☕"},
    "model": "canned",
    "stopReason": "endTurn",
}


def elicitation(answer):
    return asked("trigger-elicitation-request", "elicitation/create", answer)


def url_elicitation(action):
    arguments = {"url": "https://example.org/sign-in", "message": "Sign in ☕", "elicitationId": "interop-1"}
    return asked("trigger-url-elicitation", "elicitation/create", {"action": action}, **arguments)


def archive(name, do="call", **more):
    return {"do": do, "name": "gzip-file-as-resource", "arguments": {"name": name, "data": ARCHIVED}, **more}


def research(do="task", **arguments):
    return {"do": do, "name": "simulate-research-query", "arguments": {"topic": "python", **arguments}}


EVERYTHING = {
    # With capabilities declared it lists more tools than without: those that ask the client for something.
    "tools-list": [{**listing("tools"), "answers": {}}],
    "resources-list": [listing("resources")],
    "resources-templates": [listing("resourceTemplates")],
    "resources-read": [
        read("demo://resource/static/document/features.md"),
        read("demo://resource/dynamic/text/7"),
        read("demo://resource/dynamic/blob/1"),
    ],
    "resources-read-unknown": [{**read("demo://resource/nowhere"), "needs": CODES}],
    "resources-link": [archive("linked.gz", do="follow")],
    "resources-list-changed": [
        {"do": "changes", "what": "resources"},
        archive("changed.gz", told={"notifications/resources/list_changed": 1}),
        listing("resources"),
    ],
    "resources-subscribe": [
        {"do": "subscribe", "uri": DYNAMIC},
        call("toggle-subscriber-updates", told={UPDATED: 1}),
        call("toggle-subscriber-updates"),
        {"do": "unsubscribe", "uri": DYNAMIC},
    ],
    "prompts-list": [listing("prompts")],
    "prompts-get": [
        prompt("simple-prompt"),
        prompt("args-prompt", city="Brno ☕", state="Morava"),
        prompt("args-prompt", city="Brno"),
        prompt("completable-prompt", department="Sales", name="Eve"),
    ],
    "prompts-get-resource": [{**prompt("resource-prompt", resourceType="Text", resourceId="3"), "needs": EMBEDDED}],
    "prompts-get-invalid": [{**prompt("args-prompt", state="Morava"), "needs": CODES}],
    "completion-prompt": [
        complete_prompt("completable-prompt", "department", "S"),
        complete_prompt("completable-prompt", "name", "", department="Support"),
        complete_prompt("completable-prompt", "name", "Z", department="Support"),
    ],
    "completion-template": [complete_template("demo://resource/dynamic/text/{resourceId}", "resourceId", "12")],
    # It logs once at once, at a random level, and then every 5 s; at `debug` everything is sent.
    "logging": [
        call("toggle-simulated-logging", log_level="debug", told={MESSAGE: 1}),
        call("toggle-simulated-logging", log_level="debug"),
    ],
    # It logs every subscription at `info`. What is below the level must stay away, also from the next step.
    "logging-level": [
        {"do": "level", "level": "error"},
        {"do": "subscribe", "uri": DYNAMIC},
        {"do": "level", "level": "info"},
        {"do": "unsubscribe", "uri": DYNAMIC, "told": {MESSAGE: 1}},
    ],
    "progress": [
        call(
            "trigger-long-running-operation",
            arguments={"duration": 0.3, "steps": 3},
            progress=True,
            # Not the third: TypeScript clients drop a notification that arrives together with the answer.
            told={PROGRESS: 2},
        ),
    ],
    "elicitation-accept": [elicitation({"action": "accept", "content": FILLED_FORM})],
    "elicitation-decline": [elicitation({"action": "decline"})],
    "elicitation-cancel": [elicitation({"action": "cancel"})],
    "elicitation-url": [url_elicitation("accept"), url_elicitation("decline")],
    "sampling": [
        asked("trigger-sampling-request", "sampling/createMessage", SAMPLED, prompt="Say hello ☕", maxTokens=20),
    ],
    "roots": [call("get-roots-list", answers={})],
    "roots-changed": [
        {"do": "roots", "roots": OTHER_ROOTS},
        call("get-roots-list", until=OTHER_ROOTS[0]["uri"]),
    ],
    "task": [research()],
    "task-asks": [{**research(ambiguous=True), "answers": {"elicitation/create": CLARIFIED}}],
    "task-cancel": [research("task-cancelled")],
}
MEMORY = {
    "resources-list": [listing("resources")],
    "resources-read": [
        call("create_entities", arguments={"entities": [{"name": "Ada", "entityType": "person", "observations": []}]}),
        read("memory://knowledge-graph"),
    ],
    "resources-subscribe": [
        {"do": "subscribe", "uri": "memory://knowledge-graph"},
        call("delete_entities", arguments={"entityNames": ["Ada"]}, told={UPDATED: 1}),
        read("memory://knowledge-graph"),
        {"do": "unsubscribe", "uri": "memory://knowledge-graph"},
        call("delete_entities", arguments={"entityNames": ["Ada"]}),
    ],
}
SQLITE = {
    "resources-list": [listing("resources")],
    "resources-read": [
        read("memo://insights"),
        call("append_insight", arguments={"insight": "hrnky ☕ sell"}),
        read("memo://insights"),
    ],
    "prompts-list": [listing("prompts")],
    "prompts-get": [prompt("mcp-demo", topic="mugs ☕")],
}

# Only 2025-11-25 has this feature, or the client would express it differently from the server.
LEGACY_FEATURES = {"roots-changed", "logging-level"}
SLOW_FEATURES = {"task", "task-asks"}  # its research takes 4 s
FEATURES = [
    Feature(
        server,
        name,
        tuple({**step, "feature": f"{server}/{name}"} for step in steps),
        name in LEGACY_FEATURES,
        name in SLOW_FEATURES,
    )
    for server, features in {"everything": EVERYTHING, "memory": MEMORY, "sqlite": SQLITE}.items()
    for name, steps in features.items()
]
