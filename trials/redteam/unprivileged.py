"""Runs programs as nobody when the trial itself is root: servers refuse to run as root, and a text that does harm should reach little."""

import os
import subprocess

NOBODY = 65534


def as_nobody(command):
    """The command as nobody; it ends when what started it does, so that a trial that is killed leaves no server behind."""
    user = [f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"] if os.getuid() == 0 else []
    return ["setpriv", *user, "--pdeathsig", "TERM", *map(str, command)]


def give_to_nobody(path):
    if os.getuid() == 0:
        os.chown(path, NOBODY, NOBODY)


def run_as_nobody(command, seconds, **options):
    """Runs it to its end and answers what it printed; what fails is said with the last of its words."""
    ran = subprocess.run(as_nobody(command), capture_output=True, text=True, timeout=seconds, **options)
    if ran.returncode:
        raise RuntimeError(f"{command[0]} ended with {ran.returncode}: {(ran.stderr or ran.stdout)[-600:]}")
    return ran.stdout
