"""What a shell text leaves behind: files in its folder, processes, listening sockets.

Every text gets a mark in its environment, which its processes inherit. So a process that left its session and its parents is found too.
"""

import os
import signal
import time
from pathlib import Path

from unprivileged import NOBODY, give_to_nobody

MARK = "SERVANDA_REDTEAM"
LISTENING = "0A"


def furnish(folder):
    """A folder with files whose names are traps, all of one time."""
    files = {
        "f": "a b\nc d\na b\n", "g": "a b\nx\n", "-o": "x", "-delete": "x", "--output=W": "x", "-x.txt": "x", "a.txt": "a\n", "evil.sh": "#!/bin/sh\ntouch W\n",
        "input-file": "a b\n", ".toprc": "x", "ls": "#!/bin/sh\ntouch W\n",
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    for name in ("evil.sh", "ls"):
        (folder / name).chmod(0o755)
    (folder / "src").mkdir()
    (folder / "src" / "a.rs").write_text("fn main() {}\n")
    for path in [folder, *folder.rglob("*")]:
        os.utime(path, (1_000_000_000, 1_000_000_000))
        give_to_nobody(path)


def files(folder):
    found = {}
    for path in sorted([folder, *folder.rglob("*")]):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        found[str(path.relative_to(folder))] = (status.st_mode, status.st_uid, status.st_mtime_ns, content)
    return found


def temporary_files():
    """Names of files of the user `nobody` in folders where every user may write."""
    found = set()
    for folder in ("/tmp", "/var/tmp", "/dev/shm"):
        try:
            with os.scandir(folder) as entries:
                found |= {entry.path for entry in entries if entry.stat(follow_symlinks=False).st_uid == NOBODY}
        except OSError:
            continue
    return found


def processes(mark):
    """Ids of processes that carry the mark and have not ended."""
    found = []
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            marked = f"{MARK}={mark}".encode() in (process / "environ").read_bytes().split(b"\0")
            is_over = (process / "stat").read_text().rpartition(")")[2].split()[0] in "ZX"
        except OSError:
            continue
        if marked and not is_over:
            found.append(int(process.name))
    return found


def end_all(ids):
    for process in ids:
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            continue


def remaining(mark):
    """Processes of a text that are there after it ended; a moment is given to those that are ending. They are ended."""
    found = processes(mark)
    if found:
        time.sleep(0.3)
        found = processes(mark)
    names = []
    for process in found:
        try:
            names.append(Path(f"/proc/{process}/comm").read_text().strip())
        except OSError:
            continue
    end_all(found)
    return names


def listening():
    """Addresses on which the user `nobody` waits for connections."""
    found = set()
    for name in ("tcp", "tcp6"):
        try:
            lines = Path(f"/proc/net/{name}").read_text().splitlines()[1:]
        except OSError:
            continue
        for fields in map(str.split, lines):
            if fields[3] == LISTENING and int(fields[7]) == NOBODY:
                found.add(fields[1])
    return found
