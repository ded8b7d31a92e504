"""Starts mcp-echo and a Servanda in front of it, on loopback and free ports, and ends both by the ids it started."""
import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import time

ERAS = ("2025-11-25", "2026-07-28")
START_SECONDS_MAX = 60


@contextlib.contextmanager
def world(servanda, binaries):
    """Yields the two targets: address and tool name of the direct way and of the one through the gateway."""
    servanda, binaries = os.path.abspath(servanda), os.path.abspath(binaries)
    port = free_port()
    started = []
    with tempfile.TemporaryDirectory(prefix="servanda-bench-") as folder:
        try:
            started.append(start([f"{binaries}/mcp-echo", "--port", str(port), "--tools", "10"], folder))
            wait_for_port(port)
            servers = {"mcpServers": {"echo": {"type": "http", "url": f"http://127.0.0.1:{port}/mcp"}}}
            with open(os.path.join(folder, ".mcp.json"), "w") as file:
                json.dump(servers, file)
            subprocess.run([servanda, "init", "--yes"], cwd=folder, check=True, capture_output=True, timeout=START_SECONDS_MAX)
            lift_rates(folder)
            gateway = start([servanda, "serve", "--listen", "127.0.0.1:0"], folder, stderr=subprocess.PIPE)
            started.append(gateway)
            ready = gateway.stderr.readline().decode()
            url = re.search(r"http://\S+/mcp", ready)
            if not url:
                raise SystemExit(f"servanda did not start: {ready}")
            yield {
                "load": f"{binaries}/mcp-load",
                "direct": (f"http://127.0.0.1:{port}/mcp", "echo"),
                "servanda": (url.group(), "echo__echo"),
            }
        finally:
            for process in reversed(started):
                end(process)


def lift_rates(folder):
    """What is measured is how fast it is, not how soon a contract says that it is too often."""
    with open(pathlib.Path(folder, "servanda.yaml"), "a") as config:
        config.write("defaults: {runtime: {rate_limits: {max_requests: 1000000000}}}\n")


def measured(targets, target, era, connections, extra):
    url, tool = targets[target]
    command = [targets["load"], "--url", url, "--tool", tool, "-c", str(connections), "--warmup", "1",
               "--protocol", era, "--expect", "hello", "--json", *extra]
    output = subprocess.run(command, check=True, capture_output=True, timeout=300).stdout
    return json.loads(output)


def start(command, folder, **options):
    options.setdefault("stderr", subprocess.DEVNULL)
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, start_new_session=True, **options)


def end(process):
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for_port(port):
    until = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < until:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    raise SystemExit("mcp-echo did not start")
