"""Servanda in other configurations, to see what one part of it costs. The product has no switches for records, policy or output checks,
because no operator may turn them off; so each variant takes away what a configuration can take away, and its note says what that is.
A variant edits a folder that `servanda init` has written."""
import pathlib
import re
import shutil
import subprocess

from targets import ENTRY

POLICIES = 200
SHARED_MEMORY = pathlib.Path("/dev/shm")
COMMAND_SECONDS_MAX = 120


def without_disk(world):
    """Records stay, but on a file system in memory: what the disk costs. The time of the ledger's thread says what records cost."""
    place = SHARED_MEMORY / f"servanda-bench-{world.folder.parent.name}-{world.folder.name}"

    def change(folder):
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(mode=0o700)
        with_ledger(f"{place}/ledger.db")(folder)

    return change, lambda: shutil.rmtree(place, ignore_errors=True)


def with_policies(folder):
    """Adds many operator's policies, none of which applies to the caller, to the built-in ones, which always apply."""
    (folder / "policies").mkdir()
    rule = '@id("bench-{0}")\nforbid (principal == User::"acme/user{0}", action, resource);\n'
    (folder / "policies" / "bench.cedar").write_text("".join(rule.format(number) for number in range(POLICIES)))


def without_log(folder):
    """The verifiable log is switched off."""
    config = folder / "servanda.yaml"
    config.write_text(config.read_text() + "audit: {log: false}\n")


def without_output_schema(world):
    """A whole contract for `echo` with an output schema that says nothing, so that structured results are not checked."""

    def change(folder):
        whole = said(world, folder, "contract", "show", f"{ENTRY}__echo")
        open_schema = re.sub(r"(?m)^  output_schema:.*\n(?:    .*\n)+", "  output_schema: {}\n", whole)
        if open_schema == whole:
            raise SystemExit("the contract has no output schema; the variant would measure nothing")
        (folder / "contracts" / "whole.yaml").write_text(re.sub(r"max_requests: \d+", "max_requests: 1000000000", open_schema))
        entries = folder / "contracts" / f"{ENTRY}.yaml"
        entries.write_text(re.sub(r"(?m)^  echo:\n(?:    .*\n)+", "", entries.read_text()))

    return change


def writing(world, tool):
    """The tool's contract says that it changes something."""
    return lambda folder: said(world, folder, "review", f"{ENTRY}__{tool}", "--class", "MEDIUM_RISK_WRITE")


def with_ledger(place):
    def change(folder):
        config = folder / "servanda.yaml"
        config.write_text(re.sub(r"(?m)^ledger: .*$", f"ledger: {place}", config.read_text()))

    return change


def said(world, folder, *command):
    done = subprocess.run([world.servanda, *command], cwd=folder, capture_output=True, text=True, timeout=COMMAND_SECONDS_MAX)
    if done.returncode:
        raise SystemExit(f"servanda {' '.join(command)}: {done.stderr}")
    return done.stdout
