"""PyPI mcp-server-sqlite (mcp 1.x, legacy): a server that reports its failures as ordinary text."""

import sqlite3

from .script import INVALID, MEANT, OK, Server


def launch(tools, root):
    return {"command": str(tools / "py1/bin/mcp-server-sqlite"), "args": ["--db-path", str(root / "shop.db")]}


def fixture(root):
    connection = sqlite3.connect(root / "shop.db")
    connection.executescript(
        """CREATE TABLE goods (id INTEGER PRIMARY KEY, name TEXT NOT NULL, price REAL, photo BLOB);
        INSERT INTO goods VALUES (1, 'žlutý hrnek ☕', 12.5, x'00ff10'), (2, 'it''s', NULL, NULL),
            (9007199254740993, 'large', 1e300, NULL);"""
    )
    connection.close()


def calls(root):
    insert = {"query": "INSERT INTO orders (good) VALUES (1)"}
    return [
        ("list_tables", {}, OK),
        ("describe_table", {"table_name": "goods"}, OK),
        ("read_query", {"query": "SELECT * FROM goods ORDER BY id"}, OK),
        (
            "create_table",
            {"query": "CREATE TABLE orders (id INTEGER PRIMARY KEY, good INTEGER, note TEXT DEFAULT '☕')"},
            OK,
        ),
        ("list_tables", {}, OK),
        # Two orders are two orders: a client that says nothing about idempotency must get both.
        ("write_query", insert, OK),
        ("write_query", insert, OK),
        ("read_query", {"query": "SELECT count(*) AS orders FROM orders"}, OK),
        ("write_query", {"query": "UPDATE orders SET note = 'a\nb' WHERE id = 2"}, OK),
        ("write_query", {"query": "DELETE FROM orders WHERE id = 1"}, OK),
        ("read_query", {"query": "SELECT * FROM orders"}, OK),
        # Sends notifications/resources/updated while the call is open; it must not disturb the answer.
        ("append_insight", {"insight": "hrnky ☕ sell"}, OK),
        ("read_query", {"query": "DELETE FROM goods"}, MEANT),
        # This server reports its own failures as ordinary text: not isError, and it has to stay that way.
        ("read_query", {"query": "SELECT * FROM absent"}, OK),
        ("create_table", {"query": "CREATE TABLE goods (id INTEGER)"}, OK),
        # So the only isError it can give comes from its SDK, for arguments that break the schema.
        ("read_query", {}, INVALID),
        ("describe_table", {"table_name": 7}, INVALID),
    ]


SERVER = Server(launch, fixture, calls)
