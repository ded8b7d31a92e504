"""npm @modelcontextprotocol/server-filesystem (legacy): files, media, long texts, refusals of its own."""

import base64
import os

from .script import COFFEE, FAILS, INSTANT_SECONDS, INVALID, OK, Normalisation, Server

PIXEL_PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
SILENCE_WAV = b"RIFF$\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0@\x1f\0\0@\x1f\0\0\x01\0\x08\0data\0\0\0\0"
# Larger than one pipe buffer (64 KiB) and one TCP segment, with multi-byte characters on every boundary there is.
LONG_TEXT = "0123456789 ☕\n" * 20_000


def launch(tools, root):
    entry = tools / "node/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js"
    # It prints dates in local time, and clients and gateways differ in whether they pass TZ on to a server.
    return {"command": "node", "args": [str(entry), str(root / "files")], "env": {"TZ": "UTC"}}


def fixture(root):
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


def calls(root):
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


SERVER = Server(
    launch,
    fixture,
    calls,
    normalisations=(
        Normalisation(
            "get_file_info",
            r"created: .*",
            "created: <time>",
            "a file's birth time is when this run made the fixture, and no call can set it",
        ),
    ),
)
