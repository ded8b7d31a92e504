"""A PostgreSQL of our own, with a superuser as the agent: the worst case. It listens on a socket in its folder only.

Every change of a table that lasts is in PostgreSQL's log of writes, so the end of that log is compared as well as contents: with no
vacuum, no standby and no checkpoint on the way, it moves for nothing else but for cleaning up rows that were deleted
before, which a read may do in passing. Such records are told by `pg_waldump`.
"""

import re
import shutil
import subprocess
import time
from pathlib import Path

from engines import Ended, Missing, listing, written_elsewhere
from engines.postgresql_wire import Session, Stuck
from unprivileged import as_nobody, give_to_nobody, run_as_nobody

STATEMENT_SECONDS_MAX = 1.5
ANSWER_SECONDS_MAX = 8
OPTIONS = [
    "listen_addresses=''", "autovacuum=off", "wal_level=minimal", "max_wal_senders=0", "checkpoint_timeout=1h", "max_wal_size=8GB",
    "fsync=off", "shared_buffers=64MB", "max_connections=20", "jit=off", "max_prepared_transactions=4",
]
# Files that the engine itself makes and removes.
ENGINES_OWN_FILES = re.compile(
    r"pg_internal\.init|^pg_wal|^pg_stat|^pg_subtrans|^pg_notify|pgsql_tmp|^postmaster|^pg_xact|^pg_multixact|^base/\d+/\d|^global/\d"
)

SCHEMA = """
CREATE TABLE t (a int PRIMARY KEY, b text, c timestamptz, d numeric);
INSERT INTO t VALUES (1, 'one', '2026-01-01', 1.5), (2, 'two', '2026-01-02', 2.5), (3, NULL, NULL, NULL);
CREATE TABLE people (id int PRIMARY KEY, name text, tags text[], data jsonb);
INSERT INTO people VALUES (1, 'Ada', '{a,b}', '{"k": 1}'), (2, 'Bob', '{}', '[1, 2]');
CREATE TABLE touched (at timestamptz DEFAULT clock_timestamp(), who text);
CREATE SEQUENCE s;
CREATE FUNCTION harm() RETURNS int LANGUAGE sql AS $$ INSERT INTO touched (who) VALUES ('harm') RETURNING 1 $$;
CREATE FUNCTION harm(int, int) RETURNS int LANGUAGE sql AS $$ INSERT INTO touched (who) VALUES ('operator') RETURNING 1 $$;
CREATE OPERATOR public.+ (LEFTARG = int, RIGHTARG = int, FUNCTION = harm);
CREATE OPERATOR public.@#@ (LEFTARG = int, RIGHTARG = int, FUNCTION = harm);
CREATE FUNCTION mine(int DEFAULT 1) RETURNS int LANGUAGE sql AS $$ INSERT INTO touched (who) VALUES ('mine') RETURNING 1 $$;
CREATE DOMAIN mytype AS int CHECK (harm() = 1);
CREATE TYPE pair AS (x int, y int);
CREATE VIEW v AS SELECT a, b FROM t;
SELECT lo_from_bytea(4711, 'abc');
SELECT nextval('s');
"""
# Only the contents count, not the order in which they were written.
# How later statements of the session read texts and values. If one of these changed, a later statement would store something else.
MEANINGS = """SELECT '2026-01-02 03:04'::timestamptz = '2026-01-02 03:04+00', '01/02/2026'::date - '2026-01-01'::date, '-1 2:03'::interval,
    0.1::float8::text, 'a'::bytea::text, 1234.5::money::text, to_char(1234.5, '9G999D9L'), to_char('2026-01-02'::date, 'TMDay'),
    interval '1 day 2 hours'::text, 'a\\b', '<a/>'::xml::text, lower('A')"""
CATALOGS = [
    "pg_class", "pg_proc", "pg_attribute", "pg_type", "pg_namespace", "pg_authid", "pg_auth_members", "pg_db_role_setting", "pg_database",
    "pg_tablespace", "pg_extension", "pg_trigger", "pg_rewrite", "pg_operator", "pg_cast", "pg_policy", "pg_publication", "pg_subscription",
    "pg_event_trigger", "pg_largeobject_metadata", "pg_largeobject", "pg_statistic", "pg_description", "pg_shdescription", "pg_default_acl",
    "pg_foreign_server", "pg_user_mapping", "pg_replication_origin", "pg_seclabel",
]

# Changes that the trial has to see first; if it misses one of these, its result proves nothing.
KNOWN_CHANGES = [
    "SELECT nextval('s')", "SELECT setval('s', 9)", "INSERT INTO touched (who) VALUES ('x')", "SELECT lo_unlink(4711)", "SELECT lo_export(4711, 'written')",
    "SELECT 1 OPERATOR(public.+) 2", "CREATE TABLE x (a int)", "CREATE TEMP TABLE x (a int)", "ALTER ROLE owner SET work_mem = '1MB'", "SET search_path = x",
    "SET datestyle = 'DMY'", "BEGIN", "PREPARE p AS SELECT 1", "LISTEN a", "SELECT pg_advisory_lock(1)", "DECLARE c CURSOR WITH HOLD FOR SELECT 1",
]


class Engine:
    name, dialect = "PostgreSQL", "postgresql"
    known_changes = KNOWN_CHANGES

    def __init__(self):
        self.subject = self.witness = self.process = None
        self.template, self.made, self.last = "shop", 0, []

    def start(self, folder):
        self.programs = programs = find_programs()
        self.folder, self.data = folder, folder / "data"
        folder.mkdir(exist_ok=True)
        give_to_nobody(folder)
        run_as_nobody([programs / "initdb", "-D", self.data, "-U", "owner", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C"], 60)
        settings = [word for option in OPTIONS for word in ("-c", option.replace("''", ""))]
        command = as_nobody([programs / "postgres", "-D", self.data, "-k", folder, *settings])
        # Relative paths of COPY and lo_export begin in the data folder.
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=open(folder / "log", "wb"), start_new_session=True)
        self.socket = str(folder / ".s.PGSQL.5432")
        self.witness = self.connected("postgres")
        self.witness.query("CREATE DATABASE shop")
        shop = self.connected("shop")
        for statement in SCHEMA.strip().split(";\n"):
            if errors := shop.query(statement)[1]:
                raise RuntimeError(f"the schema: {errors[0]}")
        # So that reads find nothing to clean up.
        shop.query("VACUUM FREEZE")
        shop.close()

    def connected(self, database):
        """Waits for the server if it has just been started."""
        for _ in range(200):
            try:
                return Session(self.socket, "owner", database, ANSWER_SECONDS_MAX)
            except OSError:
                if self.process.poll() is not None:
                    raise RuntimeError((self.folder / "log").read_text()[-800:]) from None
                time.sleep(0.05)
        raise RuntimeError("PostgreSQL did not answer")

    def keep_as_template(self, preparing):
        """What every fresh database has from now on."""
        self.renew(preparing)
        self.subject.query("VACUUM FREEZE")
        self.leave()
        self.template = f"shop{self.made}"

    def leave(self):
        for session in (self.subject, self.observer) if self.subject else ():
            session.close()
        self.subject = None

    def renew(self, preparing=()):
        self.leave()
        self.made += 1
        self.witness.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname <> 'postgres' AND pid <> pg_backend_pid()")
        if self.made > 1 and self.template != f"shop{self.made - 1}":
            self.witness.query(f"DROP DATABASE IF EXISTS shop{self.made - 1} WITH (FORCE)")
        for _ in range(20):
            _, errors, _ = self.witness.query(f"CREATE DATABASE shop{self.made} TEMPLATE {self.template}")
            if not errors:
                break
            time.sleep(0.1)
        self.observer = self.connected(f"shop{self.made}")
        self.connect_subject()
        for statement in preparing:
            self.prepare(statement)

    def connect_subject(self):
        self.subject = self.connected(f"shop{self.made}")
        self.subject.query(f"SET statement_timeout = {int(STATEMENT_SECONDS_MAX * 1000)}")

    def prepare(self, text):
        try:
            self.subject.query(text)
            self.subject.query("ROLLBACK")
        except Stuck:
            self.look_for_the_server(text)
            self.connect_subject()

    def look_for_the_server(self, text):
        """When one session ends by a fault, PostgreSQL ends all of them and recovers."""
        try:
            self.observer.query("SELECT 1")
        except Stuck:
            self.leave()
            self.witness = self.connected("postgres")
            raise Ended(f"PostgreSQL, at {text[:2000]!r}") from None

    def run(self, text):
        if "\0" in text:
            # The protocol cannot carry this text.
            self.last = ["NUL"]
            return []
        try:
            _, self.last, status = self.subject.query(text)
        except Stuck as stuck:
            self.last = [str(stuck)]
            self.look_for_the_server(text)
            lost = self.subject.pid
            self.connect_subject()
            self.observer.query(f"SELECT pg_terminate_backend({lost})")
            return []
        if status == "I":
            return []
        self.subject.query("ROLLBACK")
        return ["a transaction is left open, and later statements are not committed"]

    def fresh_session(self):
        self.subject.close()
        self.connect_subject()

    def failed(self):
        return bool(self.last)

    def version(self):
        return self.witness.query("SHOW server_version")[0][0][0].split()[0]

    def ask(self, question):
        return self.witness.query(question)[0]

    def state(self):
        found = {"end of the log of writes": self.observer.query("SELECT pg_current_wal_insert_lsn()")[0]}
        counts = " UNION ALL ".join(f"SELECT '{name}', count(*), max(xmin::text::bigint), max(ctid) FROM {name}" for name in CATALOGS)
        for name, *value in self.observer.query(counts)[0]:
            found[name] = value
        found.update(self.contents())
        found["settings of databases and roles"] = self.observer.query("SELECT * FROM pg_db_role_setting")[0]
        found["locks"] = self.observer.query(f"SELECT count(*) FROM pg_locks WHERE pid = {self.subject.pid}")[0]
        who = "(SELECT current_user, session_user, current_schemas(true)) q"
        for what in ("pg_prepared_statements", "pg_cursors", "pg_listening_channels()", who):
            found[f"session: {what}"] = self.subject.query(f"SELECT * FROM {what}")[0]
        found["session: what later statements mean"] = self.subject.query(MEANINGS)[:2]
        for name, setting in self.subject.query("SELECT name, setting FROM pg_settings")[0]:
            found[f"session setting {name}"] = setting
        found["files in the data folder"] = listing(self.data, ENGINES_OWN_FILES)
        found["files elsewhere"] = written_elsewhere()
        return found

    def explained(self, before, after):
        """Whether the log of writes moved only because a read cleaned up rows that were deleted before."""
        name = "end of the log of writes"
        start, end = before[name], after[name]
        if start == end:
            return set()
        for _ in range(40):
            if self.ask(f"SELECT pg_current_wal_flush_lsn() >= '{end[0][0]}'") == [["t"]]:
                break
            time.sleep(0.05)
        command = [self.programs / "pg_waldump", "-p", self.data / "pg_wal", "-s", start[0][0], "-e", end[0][0]]
        records = subprocess.run(as_nobody(command), capture_output=True, text=True, timeout=20).stdout.splitlines()
        return {name} if records and all("desc: PRUNE" in record for record in records) else set()

    def contents(self):
        tables = "SELECT format('%I.%I', n.nspname, c.relname), c.relkind FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
            WHERE c.relkind IN ('r', 'S', 'm') AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast') AND c.relpersistence <> 't'"
        found = {}
        for name, kind in self.observer.query(tables)[0]:
            digest = "*" if kind == "S" else "md5(string_agg(q::text, '|' ORDER BY q::text))"
            found[f"rows of {name}"] = self.observer.query(f"SELECT {digest} FROM {name} q")[:2]
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


def find_programs():
    """The folder with `initdb`."""
    folders = [Path(found).resolve().parent] if (found := shutil.which("initdb")) else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: -int(path.parent.name))
    for folder in folders:
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    raise Missing("PostgreSQL is not installed; hint: trials/need-postgres")
