"""A database file of SQLite, opened by Python's module and, where it is installed, by SQLite's own program, which has more functions.

The bytes of the file are compared, and all that a connection can be asked about itself.
"""

import json
import os
import select
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

from engines import Ended
from unprivileged import as_nobody, give_to_nobody

SESSION = Path(__file__).resolve().parent / "sqlite_session.py"
PROGRAM_SECONDS_MAX = 1.5
ANSWER_SECONDS_MAX = 15

# Changes that the trial has to see first; if it misses one of these, its result proves nothing.
KNOWN_CHANGES = [
    "DELETE FROM t", "INSERT INTO v VALUES (1, 2)", "CREATE TEMP TABLE x (a)", "PRAGMA user_version = 9", "PRAGMA query_only = 1", "PRAGMA foreign_keys = 1", "BEGIN",
    "ATTACH 'x.db' AS x", "VACUUM INTO 'copy.db'", "SELECT * FROM people WHERE name = 'x'; PRAGMA optimize", "PRAGMA case_sensitive_like = 1",
]


class Engine:
    name, dialect = "SQLite", "sqlite"
    known_changes = KNOWN_CHANGES

    def __init__(self):
        self.session = None
        self.last = None

    def start(self, folder):
        self.folder, self.file = folder, folder / "shop.db"
        folder.mkdir(exist_ok=True)
        give_to_nobody(folder)
        self.program = shutil.which("sqlite3")

    def tell(self, method, *arguments):
        """The answer of the session. A session that does not answer is ended."""
        self.session.stdin.write(json.dumps([method, *arguments]) + "\n")
        try:
            self.session.stdin.flush()
            ready, _, _ = select.select([self.session.stdout], [], [], ANSWER_SECONDS_MAX)
            line = self.session.stdout.readline() if ready else ""
        except BrokenPipeError:
            line = ""
        if not line:
            self.end()
            raise Ended(f"the session with SQLite, at {str(arguments)[:2000]}")
        return json.loads(line)

    def renew(self, preparing=()):
        if not self.session:
            # Not as the user `nobody`: Python may be installed where `nobody` cannot read.
            command = [sys.executable, "-B", SESSION, self.file]
            self.session = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.tell("renew", list(preparing))
        give_to_nobody(self.file)

    def prepare(self, text):
        self.tell("run", text)

    def run(self, text):
        self.last, is_open = self.tell("run", text)
        if self.program and "\0" not in text:
            self.run_by_program(text)
        return ["a transaction is left open, and later statements are not committed"] if is_open else []

    def run_by_program(self, text):
        command = [self.program, "-batch", "-init", "/dev/null", str(self.file), text]
        env = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "EDITOR": "touch edited;", "VISUAL": "touch edited;"}
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        try:
            subprocess.run(as_nobody(command), cwd=self.folder, env=env, timeout=PROGRAM_SECONDS_MAX, **quiet)
        except (subprocess.TimeoutExpired, UnicodeEncodeError):
            # The text took too long, or no argument can hold it.
            pass

    def fresh_session(self):
        """Reads can set nothing here that outlives them."""

    def failed(self):
        return bool(self.last)

    def explained(self, before, after):
        return set()

    def version(self):
        return sqlite3.sqlite_version + (" with its own program" if self.program else "")

    def ask(self, question):
        with sqlite3.connect(":memory:") as connection:
            return connection.execute(question).fetchall()

    def state(self):
        return self.tell("state")

    def end(self):
        if self.session:
            self.session.kill()
            self.session.wait(10)
            self.session = None
