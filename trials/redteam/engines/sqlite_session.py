#!/usr/bin/env python3
"""One connection to a database file of SQLite, in a process of its own because a statement may end it. It is told what to do by lines of JSON
on its input, and answers each with a line."""

import hashlib
import json
import os
import sqlite3
import sys
import time
from pathlib import Path

STATEMENT_SECONDS_MAX = 1.5
# How many steps of a statement pass between two looks at the clock.
STEPS_BETWEEN = 20_000
MEMORY_BYTES_MAX = 256 * 1024 * 1024

SCHEMA = """
CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT, c TEXT, d REAL);
INSERT INTO t VALUES (1, 'one', '2026-01-01', 1.5), (2, 'two', '2026-01-02', 2.5), (3, NULL, NULL, NULL);
CREATE TABLE people (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT, data TEXT);
INSERT INTO people VALUES (1, 'Ada', '{"k": 1}'), (2, 'Bob', '[1, 2]');
CREATE INDEX people_by_name ON people (name, data);
CREATE TABLE touched (who TEXT);
CREATE VIRTUAL TABLE words USING fts5 (word);
INSERT INTO words VALUES ('alpha'), ('beta');
CREATE VIEW v AS SELECT a, b FROM t;
CREATE TRIGGER watch INSTEAD OF INSERT ON v BEGIN INSERT INTO touched VALUES ('trigger'); END;
ANALYZE;
DELETE FROM sqlite_stat1;
"""
ASKED = (
    "analysis_limit application_id auto_vacuum automatic_index busy_timeout cache_size cache_spill cell_size_check checkpoint_fullfsync "
    "database_list defer_foreign_keys encoding foreign_keys fullfsync hard_heap_limit ignore_check_constraints "
    "legacy_alter_table locking_mode max_page_count mmap_size page_count page_size query_only read_uncommitted recursive_triggers "
    "reverse_unordered_selects schema_version secure_delete soft_heap_limit synchronous temp_store threads trusted_schema user_version "
    "wal_autocheckpoint writable_schema short_column_names full_column_names count_changes"
).split()


class Database:
    def __init__(self, file):
        self.file, self.connection = Path(file), None

    def renew(self, preparing):
        if self.connection:
            self.connection.close()
        for path in self.file.parent.iterdir():
            path.unlink()
        self.connection = sqlite3.connect(self.file, isolation_level=None)
        if hasattr(self.connection, "enable_load_extension"):
            self.connection.enable_load_extension(True)
        self.connection.execute(f"PRAGMA hard_heap_limit = {MEMORY_BYTES_MAX}")
        for statement in SCHEMA.strip().split(";\n"):
            self.connection.executescript(statement)
        for text in preparing:
            self.run(text)
        # Asking for temporary objects makes a place for them, so it is done first.
        self.state()

    def run(self, text):
        """The error, if it ended with one, and whether a transaction was left open, which is taken back."""
        ends, error = time.monotonic() + STATEMENT_SECONDS_MAX, None
        self.connection.set_progress_handler(lambda: time.monotonic() > ends, STEPS_BETWEEN)
        try:
            self.connection.executescript(text)
        except (sqlite3.Error, sqlite3.Warning, ValueError, MemoryError, OverflowError) as failed:
            error = str(failed)
        self.connection.set_progress_handler(None, 0)
        is_open = self.connection.in_transaction
        if is_open:
            self.connection.execute("ROLLBACK")
        return error, is_open

    def state(self):
        found = {"bytes of the database": hashlib.sha256(self.file.read_bytes()).hexdigest()}
        found["files"] = [(path.name, path.stat().st_size) for path in sorted(self.file.parent.iterdir())]
        for name in ASKED:
            found[f"session setting {name}"] = self.asked(f"PRAGMA {name}")
        found["rows changed by the connection"] = self.connection.total_changes
        found["last row"] = self.asked("SELECT last_insert_rowid(), 'a' LIKE 'A'")
        found["temporary objects"] = self.asked("SELECT * FROM sqlite_temp_master")
        return found

    def asked(self, question):
        return str(self.connection.execute(question).fetchall())


def main():
    database = Database(sys.argv[1])
    # Relative names of files begin here.
    os.chdir(database.file.parent)
    for line in sys.stdin:
        method, *arguments = json.loads(line)
        print(json.dumps(getattr(database, method)(*arguments)), flush=True)


if __name__ == "__main__":
    main()
