"""One measurement: a load on a target, and what the target and the machine spent meanwhile."""
import json
import os
import subprocess

import syscalls
from counters import Reading, Spent, others_share, peak_mb, resident_mb

LEGACY, MODERN = "2025-11-25", "2026-07-28"
ERAS = (LEGACY, MODERN)
# Answers that a quick machine gives in a second; the kernel counts processor time in hundredths of one.
LOAD_SECONDS_MAX = 600


def load(world, target, connections, seconds, *, era=LEGACY, warmup=1.0, extra=()):
    """Runs mcp-load against a target; its report."""
    command = [
        world.binaries / "mcp-load", "--json", "--url", target.url, "--tool", target.tool, "-c", connections, "-s", seconds,
        "--warmup", warmup, "--protocol", era, *[word for header in target.headers for word in ("--header", header)], *extra,
    ]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=LOAD_SECONDS_MAX + float(seconds) * 3)
    if done.returncode:
        return {"failed": done.stderr.strip()[-400:], "errors": 1, "rps": 0.0, "answered_with_warmup": 0}
    return json.loads(done.stdout)


def measured(world, target, connections, seconds, **how):
    """A load with what the target spent on each call, warm-up included in both."""
    pids = target.pids()
    everybody = [pid for process in world.started for pid in process.all_pids()]
    before, all_before = Reading(pids), Reading(everybody)
    children_before = os.times()
    report = load(world, target, connections, seconds, **how)
    after, all_after = Reading(pids), Reading(everybody)
    children_after = os.times()
    calls = report["answered_with_warmup"]
    generator_s = sum(children_after[2:4]) - sum(children_before[2:4])
    own_s = all_after.processor_s - all_before.processor_s + generator_s
    row = {key: report.get(key) for key in ("rps", "p50", "p90", "p99", "p999", "max", "errors", "requests", "tools_listed", "response_bytes")}
    row.update(calls=calls, others=others_share(all_before, all_after, own_s))
    if pids:
        row.update(Spent(before, after).per_call(calls), resident_mb=resident_mb(pids), peak_mb=peak_mb(pids))
    for key in ("failed", "first_errors"):
        if report.get(key):
            row[key] = report[key]
    return row


def system_calls(world, target, connections, era, calls, extra=()):
    """System calls of the target for one call, if perf or strace is installed."""
    tool = syscalls.means()
    if not tool or not target.process:
        return {}

    def made(number):
        options = ("--requests", str(number), *extra)
        return load(world, target, connections, 120, era=era, warmup=0, extra=options)["answered_with_warmup"]

    try:
        return {"syscalls": syscalls.per_call(target.pids(), made, calls // 4, calls, tool), "syscalls_by": tool}
    except (OSError, subprocess.SubprocessError) as error:
        return {"syscalls_failed": str(error)}
