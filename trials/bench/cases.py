"""The cases, in groups. A group has targets that run side by side, and cases that are measured on each of them in turns; the order of
the targets moves by one place with every round."""
from dataclasses import dataclass, field

import peers
import store
import variants
from measure import ERAS, LEGACY
from targets import ENTRY, http_server

WRITE_TOOL = "tool_0003"


@dataclass
class Case:
    """A load. `targets` names those it is for; all if empty. `syscalls` are calls for which system calls are counted, once a run."""

    name: str
    connections: int
    era: str = LEGACY
    extra: tuple = ()
    targets: tuple = ()
    syscalls: int = 0
    seconds: float | None = None


@dataclass
class Group:
    """`start(world)` starts the targets of a round; `after` cleans up what they leave outside the world's folder."""

    name: str
    title: str
    start: object
    cases: list
    after: list = field(default_factory=list)


def counted(connections):
    return "1 connection" if connections == 1 else f"{connections} connections"


def expecting(word="hello"):
    return ("--expect", word)


def reads(options):
    """The upstream answers with structured content, and the contract has its output schema: every check is on."""
    clean = []

    def start(world):
        port = world.upstream("--tools", "10", "--structured")
        disk, cleaned = variants.without_disk(world)
        clean.append(cleaned)
        server = http_server(port)
        made = [
            world.direct(port),
            world.rmcp("--tools", "10"),
            world.relay(port),
            world.gateway("servanda", server, note="all gates, records in SQLite, built-in policies, output schema"),
            world.gateway("servanda, no disk", server, disk, note="the ledger in memory: what the disk costs"),
            world.gateway("servanda, no log", server, variants.without_log, note="the verifiable log is off"),
            world.gateway("servanda, policies", server, variants.with_policies, note=f"{variants.POLICIES} more policies"),
            world.gateway("servanda, no output schema", server, variants.without_output_schema(world), note="results are not checked"),
        ]
        return made + [peers.start(world, name, port) for name in peers.named()]

    connections = (1, 32) if options.quick else (1, 32, 256)
    cases = [
        Case(f"read, {counted(count)}, {era}", count, era, expecting(), syscalls=0 if count == 256 else 2_000)
        for era in ERAS for count in connections
    ]
    return Group("reads", "Reads", start, cases, clean)


def large(options, size, label):
    def start(world):
        port = world.upstream("--tools", "10", "--result-bytes", str(size))
        made = [world.direct(port), world.relay(port), world.gateway("servanda", http_server(port))]
        return made + [peers.start(world, name, port) for name in peers.named()]

    return Group(f"result-{label}", f"Results of {label}", start, [Case(f"result of {label}, 8 connections", 8, extra=expecting())])


def tools(options, count):
    def start(world):
        port = world.upstream("--tools", str(count))
        return [world.direct(port), world.gateway("servanda", http_server(port))]

    listing = Case(f"tools/list of {count:,}", 1, extra=("--method", "tools/list"))
    calling = Case(f"read among {count:,} tools, 32 connections", 32, extra=expecting())
    return Group(f"tools-{count}", f"{count:,} tools", start, [listing, calling])


def writes(options, postgresql):
    """Calls that change something: claimed before a byte leaves and settled before the answer, each a durable commit."""

    def start(world):
        port = world.upstream("--tools", "10")
        server, tool, writing = http_server(port), f"{ENTRY}__{WRITE_TOOL}", variants.writing(world, WRITE_TOOL)
        made = [world.direct(port), world.gateway("servanda, SQLite", server, writing, tool)]
        made[0].tool = WRITE_TOOL
        if postgresql:
            both = lambda folder: (writing(folder), variants.with_ledger(postgresql())(folder))
            made.append(world.gateway("servanda, PostgreSQL", server, both, tool))
        return made

    each = ("--args", '{"message":"hello $N"}', *expecting())
    return Group("writes", "Durable writes", start, [Case(f"write, {count} in flight", count, extra=each) for count in (1, 64)])


def stdio(options):
    def start(world):
        command = {"command": str(world.binaries / "mcp-echo"), "args": ["--stdio", "--tools", "10"]}
        port = world.upstream("--tools", "10")
        return [world.direct(port), world.gateway("servanda, stdio", command, note="the server is a child process")]

    return Group("stdio", "A server over stdio", start, [Case(f"stdio, {counted(count)}", count, extra=expecting()) for count in (1, 32)])


def chosen(options, postgresql):
    """The groups of a run."""
    few = options.quick
    groups = [
        reads(options), large(options, 100_000, "100 KB"), large(options, 1_000_000, "1 MB"), tools(options, 10),
        tools(options, 100 if few else 1_000), *([] if few else [tools(options, 10_000)]), writes(options, postgresql), stdio(options),
    ]
    return [group for group in groups if not options.only or group.name in options.only]


def has_postgresql():
    return store.programs() is not None
