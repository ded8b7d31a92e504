"""The survival trial. Programs made to overflow a stack or to take for ever are sent to a tool that only reads, in every dialect of SQL; the
gateway has to refuse each, stay alive and go on answering another client."""

import http.client
import json
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

ANSWER_SECONDS_MAX = 60


def programs():
    """Name and text of programs that overflow or never end where a reader is careless."""
    yield "300 joins without ON", "SELECT * FROM a" + " JOIN a" * 300
    yield "5,000 joins", "SELECT * FROM a" + " JOIN a" * 5000
    yield "127,000 openings of comments", "/*" * 127_000
    yield "130,000 minus signs", "SELECT " + "-" * 130_000 + "1"
    for unit in ["(", "NOT ", "- ", "CASE WHEN ", "SELECT (", "a IN (", "EXISTS (SELECT ", "[", "{", "INTERVAL ", "lower(", "cast(", "ARRAY[", "WITH a AS (", "1+", "a OR ", "a.",
                 "::int", " UNION SELECT 1", "EXPLAIN ", "'", '"', "`", "$a$", "--", "#", "/*!", ";", "BEGIN ", "\u00e9", "@", "?"]:
        yield f"{unit!r} many times", "SELECT " + unit * (200_000 // len(unit.encode()))


class Gateway:
    """A gateway before the sample company, whose `read_query` takes that dialect."""

    def __init__(self, servanda, folder, dialect):
        self.folder, self.port = folder, free_port()
        servers = {"company": {"command": servanda, "args": ["sample", "--database", str(folder / "books.db")]}}
        (folder / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
        run = lambda *words: subprocess.run([servanda, *words], cwd=folder, capture_output=True, text=True, timeout=120)
        if (made := run("init", "--yes")).returncode:
            raise SystemExit(f"servanda init: {made.stderr}")
        for file in (folder / "contracts").rglob("company.yaml"):
            text = file.read_text()
            file.write_text(text.replace("x-effect: sqlite", f"x-effect: {dialect}").replace("x-effect: sql\n", f"x-effect: {dialect}\n"))
            if f"x-effect: {dialect}" not in file.read_text():
                raise SystemExit(f"{file} has no x-effect")
        command = [servanda, "serve", "--listen", f"127.0.0.1:{self.port}"]
        self.process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=open(folder / "serve.log", "wb"))
        for _ in range(600):
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                break
            except OSError:
                if self.process.poll() is not None:
                    raise SystemExit((folder / "serve.log").read_text()) from None
                time.sleep(0.05)

    def query(self, text):
        meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo": {"name": "redteam", "version": "1"}}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "company__read_query", "arguments": {"query": text}, "_meta": meta}}
        headers = {"content-type": "application/json", "accept": "application/json, text/event-stream", "mcp-protocol-version": "2026-07-28",
                   "mcp-method": "tools/call", "mcp-name": "company__read_query"}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_SECONDS_MAX)
        try:
            connection.request("POST", "/mcp", json.dumps(body), headers)
            answer = connection.getresponse().read().decode()
        finally:
            connection.close()
        lines = [line[6:] for line in answer.splitlines() if line.startswith("data: ")] or [answer]
        return json.loads(lines[-1])

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def survival_trial(servanda, short):
    for dialect in ["postgresql", "mysql", "sqlite", "sql"]:
        with tempfile.TemporaryDirectory(prefix="servanda-redteam-") as made:
            gateway = Gateway(servanda, Path(made), dialect)
            wrong, times, over = [], [], threading.Event()

            def somebody_else():
                while not over.is_set():
                    begun = time.monotonic()
                    answer = gateway.query("SELECT 1")
                    times.append(time.monotonic() - begun)
                    if answer.get("result", {}).get("isError", True):
                        wrong.append(f"another client was answered {str(answer)[:200]}")
                        return

            other = threading.Thread(target=somebody_else)
            other.start()
            tried = list(programs())[:: 4 if short else 1]
            for name, text in tried:
                try:
                    answer = gateway.query(text)
                except OSError as error:
                    wrong.append(f"{name}: {error}; the gateway ended with {gateway.process.poll()}")
                    break
                if "SEMANTIC_INVALIDITY" not in str(answer) and not answer.get("result", {}).get("isError"):
                    wrong.append(f"{name}: passed")
            over.set()
            other.join()
            alive = gateway.process.poll() is None
            if not alive or gateway.end() != 0:
                wrong.append("the gateway did not stay alive")
            slowest = f"another client waited {max(times) * 1000:.0f} ms at the most in {len(times)} calls" if times else "no other client was answered"
            yield f"survival: {len(tried)} programs in {dialect}, {slowest}", wrong
