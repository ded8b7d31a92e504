"""A MariaDB of our own, with root as the agent: the worst case. It listens on a socket in its folder only."""

import os
import re
import shutil
import subprocess
import time

from engines import Ended, Missing, listing, written_elsewhere
from engines.mariadb_wire import Session, Stuck
from unprivileged import as_nobody, give_to_nobody, run_as_nobody

STATEMENT_SECONDS_MAX = 1.5
ANSWER_SECONDS_MAX = 8
INSTALL_SECONDS_MAX = 300
OPTIONS = [
    "--no-defaults", "--skip-networking", "--innodb-buffer-pool-size=32M", "--innodb-flush-log-at-trx-commit=0", "--innodb-stats-persistent=0",
    "--innodb-log-file-size=16M", "--skip-log-bin", "--secure-file-priv=", "--event-scheduler=off", "--max-connections=20",
    "--innodb-fast-shutdown=2", "--performance-schema=off", "--local-infile=1",
]
# Files that the engine itself makes and removes.
ENGINES_OWN_FILES = re.compile(r"^ib|^aria_log|#sql|^ddl_|^multi-master|\.pid$|^undo|^tc\.log")
# Counters and clocks, which differ with nothing done.
DRIFTING = set(
    "timestamp rand_seed1 rand_seed2 pseudo_thread_id error_count warning_count gtid_binlog_pos gtid_binlog_state gtid_current_pos "
    "innodb_buffer_pool_load_now innodb_buffer_pool_dump_now".split()
)

SCHEMA = """
CREATE TABLE t (a int PRIMARY KEY, b varchar(20), c datetime, d decimal(8, 2)) ENGINE=InnoDB;
INSERT INTO t VALUES (1, 'one', '2026-01-01', 1.5), (2, 'two', '2026-01-02', 2.5), (3, NULL, NULL, NULL);
CREATE TABLE people (id int PRIMARY KEY AUTO_INCREMENT, name text, data json, FULLTEXT (name)) ENGINE=Aria;
INSERT INTO people VALUES (1, 'Ada', '{"k": 1}'), (2, 'Bob', '[1, 2]');
CREATE TABLE touched (at datetime(6) DEFAULT now(6), who text);
CREATE SEQUENCE s NOCACHE;
CREATE FUNCTION harm() RETURNS int MODIFIES SQL DATA BEGIN INSERT INTO touched (who) VALUES ('harm'); RETURN 1; END;
CREATE FUNCTION mine() RETURNS int MODIFIES SQL DATA BEGIN INSERT INTO touched (who) VALUES ('mine'); RETURN 1; END;
CREATE PROCEDURE harm_all() INSERT INTO touched (who) VALUES ('procedure');
CREATE VIEW v AS SELECT a, b FROM t;
"""
# How later statements of the session read texts and values. If one of these changed, a later statement would store something else.
MEANINGS = """SELECT from_unixtime(0), 1 / 3, 'a' = 'A', 'a\\\\b', "x", 'a' || 'b', date_format('2026-01-04', '%W %v'), week('2026-01-04'),
    length((SELECT group_concat(repeat('x', 50) SEPARATOR '') FROM information_schema.collations)), charset('x'), 5 DIV 2, 1 - 2"""

# Changes that the trial has to see first; if it misses one of these, its result proves nothing.
KNOWN_CHANGES = [
    "SELECT nextval(s)", "DELETE FROM t", "INSERT INTO people (name) VALUES ('x')", "SELECT harm()", "CREATE TABLE x (a int)", "SELECT 1 INTO OUTFILE 'written'",
    "SET sql_mode = ''", "SET GLOBAL long_query_time = 4", "SET @x = 1", "SELECT last_insert_id(5)", "SELECT get_lock('a', 0)", "BEGIN", "USE mysql",
]


class Engine:
    name, dialect = "MariaDB", "mysql"
    known_changes = KNOWN_CHANGES

    def __init__(self):
        self.subject = self.witness = self.process = None
        self.made, self.last = 0, []

    def start(self, folder):
        server = find_or_install()
        self.folder, self.data = folder, folder / "data"
        folder.mkdir(exist_ok=True)
        give_to_nobody(folder)
        # An account for root without a password. Other users cannot reach the socket.
        made = ["--no-defaults", f"--datadir={self.data}", "--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"]
        run_as_nobody(["mariadb-install-db", *made], INSTALL_SECONDS_MAX, cwd=folder)
        places = [f"--datadir={self.data}", f"--socket={folder}/socket", f"--pid-file={folder}/pid", f"--tmpdir={self.made_tmp()}"]
        self.command = [server, *OPTIONS, *places]
        self.up()

    def up(self):
        log = open(self.folder / "log", "wb")
        self.process = subprocess.Popen(as_nobody(self.command), stdout=subprocess.DEVNULL, stderr=log, start_new_session=True)
        self.witness = self.connected("mysql")

    def made_tmp(self):
        made = self.folder / "tmp"
        made.mkdir(exist_ok=True)
        give_to_nobody(made)
        return made

    def connected(self, database):
        """Waits for the server if it has just been started."""
        for _ in range(400):
            try:
                return Session(str(self.folder / "socket"), "root", database, ANSWER_SECONDS_MAX)
            except OSError:
                if self.process.poll() is not None:
                    raise RuntimeError((self.folder / "log").read_text()[-800:]) from None
                time.sleep(0.05)
        raise RuntimeError("MariaDB did not answer")

    def renew(self, preparing=()):
        if self.process.poll() is not None:
            self.up()
            # The first look at a table after a fault repairs it.
            self.contents()
        elif self.subject:
            self.subject.close()
        self.witness.query(f"DROP DATABASE IF EXISTS shop{self.made}")
        self.made += 1
        self.witness.query(f"CREATE DATABASE shop{self.made}")
        self.connect_subject()
        for statement in SCHEMA.strip().split(";\n"):
            if errors := self.subject.query(statement.rstrip(";"))[1]:
                raise RuntimeError(f"the schema: {errors[0]}")
        for statement in preparing:
            self.prepare(statement)
        # A session that has not inserted anything.
        self.subject.close()
        self.connect_subject()

    def connect_subject(self):
        self.subject = self.connected(f"shop{self.made}")
        self.subject.query(f"SET max_statement_time = {STATEMENT_SECONDS_MAX}")

    def prepare(self, text):
        try:
            self.subject.query(text)
            self.subject.query("ROLLBACK")
        except Stuck:
            self.look_for_the_server(text)
            self.connect_subject()

    def look_for_the_server(self, text):
        """A broken connection may mean that the server has ended."""
        try:
            self.process.wait(0.5)
        except subprocess.TimeoutExpired:
            return
        raise Ended(f"MariaDB, at {text[:2000]!r}")

    def run(self, text):
        try:
            _, self.last, is_open = self.subject.query(text)
        except Stuck as stuck:
            self.last = [str(stuck)]
            self.look_for_the_server(text)
            lost = self.subject.thread
            self.connect_subject()
            self.witness.query(f"KILL {lost}")
            return []
        if not is_open:
            return []
        self.subject.query("ROLLBACK")
        return ["a transaction is left open, and later statements are not committed"]

    def fresh_session(self):
        self.subject.close()
        self.connect_subject()

    def failed(self):
        return bool(self.last)

    def explained(self, before, after):
        return set()

    def version(self):
        return self.witness.query("SELECT version()")[0][0][0].split("-")[0]

    def ask(self, question):
        return self.witness.query(question)[0]

    def state(self):
        found = {}
        for scope, session in (("global", self.witness), ("session", self.subject)):
            for name, value in session.query(f"SHOW {scope} VARIABLES")[0]:
                if name.lower() not in DRIFTING:
                    found[f"{scope} setting {name.lower()}"] = value
        asked = "@@last_insert_id, @@identity, @@insert_id, database(), current_user(), current_role(), @@in_transaction"
        found["session"] = self.subject.query(f"SELECT {asked}")[0]
        found["session: what later statements mean"] = self.subject.query(MEANINGS)[:2]
        found["locks by name"] = self.subject.query("SELECT release_all_locks()")[0]
        found["variables of the session"] = self.subject.query("SELECT * FROM information_schema.user_variables")[0]
        found.update(self.contents())
        found["files in the data folder"] = listing(self.data, ENGINES_OWN_FILES)
        found["files elsewhere"] = written_elsewhere()
        return found

    def contents(self):
        found = {}
        tables = "SELECT table_schema, table_name, table_type, create_time FROM information_schema.tables \
            WHERE table_schema NOT IN ('information_schema', 'performance_schema', 'sys')"
        found["tables"] = sorted(map(str, (rows := self.witness.query(tables)[0])))
        names = [(f"`{schema}`.`{name}`", kind) for schema, name, kind, _ in rows]
        logs = ("`mysql`.`general_log`", "`mysql`.`slow_log`")
        plain = [name for name, kind in names if kind == "BASE TABLE" and name not in logs]
        for name, digest in self.witness.query(f"CHECKSUM TABLE {', '.join(plain)} EXTENDED")[0]:
            found[f"rows of {name}"] = digest
        for name, kind in names:
            if kind == "SEQUENCE":
                found[f"sequence {name}"] = self.witness.query(f"SELECT * FROM {name}")[0]
        return found

    def end(self):
        for session in (self.subject, self.witness):
            if session:
                session.close()
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(10)


def find_or_install():
    """The server's program. If it is missing and we may install it, Debian's package is installed."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"])
    needed = ("mariadbd", "mariadb-install-db")
    found = lambda: all(shutil.which(name, path=path) for name in needed)
    if not found() and os.getuid() == 0 and shutil.which("apt-get"):
        install = ["apt-get", "install", "-y", "--no-install-recommends", "mariadb-server-core", "mariadb-client-core"]
        for command in (install, ["apt-get", "update"], install):
            if not found():
                subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=INSTALL_SECONDS_MAX)
    if not found():
        raise Missing("MariaDB is not installed; hint: apt-get install mariadb-server-core mariadb-client-core")
    return shutil.which("mariadbd", path=path)
