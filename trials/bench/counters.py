"""Processor time, context switches and memory of processes, read from /proc. Nothing is traced."""
import contextlib
import os
import pathlib
import re
from collections import Counter

from processes import fields_of

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class Reading:
    """Counts at one moment. The difference of two readings is what happened in between."""

    def __init__(self, pids):
        self.processor_s = sum(processor_ticks(pid) for pid in pids) / TICKS_PER_SECOND
        self.switches = Counter()
        self.threads = Counter()
        for pid in pids:
            for task in tasks(pid):
                self.switches.update(switches_of(pid, task))
                self.threads[thread_name(pid, task)] += processor_ticks(f"{pid}/task/{task}") / TICKS_PER_SECOND
        self.machine = machine_ticks()


class Spent:
    """What processes spent between two readings."""

    def __init__(self, before, after):
        self.processor_s = after.processor_s - before.processor_s
        self.voluntary = after.switches["voluntary"] - before.switches["voluntary"]
        self.involuntary = after.switches["involuntary"] - before.switches["involuntary"]
        self.threads = {name: after.threads[name] - before.threads[name] for name in after.threads}

    def per_call(self, calls):
        calls = max(calls, 1)
        threads = {name: round(spent * 1e6 / calls, 1) for name, spent in self.threads.items() if spent > 0}
        return {
            "processor_us": round(self.processor_s * 1e6 / calls, 1),
            "switches": round((self.voluntary + self.involuntary) / calls, 2),
            "switches_voluntary": round(self.voluntary / calls, 2),
            "threads_us": dict(sorted(threads.items(), key=lambda one: -one[1])),
        }


def processor_ticks(place):
    """User and system time of a process or a task, without its children."""
    fields = fields_of(place)
    return int(fields[11]) + int(fields[12]) if fields else 0


def tasks(pid):
    with contextlib.suppress(OSError):
        return os.listdir(f"/proc/{pid}/task")
    return []


def thread_name(pid, task):
    """The thread's name without its number, so that a pool is one line."""
    with contextlib.suppress(OSError):
        return re.sub(r"[-_ ]?\d+$", "", pathlib.Path(f"/proc/{pid}/task/{task}/comm").read_text().strip())
    return "?"


def switches_of(pid, task):
    with contextlib.suppress(OSError):
        text = pathlib.Path(f"/proc/{pid}/task/{task}/status").read_text()
        found = dict(re.findall(r"^(voluntary|nonvoluntary)_ctxt_switches:\s+(\d+)", text, re.M))
        return {"voluntary": int(found.get("voluntary", 0)), "involuntary": int(found.get("nonvoluntary", 0))}
    return {}


def machine_ticks():
    """Busy and total time of the whole machine."""
    numbers = [int(word) for word in pathlib.Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
    return sum(numbers) - numbers[3] - numbers[4], sum(numbers)


def others_share(before, after, own_s):
    """The share of all cores that other processes used: 0.5 of two cores is one core."""
    busy, total = (later - earlier for earlier, later in zip(before.machine, after.machine))
    return round(max(0.0, (busy - own_s * TICKS_PER_SECOND) / max(total, 1)), 3)


def resident_mb(pids):
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            total += int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return round(total / 1e6, 1)


def peak_mb(pids):
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            found = re.search(r"VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())
            total += int(found.group(1)) * 1024 if found else 0
    return round(total / 1e6, 1)
