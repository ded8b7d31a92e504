"""The three real servers of the interop trial: how each is started, the fixture it works on, and the calls that
exercise every tool it lists.

A call is (tool, arguments, kind):
  OK      the tool succeeds
  FAILS   the tool itself answers with an error (isError), which must arrive unchanged
  INVALID the arguments break the tool's inputSchema. Both sides must answer isError, but the text may differ:
          Servanda's gates refuse such a call, with their own explanation, before the server sees it.
"""

import base64
import os
import re
import shutil
import sqlite3
import subprocess

OK, FAILS, INVALID = "ok", "fails", "invalid"

# One instant for everything that has a date, so that hashes and file times are equal in every run.
INSTANT_SECONDS = 1767225600
GIT_ENV = {
    "GIT_AUTHOR_NAME": "Ada Lovelace",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_AUTHOR_DATE": f"{INSTANT_SECONDS} +0000",
    "GIT_COMMITTER_NAME": "Ada Lovelace",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
    "GIT_COMMITTER_DATE": f"{INSTANT_SECONDS} +0000",
    # What the user or the system configured (colours, line endings, signing, language) must not change the answers.
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "LC_ALL": "C.UTF-8",
}
PIXEL_PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
SILENCE_WAV = b"RIFF$\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0@\x1f\0\0@\x1f\0\0\x01\0\x08\0data\0\0\0\0"
COFFEE = 'first ☕\nsecond žluťoučký kůň\nthird \U0001f980 and a "quote" and a \\ backslash\n'
# Larger than one pipe buffer (64 KiB) and one TCP segment, with multi-byte characters on every boundary there is.
LONG_TEXT = "0123456789 ☕\n" * 20_000


def filesystem_server(tools, root):
    entry = tools / "node/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js"
    # It prints dates in local time, and clients and gateways differ in whether they pass TZ on to a server.
    return {"command": "node", "args": [str(entry), str(root / "files")], "env": {"TZ": "UTC"}}


def filesystem_fixture(root):
    files = root / "files"
    (files / "notes/deep").mkdir(parents=True)
    contents = {
        "hello.txt": COFFEE.encode(),
        "empty.txt": b"",
        "untouched.txt": b"nobody reads me\n",
        "notes/todo.md": b"# todo\n- one\n- two\n- three\n",
        "notes/deep/data.json": b'{"answer": 42}\n',
        "pixel.png": PIXEL_PNG,
        "silence.wav": SILENCE_WAV,
        "blob.bin": bytes(range(256)),
    }
    for name, content in contents.items():
        (files / name).write_bytes(content)
        (files / name).chmod(0o644)
        os.utime(files / name, (INSTANT_SECONDS, INSTANT_SECONDS))


def filesystem_calls(root):
    def at(name):
        return str(root / "files" / name)

    edit = {"path": at("notes/todo.md"), "edits": [{"oldText": "- two\n", "newText": "- two ☕\n- two and a half\n"}]}
    return [
        ("list_allowed_directories", {}, OK),
        ("list_directory", {"path": at("")}, OK),
        ("list_directory_with_sizes", {"path": at("")}, OK),
        ("list_directory_with_sizes", {"path": at(""), "sortBy": "size"}, OK),
        ("directory_tree", {"path": at(""), "excludePatterns": ["*.bin"]}, OK),
        # Before anything reads this file: its access time is then still the fixture's.
        ("get_file_info", {"path": at("untouched.txt")}, OK),
        ("search_files", {"path": at(""), "pattern": "**/*.md"}, OK),
        ("search_files", {"path": at(""), "pattern": "**/*.nothing"}, OK),
        ("read_file", {"path": at("hello.txt")}, OK),
        ("read_text_file", {"path": at("hello.txt"), "head": 1}, OK),
        ("read_text_file", {"path": at("hello.txt"), "tail": 2}, OK),
        ("read_text_file", {"path": at("empty.txt")}, OK),
        ("read_media_file", {"path": at("pixel.png")}, OK),
        ("read_media_file", {"path": at("silence.wav")}, OK),
        ("read_media_file", {"path": at("blob.bin")}, OK),
        ("read_multiple_files", {"paths": [at("hello.txt"), at("missing.txt"), at("notes/deep/data.json")]}, OK),
        ("create_directory", {"path": at("made/by/trial")}, OK),
        ("write_file", {"path": at("made/long.txt"), "content": LONG_TEXT}, OK),
        ("read_text_file", {"path": at("made/long.txt")}, OK),
        ("edit_file", {**edit, "dryRun": True}, OK),
        ("edit_file", edit, OK),
        ("read_text_file", {"path": at("notes/todo.md")}, OK),
        ("move_file", {"source": at("notes/todo.md"), "destination": at("made/done.md")}, OK),
        # The same words as a call above, another truth: an answer kept from before the move would be wrong.
        ("search_files", {"path": at(""), "pattern": "**/*.md"}, OK),
        ("read_text_file", {"path": at("missing.txt")}, FAILS),
        ("read_text_file", {"path": "/etc/passwd"}, FAILS),
        ("read_text_file", {"path": at("hello.txt"), "head": 1, "tail": 1}, FAILS),
        ("move_file", {"source": at("hello.txt"), "destination": at("made/done.md")}, FAILS),
        ("edit_file", {"path": at("hello.txt"), "edits": [{"oldText": "absent", "newText": "x"}]}, FAILS),
        ("read_multiple_files", {"paths": []}, INVALID),
        ("write_file", {"path": at("made/half.txt")}, INVALID),
    ]


def git_server(tools, root):
    return {
        "command": str(tools / "py2/bin/mcp-server-git"),
        "args": ["--repository", str(root / "repo")],
        "env": GIT_ENV,
    }


def git_fixture(root):
    repo = root / "repo"
    repo.mkdir()

    def git(*arguments):
        env = {**GIT_ENV, "PATH": os.environ["PATH"], "HOME": str(root)}
        subprocess.run(["git", *arguments], cwd=repo, env=env, check=True, stdout=subprocess.DEVNULL, timeout=30)

    git("init", "--quiet", "--initial-branch=main")
    (repo / "story.txt").write_text("once\nupon\na\ntime\n")
    (repo / "sub").mkdir()
    (repo / "sub/café.txt").write_text(COFFEE)
    git("add", ".")
    git("commit", "--quiet", "--message=first: begin the story")
    git("branch", "side")
    (repo / "story.txt").write_text("once\nupon\nanother\ntime\n")
    git("commit", "--quiet", "--all", "--message=second: another ☕")
    (repo / "story.txt").write_text("once\nupon\nanother\ntime\nthe end\n")
    (repo / "new.txt").write_text("new\n")


def git_calls(root):
    repo = {"repo_path": str(root / "repo")}
    return [
        ("git_status", repo, OK),
        ("git_diff_unstaged", repo, OK),
        ("git_diff_unstaged", {**repo, "context_lines": 0}, OK),
        ("git_add", {**repo, "files": ["story.txt"]}, OK),
        ("git_diff_staged", repo, OK),
        ("git_commit", {**repo, "message": "third: the end"}, OK),
        # Twice the same words: the second time nothing is staged, and a replayed success would hide that.
        ("git_commit", {**repo, "message": "third: the end"}, FAILS),
        ("git_status", repo, OK),
        ("git_add", {**repo, "files": ["."]}, OK),
        ("git_reset", repo, OK),
        ("git_log", repo, OK),
        ("git_log", {**repo, "max_count": 1}, OK),
        ("git_log", {**repo, "start_timestamp": "2030-01-01"}, OK),
        ("git_show", {**repo, "revision": "HEAD~1"}, OK),
        ("git_show", {**repo, "revision": "HEAD:sub/café.txt"}, OK),
        ("git_show", {**repo, "revision": "HEAD:sub"}, OK),
        ("git_diff", {**repo, "target": "side"}, OK),
        ("git_create_branch", {**repo, "branch_name": "trial", "base_branch": "side"}, OK),
        ("git_branch", {**repo, "branch_type": "local"}, OK),
        ("git_branch", {**repo, "branch_type": "all", "contains": "main"}, OK),
        ("git_checkout", {**repo, "branch_name": "trial"}, OK),
        ("git_status", repo, OK),
        ("git_checkout", {**repo, "branch_name": "HEAD~0"}, OK),
        ("git_show", {**repo, "revision": "no-such-revision"}, FAILS),
        ("git_diff", {**repo, "target": "--stat"}, FAILS),
        ("git_create_branch", {**repo, "branch_name": "side", "base_branch": "main"}, FAILS),
        ("git_add", {**repo, "files": ["../outside.txt"]}, FAILS),
        ("git_status", {"repo_path": "/"}, FAILS),
        ("git_log", {**repo, "max_count": "many"}, INVALID),
        ("git_add", {**repo, "files": []}, INVALID),
    ]


def sqlite_server(tools, root):
    return {"command": str(tools / "py1/bin/mcp-server-sqlite"), "args": ["--db-path", str(root / "shop.db")]}


def sqlite_fixture(root):
    connection = sqlite3.connect(root / "shop.db")
    connection.executescript(
        """CREATE TABLE goods (id INTEGER PRIMARY KEY, name TEXT NOT NULL, price REAL, photo BLOB);
        INSERT INTO goods VALUES (1, 'žlutý hrnek ☕', 12.5, x'00ff10'), (2, 'it''s', NULL, NULL),
            (9007199254740993, 'large', 1e300, NULL);"""
    )
    connection.close()


def sqlite_calls(root):
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
        # This server reports its own failures as ordinary text: not isError, and it has to stay that way.
        ("read_query", {"query": "DELETE FROM goods"}, OK),
        ("read_query", {"query": "SELECT * FROM absent"}, OK),
        ("create_table", {"query": "CREATE TABLE goods (id INTEGER)"}, OK),
        # So the only isError it can give comes from its SDK, for arguments that break the schema.
        ("read_query", {}, INVALID),
        ("describe_table", {"table_name": 7}, INVALID),
    ]


# Under these names in .mcp.json, and so the prefix of their tools through Servanda.
SERVERS = {
    "filesystem": (filesystem_server, filesystem_fixture, filesystem_calls),
    "git": (git_server, git_fixture, git_calls),
    "sqlite": (sqlite_server, sqlite_fixture, sqlite_calls),
}

# All that is taken out of results before they are compared: (server, tool) -> pattern, replacement, reason.
NORMALISATIONS = {
    ("filesystem", "get_file_info"): (
        r"created: .*",
        "created: <time>",
        "a file's birth time is when this run made the fixture, and no call can set it",
    ),
}


def fresh_fixture(root):
    """The same files at the same path, whatever an earlier run has done to them."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    for _, fixture, _ in SERVERS.values():
        fixture(root)


def normalise(server, tool, value):
    if (server, tool) not in NORMALISATIONS:
        return value
    if isinstance(value, dict):
        return {key: normalise(server, tool, item) for key, item in value.items()}
    if isinstance(value, list):
        return [normalise(server, tool, item) for item in value]
    pattern, replacement, _ = NORMALISATIONS[server, tool]
    return re.sub(pattern, replacement, value) if isinstance(value, str) else value
