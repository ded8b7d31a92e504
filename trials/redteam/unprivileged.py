"""Runs programs as the user `nobody` when the trial itself is root: servers refuse to run as root, and a harmful text should reach little."""

import os
import subprocess

NOBODY = 65534


def as_nobody(command):
    """The command as the user `nobody`. It ends when the process that started it ends, so that a killed trial leaves no server behind."""
    user = [f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"] if os.getuid() == 0 else []
    return ["setpriv", *user, "--pdeathsig", "TERM", *map(str, command)]


def give_to_nobody(path):
    if os.getuid() == 0:
        os.chown(path, NOBODY, NOBODY)


def run_as_nobody(command, seconds, **options):
    """Runs it to its end and returns what it printed. The error of a failed command has the last lines of its output."""
    ran = subprocess.run(as_nobody(command), capture_output=True, text=True, timeout=seconds, **options)
    if ran.returncode:
        raise RuntimeError(f"{command[0]} ended with {ran.returncode}: {(ran.stderr or ran.stdout)[-600:]}")
    return ran.stdout
