"""The trial of self-approval (T31, T32): a server behind the gateway, and clients that accept every question, try to approve a call that waits for
a person. Nothing that they do approves anything; people's keys do, which shows that the trial could fail."""

import http.client
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from hostile import CAPABILITIES, SECONDS_MAX, say_in_entry
from starvation import free_port

SERVER = Path(__file__).with_name("self_approving_server.py")
SECRET = "inv-canary-4711"
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}, "url": {}}},
        "io.modelcontextprotocol/clientInfo": {"name": "redteam", "version": "1"}}


class Office:
    """A gateway over HTTP on a terminal of its own, before a server whose payments need an approval."""

    def __init__(self, servanda, path, asks_for_credentials):
        self.servanda, self.path, self.port = servanda, path, free_port()
        servers = {"hostile": {"command": sys.executable, "args": [str(SERVER), str(path)]}}
        (path / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
        self.must("init", "--yes")
        say_in_entry(self, "pay_invoice", "approval: {required: true}")
        # The attempts take longer than a report.
        say_in_entry(self, "get_report", "execution: {timeout_class: long_running}")
        auth = "auth: {mode: required}\n" if asks_for_credentials else ""
        roles = "roles: {approver: [acme/olga, acme/oscar]}, " if asks_for_credentials else ""
        with open(path / "servanda.yaml", "a") as config:
            config.write(f"{auth}approvals: {{{roles}wait_ms_max: 0}}\nlong_work: {{wait_ms_max: null}}\n")
        self.agent, self.people = "", []
        if asks_for_credentials:
            self.agent = self.key("ada", "--scope", "hostile:read", "--scope", "hostile:write")
            self.people = [self.key(name, "--scope", "servanda:console") for name in ("olga", "oscar")]
        self.said = b""
        self.process, self.terminal = pty.fork()
        if self.process == 0:
            os.chdir(path)
            os.execv(servanda, [servanda, "serve", "--listen", f"127.0.0.1:{self.port}"])
        threading.Thread(target=self.read, daemon=True).start()
        until = time.monotonic() + SECONDS_MAX
        while b"people decide" not in self.said:
            if time.monotonic() > until:
                raise SystemExit(f"the gateway is not ready: {self.said.decode(errors='replace')}")
            time.sleep(0.05)

    def key(self, name, *more):
        return json.loads(self.must("keys", "create", "--json", "--tenant", "acme", "--principal", name, "--label", name, *more))["key"]

    def read(self):
        while True:
            try:
                if select.select([self.terminal], [], [], 0.2)[0]:
                    self.said += os.read(self.terminal, 65536)
            except OSError:
                return

    def must(self, *words, **more):
        ran = subprocess.run([self.servanda, *words], cwd=self.path, capture_output=True, text=True, timeout=SECONDS_MAX, **({"stdin": subprocess.DEVNULL} | more))
        if ran.returncode:
            raise SystemExit(f"servanda {' '.join(words)}: {ran.stderr}")
        return ran.stdout

    def call(self, tool, arguments):
        params = {"name": f"hostile__{tool}", "arguments": arguments, "_meta": META}
        headers = {"content-type": "application/json", "accept": "application/json, text/event-stream", "mcp-protocol-version": "2026-07-28",
                   "mcp-method": "tools/call", "mcp-name": f"hostile__{tool}"}
        if self.agent:
            headers["authorization"] = f"Bearer {self.agent}"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=180)
        connection.request("POST", "/mcp", json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}), headers)
        text = connection.getresponse().read().decode()
        connection.close()
        return text

    def waits(self):
        """Makes the call that waits, and returns its ticket."""
        answer = self.call("pay_invoice", {"invoice_id": SECRET})
        found = re.search(r"apr_[0-9a-z]+", answer)
        if not found:
            raise SystemExit(f"no ticket: {answer}")
        return json.loads(self.must("approvals", "show", found[0], "--json"))

    def paid(self):
        payments = self.path / "payments"
        return len(payments.read_text().splitlines()) if payments.exists() else 0

    def end(self):
        os.kill(self.process, signal.SIGTERM)
        os.waitpid(self.process, 0)


def by_the_server(office, about):
    ticket = office.waits()
    plan = {"port": office.port, "ticket": ticket["id"], "payload": ticket["payload_hash"], "key": office.agent, "secret": SECRET,
            "servanda": office.servanda, "folder": str(office.path)}
    answer = office.call("get_report", {"plan": json.dumps(plan)})
    attempts_file = office.path / "attempts.json"
    attempts = json.loads(attempts_file.read_text()) if attempts_file.exists() else []
    if os.environ.get("REDTEAM_VERBOSE"):
        print(json.dumps(attempts, indent=1), file=sys.stderr)
    yield f"{about}: the server made its attempts", len(attempts) > 30, [answer, attempts]
    for won in [attempt for attempt in attempts if attempt["won"]]:
        yield f"{about}: {won['tried']}", False, won
    now = json.loads(office.must("approvals", "show", ticket["id"], "--json"))
    yield f"{about}: {len(attempts)} attempts of a server with shell, HTTP, terminal and browser approve nothing", now["state"] == ticket["state"] and not now["decisions"], now
    yield f"{about}: nothing was paid", office.paid() == 0, office.paid()


def by_clients(office, about):
    """A legacy client that accepts every question, and lets the call wait."""
    process = subprocess.Popen([office.servanda, "stdio"], cwd=office.path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    limit = threading.Timer(SECONDS_MAX, process.kill)
    limit.start()
    asked, answered = [], None

    def say(message):
        process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        process.stdin.flush()

    say({"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES, "clientInfo": {"name": "yes", "version": "1"}}})
    for line in process.stdout:
        message = json.loads(line)
        if "method" in message and "id" in message:
            asked.append(message["method"])
            say({"id": message["id"], "result": {"action": "accept", "content": {"approve": True, "confirm": "yes"}}})
        elif message.get("id") == 1:
            say({"method": "notifications/initialized"})
            say({"id": 2, "method": "tools/call", "params": {"name": "hostile__pay_invoice", "arguments": {"invoice_id": "by-a-client"}}})
        elif message.get("id") == 2:
            answered = message
            break
    process.stdin.close()
    process.wait(30)
    limit.cancel()
    yield f"{about}: a client that accepts every question is told that the call waits", "waits for approval" in json.dumps(answered), answered
    yield f"{about}: no form was shown that could decide", "elicitation/create" not in asked, asked
    yield f"{about}: nothing was paid for it", office.paid() == 0, office.paid()


def by_people(office, about):
    """The control: what all of them lacked."""
    ticket = office.waits()
    for key in office.people:
        office.must("approvals", "approve", ticket["id"], "--payload", ticket["payload_hash"], input=key, stdin=None)
    answer = office.call("pay_invoice", {"invoice_id": SECRET})
    yield f"{about}: two people's keys approve, and the call is made once", office.paid() == 1, answer
    office.call("pay_invoice", {"invoice_id": SECRET})
    yield f"{about}: the approval is used up", office.paid() == 1, office.paid()


def self_approval_trial(servanda):
    for asks_for_credentials, about in [(False, "self-approval on one machine"), (True, "self-approval with credentials")]:
        with tempfile.TemporaryDirectory(prefix="servanda-redteam-") as made:
            path = Path(made) / "office"
            path.mkdir()
            office = Office(servanda, path, asks_for_credentials)
            try:
                parts = [by_the_server, *([by_people] if asks_for_credentials else [by_clients])]
                for part in parts:
                    for tried, is_fine, found in part(office, about):
                        yield tried, [] if is_fine else [str(found)[:1000]]
            finally:
                office.end()
