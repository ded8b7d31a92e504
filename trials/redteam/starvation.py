"""The starvation trial. One tenant takes what it can get: connections, sessions, streams, calls, refusals. Another tenant makes one call
after another, each on a new connection, and is compared with itself in the quiet before. The trial judges a ratio within one run; the
short form only judges that every call of the other tenant is answered."""

import http.client
import json
import signal
import socket
import statistics
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from survival import free_port

CALLS, CALLS_SHORT = 300, 40
RATIO_MAX = 3.0
ROUNDS_MAX = 3
CONNECTIONS = 3_000
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}, "io.modelcontextprotocol/clientInfo": {"name": "redteam", "version": "1"}}
CONFIG = "approvals: {by_class: false}\nauth:\n  mode: required\nlimits:\n  refused_calls_per_minute_max: 1200\n"


class Town:
    """A gateway before the sample company that two tenants have keys for."""

    def __init__(self, servanda, folder):
        self.servanda, self.folder, self.port = servanda, folder, free_port()
        servers = {"company": {"command": servanda, "args": ["sample", "--database", str(folder / "books.db")]}}
        (folder / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
        self.run("init", "--yes")
        config = folder / "servanda.yaml"
        config.write_text(config.read_text() + CONFIG + "defaults: {runtime: {rate_limits: {max_requests: 1000000}}}\n")
        self.keys = {tenant: self.run("keys", "create", "--tenant", tenant, "--principal", "ada", "--label", "redteam", "--scope", "company:read", "--scope", "company:write").strip() for tenant in ("greedy", "quiet")}
        command = [servanda, "serve", "--listen", f"127.0.0.1:{self.port}"]
        self.process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=open(folder / "serve.log", "wb"))
        for _ in range(600):
            try:
                if self.call("quiet", "company__list_invoices", {})[0] == 200:
                    return
            except OSError:
                pass
            if self.process.poll() is not None:
                raise SystemExit((folder / "serve.log").read_text())
            time.sleep(0.05)

    def run(self, *words):
        ran = subprocess.run([self.servanda, *words], cwd=self.folder, capture_output=True, text=True, timeout=120)
        if ran.returncode:
            raise SystemExit(f"servanda {' '.join(words)}: {ran.stderr}")
        return ran.stdout

    def request(self, tenant, method, params, name=None):
        headers = {"content-type": "application/json", "accept": "application/json, text/event-stream", "mcp-protocol-version": "2026-07-28",
                   "mcp-method": method, "authorization": f"Bearer {self.keys[tenant]}"}
        if name:
            headers["mcp-name"] = name
        return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": META}}), headers

    def call(self, tenant, tool, arguments, connection=None):
        """The status and the text of the answer, on a new connection if there is none."""
        body, headers = self.request(tenant, "tools/call", {"name": tool, "arguments": arguments}, tool)
        mine = connection or http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            mine.request("POST", "/mcp", body, headers)
            answer = mine.getresponse()
            return answer.status, answer.read().decode()
        finally:
            if not connection:
                mine.close()

    def raw(self, text):
        """An open connection on which this text was sent."""
        opened = socket.create_connection(("127.0.0.1", self.port), timeout=10)
        if text:
            opened.sendall(text)
        return opened

    def head(self, tenant, body, **more):
        _, headers = self.request(tenant, "tools/call", {}, "company__list_invoices")
        headers = {**headers, "host": "localhost", "content-length": str(len(body)), **more}
        return ("POST /mcp HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in headers.items()) + "\r\n").encode()

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


def measured(town, calls):
    """The time of each call of the quiet tenant, and what was wrong with any."""
    times, wrong = [], []
    for _ in range(calls):
        begun = time.monotonic()
        try:
            status, answer = town.call("quiet", "company__list_invoices", {})
            if status != 200 or '"isError":true' in answer.replace(" ", ""):
                wrong.append(f"{status} {answer[:200]}")
        except OSError as error:
            wrong.append(repr(error))
        times.append(time.monotonic() - begun)
    return times, wrong


def p99(times):
    return sorted(times)[max(0, int(len(times) * 0.99) - 1)]


def many(make, over, count=CONNECTIONS, pause=0.0005):
    """Makes things and keeps them until the attack is over; it tries again what it could not make."""
    kept = []
    while not over.is_set():
        try:
            kept.append(make())
        except OSError:
            time.sleep(0.01)
        if len(kept) > count:
            kept.pop(0).close()
        time.sleep(pause)
    for one in kept:
        one.close()


def half_open(town, over):
    many(lambda: town.raw(b""), over)


def half_a_head(town, over):
    many(lambda: town.raw(b"POST /mcp HTTP/1.1\r\nHost: localh"), over)


def half_a_body(town, over):
    body = "x" * 1000
    many(lambda: town.raw(town.head("greedy", body) + body[:10].encode()), over, count=900, pause=0.002)


def idle(town, over):
    def asked():
        opened = town.raw(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        opened.recv(100)
        return opened

    many(asked, over)


def sessions(town, over):
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream", "authorization": f"Bearer {town.keys['greedy']}"}
    while not over.is_set():
        mine = http.client.HTTPConnection("127.0.0.1", town.port, timeout=30)
        try:
            mine.request("POST", "/mcp", body, headers)
            answer = mine.getresponse()
            answer.read()
            if session := answer.getheader("mcp-session-id"):
                stream = f"GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nMcp-Session-Id: {session}\r\nAuthorization: Bearer {town.keys['greedy']}\r\n\r\n"
                streams.append(town.raw(stream.encode()))
        except OSError:
            pass
        mine.close()
        time.sleep(0.005)


def slow_calls(town, over):
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "company__monthly_report", "arguments": {"month": "2026-10"}, "_meta": META}})
    many(lambda: town.raw(town.head("greedy", body, **{"mcp-name": "company__monthly_report"}) + body.encode()), over, count=1_200, pause=0.01)


def refusals(town, over):
    connection = http.client.HTTPConnection("127.0.0.1", town.port, timeout=30)
    while not over.is_set():
        try:
            town.call("greedy", "company__list_invoices", {"no such": "argument"}, connection)
        except (OSError, http.client.HTTPException):
            connection.close()
        time.sleep(0.002)


streams = []
ATTACKS = [half_open, half_a_head, half_a_body, idle, sessions, slow_calls, refusals]


def attacked(servanda, attack, calls):
    """The p99 of the quiet tenant before and during an attack, and what was wrong."""
    with tempfile.TemporaryDirectory(prefix="servanda-redteam-") as made:
        town = Town(servanda, Path(made))
        try:
            measured(town, calls // 4)
            quiet, wrong = measured(town, calls)
            over = threading.Event()
            attacker = threading.Thread(target=attack, args=(town, over))
            attacker.start()
            time.sleep(2)
            during, also_wrong = measured(town, calls)
            over.set()
            attacker.join()
            while streams:
                streams.pop().close()
            grown = sum(file.stat().st_size for file in (Path(made) / ".servanda").glob("ledger.db*"))
        finally:
            if town.process.poll() is not None or town.end() != 0:
                wrong = [*wrong, "the gateway did not end well: " + (Path(made) / "serve.log").read_text()[-500:]]
        return p99(quiet), p99(during), statistics.median(during), grown, wrong + also_wrong


def starvation_trial(servanda, short):
    for attack in ATTACKS:
        name = attack.__name__.replace("_", " ")
        for round in range(1, ROUNDS_MAX + 1):
            before, during, median, grown, wrong = attacked(servanda, attack, CALLS_SHORT if short else CALLS)
            ratio = during / before
            if short or wrong or ratio <= RATIO_MAX:
                break
        if not short and ratio > RATIO_MAX:
            wrong = [*wrong, f"more than {RATIO_MAX} in {round} rounds"]
        told = f"p99 of another tenant {before * 1000:.1f} ms in the quiet, {during * 1000:.1f} ms under it ({ratio:.2f}), median {median * 1000:.1f} ms; ledger {grown / 1e6:.1f} MB"
        yield f"starvation by {name}: {told}", wrong
