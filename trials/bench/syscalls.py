"""System calls of a running process for one call of a tool: two loads of different length are counted, and the difference is divided by
the difference of their calls, so that sessions, connections and timers at the start do not count.

`perf stat` counts without disturbing much; where it may not, `strace` counts, which is slower but names each system call too."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time

from counters import tasks, thread_name

ATTACH_SECONDS = 0.7


def means():
    """The program that can count system calls on this machine: perf, strace, or none."""
    if shutil.which("perf"):
        tried = subprocess.run(["perf", "stat", "-e", "raw_syscalls:sys_enter", "true"], capture_output=True, text=True)
        if tried.returncode == 0 and "<not" not in tried.stderr:
            return "perf"
    return "strace" if shutil.which("strace") else None


def counted(pids, work, tool):
    """System calls of these processes while `work` runs: in all; of the ledger's threads (perf), or of each kind (strace)."""
    with tempfile.TemporaryDirectory() as folder:
        counters = [Counter(pathlib.Path(folder, name), tool, *targets) for name, targets in watched(pids, tool).items()]
        time.sleep(ATTACH_SECONDS)
        try:
            for counter in counters:
                counter.check()
            result = work()
        finally:
            for counter in counters:
                counter.stop()
        counts = {}
        for counter in counters:
            counts.update(counter.counts())
        return counts, result


def watched(pids, tool):
    """What is watched, by name. The ledger's threads commit by the clock, so that a slow machine gives them more to do for one call."""
    listed = [str(pid) for pid in pids]
    if tool == "strace":
        return {"all": ["-f", *[word for pid in listed for word in ("-p", pid)]]}
    ledger = [task for pid in pids for task in tasks(pid) if thread_name(pid, task).startswith("ledger")]
    found = {"all": ["-p", ",".join(listed)]}
    return {**found, "ledger": ["-t", ",".join(ledger)]} if ledger else found


class Counter:
    """A running perf or strace."""

    def __init__(self, output, tool, *targets):
        self.output, self.tool = output, tool
        perf = ["perf", "stat", "-x", ";", "-o", str(output), "-e", "raw_syscalls:sys_enter"]
        command = perf if tool == "perf" else ["strace", "-c", "-o", str(output)]
        self.child = subprocess.Popen([*command, *targets], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def check(self):
        if self.child.poll() is not None:
            raise OSError(f"{self.tool} did not attach: exit status {self.child.returncode}")

    def stop(self):
        if self.child.poll() is None:
            os.kill(self.child.pid, signal.SIGINT)
        self.child.wait(60)

    def counts(self):
        text = self.output.read_text()
        if self.tool == "strace":
            return by_name(text)
        found = re.search(r"^(\d+);", text, re.M)
        return {self.output.name: int(found.group(1)) if found else 0}


def by_name(text):
    counts = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 5 and re.fullmatch(r"[\d.]+", words[0]) and words[3].isdigit() and words[-1] != "total":
            counts[words[-1]] = int(words[3])
    return {**counts, "all": sum(counts.values())}


def per_call(pids, load, short, long, tool):
    """`load(calls)` makes that many calls and returns how many were answered."""
    few, made_few = counted(pids, lambda: load(short), tool)
    many, made_many = counted(pids, lambda: load(long), tool)
    made = max(made_many - made_few, 1)
    differences = {name: round((many[name] - few.get(name, 0)) / made, 2) for name in many}
    shown = {name: count for name, count in differences.items() if count >= 0.05 or name == "all"}
    return dict(sorted(shown.items(), key=lambda one: (one[0] != "all", -one[1])))
