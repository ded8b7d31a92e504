"""What a trial lacks: a failure where CI=true, elsewhere a line in target/skipped.txt, which `make test` counts last. The tests in
Rust do the same by trials/requirements."""
import os
import pathlib

LIST = pathlib.Path(__file__).resolve().parent.parent / "target" / "skipped.txt"


def missing(trial, reason):
    """The failure that follows: the reason if CI=true; otherwise none, and the trial continues without it."""
    if os.environ.get("CI") == "true":
        return [reason]
    LIST.parent.mkdir(exist_ok=True)
    with LIST.open("a") as skipped:
        skipped.write(f"{trial}\t{reason}\n")
    return []
