"""What a trial lacks: a failure where CI=true, elsewhere a line in target/skipped.txt, which `make test` counts last. The tests in
Rust do the same by trials/requirements."""
import os
import pathlib

LIST = pathlib.Path(__file__).resolve().parent.parent / "target" / "skipped.txt"


def missing(trial, reason):
    """What is wrong because of it: the reason where CI=true, else nothing, and the trial goes on without it."""
    if os.environ.get("CI") == "true":
        return [reason]
    LIST.parent.mkdir(exist_ok=True)
    with LIST.open("a") as skipped:
        skipped.write(f"{trial}\t{reason}\n")
    return []
