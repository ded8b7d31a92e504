"""What is measured: the upstream directly, the same tools served by rmcp, a plain TCP relay, Servanda in several configurations, and
peers. Each target is started before a round and ended after it."""
import contextlib
import json
import os
import pathlib
import re
import subprocess
import time
from dataclasses import dataclass, field

from processes import START_SECONDS_MAX, Process, free_port

ENTRY = "echo"


@dataclass
class Target:
    """A started target. Without a process (`direct`) nothing of its own is counted."""

    name: str
    url: str
    tool: str = "echo"
    process: Process | None = None
    note: str = ""
    startup_s: float | None = None
    headers: tuple = ()

    def pids(self):
        return self.process.pids() if self.process else []


@dataclass
class World:
    """The binaries, a folder for files and logs, and everything that was started in it."""

    servanda: pathlib.Path
    binaries: pathlib.Path
    folder: pathlib.Path
    started: list = field(default_factory=list)

    def start(self, name, command, folder=None, env=None, ignored=()):
        process = Process(command, folder or self.folder, self.folder / f"{name}.log", env, ignored)
        self.started.append(process)
        return process

    def end(self):
        while self.started:
            self.started.pop().end()

    def upstream(self, *flags, name="upstream"):
        """A fresh mcp-echo; its port."""
        port = free_port()
        self.start(name, [self.binaries / "mcp-echo", "--port", port, *flags]).wait_for_port(port)
        return port

    def direct(self, port):
        return Target("direct", mcp_url(port), note="mcp-echo, no gateway")

    def rmcp(self, *flags):
        """The official Rust SDK answering the same tools with JSON: what a plain server costs, and the yardstick of processor time."""
        port = free_port()
        command = [self.binaries / "mcp-echo", "--engine", "rmcp", "--json-response", "--port", port, *flags]
        process = self.start("rmcp", command)
        process.wait_for_port(port)
        return Target("rmcp", mcp_url(port), process=process, note="an rmcp server that answers with JSON")

    def relay(self, upstream):
        port = free_port()
        process = self.start("relay", [self.binaries / "mcp-relay", f"127.0.0.1:{port}", f"127.0.0.1:{upstream}"])
        process.wait_for_port(port)
        return Target("relay", mcp_url(port), process=process, note="a plain TCP relay that looks at no byte")

    def gateway(self, name, server, change=None, tool=f"{ENTRY}__echo", note=""):
        """Servanda in front of one server, configured by `init` as a newcomer would; `change` edits its folder afterwards."""
        folder = self.folder / name
        folder.mkdir()
        (folder / ".mcp.json").write_text(json.dumps({"mcpServers": {ENTRY: server}}))
        subprocess.run([self.servanda, "init", "--yes"], cwd=folder, check=True, capture_output=True, timeout=10 * START_SECONDS_MAX)
        lift_rates(folder)
        if change:
            change(folder)
        process = self.start(name, [self.servanda, "serve", "--listen", "127.0.0.1:0"], folder, ignored={"mcp-echo"})
        url = await_url(process)
        return Target(name, url, tool, process, note, round(time.monotonic() - process.started, 2))


def mcp_url(port):
    return f"http://127.0.0.1:{port}/mcp"


def http_server(port):
    return {"type": "http", "url": mcp_url(port)}


def lift_rates(folder):
    """Raises the rate limit: the benchmark measures speed, not the contract's limit."""
    with open(folder / "servanda.yaml", "a") as config:
        config.write("defaults: {runtime: {rate_limits: {max_requests: 1000000000}}}\n")


def await_url(process):
    until = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < until:
        found = re.search(r"http://\S+/mcp", process.log.read_text())
        if found:
            return found.group()
        if process.child.poll() is not None:
            break
        time.sleep(0.01)
    raise SystemExit(f"{process.log.stem} did not start: {process.log.read_text()[-800:]}")


@contextlib.contextmanager
def world(servanda, binaries, folder):
    made = World(pathlib.Path(os.path.abspath(servanda)), pathlib.Path(os.path.abspath(binaries)), pathlib.Path(folder))
    try:
        yield made
    finally:
        made.end()
