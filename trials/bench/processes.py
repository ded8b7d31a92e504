"""Processes of the benchmark: each is started in a session of its own, so that it is found and ended with everything below it."""
import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import time

START_SECONDS_MAX = 120
END_SECONDS_MAX = 20


class Process:
    """A running program. `ignored` are programs below it that are not counted with it, by the name of their file."""

    def __init__(self, command, folder, log, env=None, ignored=()):
        self.started = time.monotonic()
        self.ignored = set(ignored)
        self.log = pathlib.Path(log)
        with open(log, "ab") as output:
            self.child = subprocess.Popen(
                [str(word) for word in command], cwd=folder, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL,
                stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
            )

    def all_pids(self):
        """Every process of its session."""
        return [pid for pid in running() if session_of(pid) == self.child.pid]

    def pids(self):
        """Those that count."""
        return [pid for pid in self.all_pids() if name_of(pid) not in self.ignored]

    def wait_for_port(self, port):
        until = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < until:
            if self.child.poll() is not None:
                raise SystemExit(f"{self.log.stem} ended at its start: {self.log.read_text()[-800:]}")
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                return
            time.sleep(0.02)
        raise SystemExit(f"{self.log.stem} did not listen in {START_SECONDS_MAX} s: {self.log.read_text()[-800:]}")

    def end(self):
        """Asks it to end, and kills what is left of its session."""
        with contextlib.suppress(ProcessLookupError):
            self.child.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.child.wait(END_SECONDS_MAX)
        for pid in self.all_pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.child.wait()


def running():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def fields_of(pid):
    """The fields of /proc/PID/stat behind the name, which may hold anything; none if the process is gone."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return []
    return text[text.rindex(")") + 2:].split()


def session_of(pid):
    fields = fields_of(pid)
    return int(fields[3]) if fields else None


def name_of(pid):
    with contextlib.suppress(OSError):
        return os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    return ""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
