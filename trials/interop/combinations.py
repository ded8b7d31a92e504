"""The clients of the trial, what each can do, and which combinations of client, era and transport are run."""

from dataclasses import dataclass
from pathlib import Path

from features import CODES, DECLARING, EMBEDDED, EVENTS, FEATURES

HERE = Path(__file__).resolve().parent
TOOLS = HERE.parent.parent / ".tools"
PYTHON_1, PYTHON_2 = str(TOOLS / "py1/bin/python"), str(TOOLS / "py2/bin/python")
DRIVE_PY, DRIVE_MJS = str(HERE / "drive.py"), str(HERE / "drive.mjs")

LISTS = {"list tools", "list resources", "list resourceTemplates", "list prompts"}
BASIC = LISTS | {"call", "read", "prompt", CODES, EMBEDDED}
FULL = BASIC | {"follow", "complete", "subscribe", "unsubscribe", "changes", "level", "roots", DECLARING, EVENTS}
TASKS = {"task", "task-cancelled"}


@dataclass(frozen=True)
class Client:
    command: list
    eras: list  # `auto` is what a user gets from a client that probes for the era
    abilities: set
    # Some clients change answers, or refuse a call on their own; directly and through Servanda alike.
    verbatim: bool = True
    # The Inspector starts a process, and a session, for every step: it makes few calls, which need not know each other.
    single: bool = False


CLIENTS = {
    "py2": Client([PYTHON_2, DRIVE_PY, "--client", "official"], ["legacy", "modern", "auto"], FULL),
    "py1": Client([PYTHON_1, DRIVE_PY, "--client", "official"], ["legacy"], FULL | TASKS),
    "ts2": Client(["node", DRIVE_MJS, "--package", "client"], ["legacy", "modern", "auto"], FULL),
    "ts1": Client(["node", DRIVE_MJS, "--package", "sdk"], ["legacy"], FULL | TASKS),
    "fastmcp": Client([PYTHON_2, DRIVE_PY, "--client", "fast"], ["legacy", "modern", "auto"], FULL),
    "agents": Client([PYTHON_2, DRIVE_PY, "--client", "openai_agents"], ["auto"], BASIC | {"follow"}, verbatim=False),
    "langchain": Client(
        [PYTHON_1, DRIVE_PY, "--client", "langchain"],
        ["legacy"],
        {"list tools", "call", "read", "prompt"},
        verbatim=False,
    ),
    "inspector": Client(
        [PYTHON_2, str(HERE / "drive_inspector.py")],
        ["legacy", "modern", "auto"],
        BASIC | {"task"},
        verbatim=False,
        single=True,
    ),
}
TRANSPORTS = ["http", "stdio"]
EVERY = [(client, era, over) for client, one in CLIENTS.items() for era in one.eras for over in TRANSPORTS]
# How Servanda names things -> the servers behind it when features are tried: alone with bare names, or several.
NAMINGS = {"bare": ["everything"], "prefixed": ["everything", "memory", "sqlite"]}
# Servanda is dual-era, so whatever its upstreams speak, a client gets the era it asks for.
VERSION_EXPECTED = {"legacy": "2025-11-25", "modern": "2026-07-28", "auto": "2026-07-28"}

# Features whose steps share what a server keeps in its own memory.
REMEMBERED = {"sqlite/resources-read"}

ALL_SERVERS = ["filesystem", "git", "sqlite", "everything", "memory", "time"]


@dataclass(frozen=True)
class Plan:
    """What one combination does: calls the tools of these servers, and tries features under these namings."""

    combination: tuple
    servers: tuple
    namings: tuple
    slow: bool = True

    @property
    def client(self):
        return CLIENTS[self.combination[0]]

    @property
    def modern(self):
        return VERSION_EXPECTED[self.combination[1]] == VERSION_EXPECTED["modern"]

    def features(self, naming):
        return [one for one in features_of(self.combination, naming) if self.slow or not one.slow]


def features_of(combination, naming):
    client, era, _ = combination
    modern = VERSION_EXPECTED[era] == VERSION_EXPECTED["modern"]
    usable = [one for one in FEATURES if one.server in NAMINGS[naming] and one.fits(CLIENTS[client].abilities, modern)]
    # A process for every step starts a stdio server for every step: directly, nothing is left of what the server remembered.
    return [one for one in usable if not (CLIENTS[client].single and one.label in REMEMBERED)]


def full_plan():
    return [Plan(combination, servers_for(combination), tuple(NAMINGS)) for combination in EVERY]


def servers_for(combination):
    # A client that starts `servanda stdio` anew for every call starts all that is behind it anew: two will do.
    client, _, transport = combination
    return ("everything", "time") if CLIENTS[client].single and transport == "stdio" else tuple(ALL_SERVERS)


def quick_plan():
    """Every client and every server, both transports, both eras, both namings; as little as possible of the product."""
    return [
        Plan(("py2", "modern", "http"), tuple(ALL_SERVERS), ("bare",), slow=False),
        Plan(("ts2", "legacy", "stdio"), tuple(ALL_SERVERS), ("prefixed",), slow=False),
        Plan(("py1", "legacy", "http"), ("sqlite", "time"), (), slow=False),
        Plan(("ts1", "legacy", "stdio"), ("memory", "git"), (), slow=False),
        Plan(("fastmcp", "auto", "http"), ("everything", "git"), (), slow=False),
        Plan(("agents", "auto", "stdio"), ("filesystem", "time"), (), slow=False),
        Plan(("langchain", "legacy", "http"), ("memory", "everything"), (), slow=False),
        Plan(("inspector", "auto", "http"), ("everything", "time"), (), slow=False),
    ]
