"""What needs more than a load on running targets: idle sessions, an open loop at half of what a target can do, and the ratio of durable
calls to raw inserts."""
import contextlib
import pathlib
import re
import statistics
import subprocess
import threading

import peers
import store
from counters import resident_mb
from measure import LEGACY, measured
from sessions import opened
from targets import http_server, world

SATURATED = "read, 256 connections, 2025-11-25"
SATURATED_QUICK = "read, 32 connections, 2025-11-25"
DURABLE_SECONDS_MAX = 300
# Direct is there to compare with; only a gateway has memory to watch for longer.
DIRECT_OPEN_LOOP_SECONDS_MAX = 60.0
MEMORY_SAMPLES = 10


def all_of(asked, folder, rows, emit):
    wanted = lambda name: not asked.only or name in asked.only
    if wanted("sessions"):
        idle_sessions(asked, folder / "sessions", emit)
    if wanted("open-loop"):
        open_loop(asked, folder / "open-loop", rows, emit)
    if wanted("durable") and asked.durable:
        durable(asked, folder / "durable", emit)


def idle_sessions(asked, folder, emit):
    count = 500 if asked.quick else 10_000
    folder.mkdir()
    with world(asked.servanda, asked.binaries, folder) as made:
        target = made.gateway("servanda", http_server(made.upstream("--tools", "10")))
        row = {"round": 0, "group": "sessions", "target": "servanda"}
        before = resident_mb(target.pids())
        ids, refused = opened(target.url, count)
        after = resident_mb(target.pids())
        each = round((after - before) * 1000 / max(len(ids), 1), 2)
        about = {"sessions": len(ids), "before_mb": before, "resident_mb": after, "kb_per_session": each, "errors": 1 if refused else 0}
        emit({**row, "case": f"{count:,} idle sessions", **about, **({"failed": refused} if refused else {})})
        load = measured(made, target, 32, asked.seconds, extra=("--expect", "hello"))
        emit({**row, "case": f"read, 32 connections, beside {count:,} idle sessions", **load})


def open_loop(asked, folder, rows, emit):
    """Latency from the moment at which each request was due, so that a stall counts for every request behind it."""
    folder.mkdir()
    with world(asked.servanda, asked.binaries, folder) as made:
        port = made.upstream("--tools", "10", "--structured")
        targets = [made.direct(port), made.gateway("servanda", http_server(port))]
        targets += [peers.start(made, name, port) for name in peers.named()]
        connections = 32 if asked.quick else 256
        for target in targets:
            rate = saturation(rows, target.name) or measured(made, target, connections, asked.seconds)["rps"]
            extra = ("--rate", f"{rate / 2:.0f}", "--expect", "hello")
            before = resident_mb(target.pids())
            seconds = min(asked.open_loop_seconds, DIRECT_OPEN_LOOP_SECONDS_MAX) if target.name == "direct" else asked.open_loop_seconds
            with resident_over_time(target.pids(), seconds / MEMORY_SAMPLES) as resident:
                row = measured(made, target, connections, seconds, era=LEGACY, extra=extra)
            case = f"open loop at half of saturation, {connections} connections"
            emit({"round": 0, "group": "open-loop", "case": case, "target": target.name, "rate": rate / 2, "before_mb": before, "resident_over_time_mb": resident, **row})


@contextlib.contextmanager
def resident_over_time(pids, every_seconds):
    """Reads the memory of the processes at even intervals while the block runs: memory that grows shows in the list."""
    seen, over = [], threading.Event()

    def watch():
        while not over.wait(every_seconds):
            seen.append(resident_mb(pids))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield seen
    finally:
        over.set()
        watcher.join()


def saturation(rows, target):
    for case in (SATURATED, SATURATED_QUICK):
        found = [row["rps"] for row in rows if row["case"] == case and row["target"] == target and row.get("rps")]
        if found:
            return statistics.median(found)
    return None


def durable(asked, folder, emit):
    """The ledger alone: whole durable calls against raw group-committed inserts, in one process and one run."""
    folder.mkdir()
    with contextlib.ExitStack() as stack:
        url = [stack.enter_context(store.postgresql(folder))()] if store.programs() else []
        done = subprocess.run([asked.durable, str(folder), *url], capture_output=True, text=True, timeout=DURABLE_SECONDS_MAX)
    text = done.stdout
    kept = "SQLite"
    for line in text.splitlines():
        kept = next((name for name in ("SQLite", "PostgreSQL") if name.lower() in line.lower()), kept)
        found = re.search(r"(\d+) in flight:\s+(\d+) raw inserts/s, (\d+) durable calls/s, ratio ([\d.]+)", line)
        if found:
            numbers = {"raw_inserts": int(found[2]), "rps": float(found[3]), "ratio": float(found[4])}
            emit({"round": 0, "group": "durable", "case": f"durable calls of raw inserts, {found[1]} in flight", "target": kept, **numbers})
    pathlib.Path(asked.out, "durable.txt").write_text(text + done.stderr)
