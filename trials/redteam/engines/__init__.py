"""Throwaway database engines that say what a statement changed.

Each module has an `Engine` with the same methods, and nothing of it outlives `end`:

name, dialect      for messages, and for Servanda
known_changes      statements that have to be seen to change something
start(folder)      makes and starts it in that folder; fails with `Missing` where it is not installed and cannot be
renew(preparing)   a fresh database in the state of the first day, and then these statements; and a fresh session
prepare(text)      runs a statement that is meant to change something; errors are of no interest
run(text)          runs a text as an owner, committing each statement; answers what was left open in the session
failed()           whether that text ended with an error
fresh_session()    forgets what the session was told
state()            everything compared: a name and a value each
explained(before, after)  names of differences that the engine makes by itself
ask(question)      rows, for what is generated from the engine's own lists
version()          for messages
end()              stops it
"""

from pathlib import Path

# Where the statements of `mutation.py` write that need a whole path.
ELSEWHERE = "/tmp/servanda-redteam-written"


class Missing(Exception):
    """The engine is not installed and cannot be installed."""


class Ended(Exception):
    """A statement ended the engine, which is a fault of that version. The message names it; `renew` starts the engine again."""


def named_differences(before, after):
    """The names of the values that differ between two states, each with the beginning of the difference."""
    found = []
    for name in sorted(before.keys() | after.keys()):
        one, other = str(before.get(name)), str(after.get(name))
        if one != other:
            at = next((at for at, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))
            start = max(0, at - 30)
            found.append(f"{name}: …{one[start : at + 60]!r} became …{other[start : at + 60]!r}")
    return found


def listing(folder, ignored):
    """Names of all files below a folder, but those that the engine itself makes and removes."""
    return sorted(name for path in folder.rglob("*") if not ignored.search(name := str(path.relative_to(folder))))


def written_elsewhere():
    return [(str(path), path.stat().st_size) for path in sorted(Path(ELSEWHERE).parent.glob(Path(ELSEWHERE).name + "*"))]
