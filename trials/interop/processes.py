"""Processes of a trial: every wait is bounded, each is ended by the id it was started with, none is left behind."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

STOP_SECONDS_MAX = 15


class Failed(Exception):
    """A step got no answer; the message says which and why."""


def adopt_orphans():
    """Makes descendants whose parent died our children (Linux), so that none can be left behind unseen: MCP clients
    start servers in sessions of their own, out of reach of a process group."""
    if sys.platform == "linux":
        PR_SET_CHILD_SUBREAPER = 36
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def orphans():
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat") if sys.platform == "linux" else []:
        try:
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
            if int(parent) != os.getpid():
                continue
            pid = int(stat.parent.name)
            if state == "Z":
                os.waitpid(pid, os.WNOHANG)
            else:
                found.append((pid, (stat.parent / "cmdline").read_text().replace("\0", " ").strip()))
        except OSError:
            continue  # it ended while we looked
    return found


def sweep():
    """Waits for adopted processes to end by themselves; ends those that do not, and returns their commands."""
    deadline = time.monotonic() + STOP_SECONDS_MAX
    while (left := orphans()) and time.monotonic() < deadline:
        time.sleep(0.05)
    for pid, _ in left:
        os.kill(pid, signal.SIGKILL)
    return [command for _, command in left]


@contextmanager
def started(command, folder, env, log, **options):
    """A process in its own group, ended with the block: first by SIGTERM, then by SIGKILL."""
    with open(folder / log, "wb") as stderr:
        process = subprocess.Popen(
            command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stderr=stderr, start_new_session=True, **options
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise Failed(f"`{Path(command[0]).name}` had to be killed {STOP_SECONDS_MAX} s after SIGTERM") from None
        finally:
            if process.stdout:
                process.stdout.close()


def run_to_end(command, folder, env, log, seconds_max):
    name = " ".join(Path(word).name for word in command[:2])
    with started(command, folder, env, log, stdout=subprocess.PIPE) as process:
        try:
            output, _ = process.communicate(timeout=seconds_max)
        except subprocess.TimeoutExpired:
            raise Failed(f"`{name}` did not end within {seconds_max} s\n{tail(folder / log)}") from None
    if process.returncode != 0:
        raise Failed(f"`{name}` ended with {process.returncode}\n{tail(folder / log)}")
    return output


def tail(log, lines=15):
    return "\n".join("    | " + line for line in log.read_text(errors="replace").splitlines()[-lines:])
