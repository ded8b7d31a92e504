"""What the scripts of the servers have in common.

A call is (tool, arguments, kind):
  OK      the tool succeeds
  FAILS   the tool itself answers with an error (isError), which must arrive unchanged
  INVALID the arguments break the tool's inputSchema. Both sides must answer isError, but the text may differ:
          Servanda's gates refuse such a call, with their own explanation, before the server sees it.
  TASKED  the server takes it only as a task of 2025-11-25. Directly an ordinary call is an error, of the client's or the
          server's; Servanda makes the task itself and answers with its end, unless the client refuses before.
  MEANT   the server takes it, and a tool that only reads is asked to change something: Servanda refuses it at gate 6.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

OK, FAILS, INVALID, TASKED, MEANT = "ok", "fails", "invalid", "tasked", "meant"
EVERY_TOOL = "*"

# One instant for everything that has a date, so that hashes and file times are equal in every run.
INSTANT_SECONDS = 1767225600
COFFEE = 'first ☕\nsecond žluťoučký kůň\nthird \U0001f980 and a "quote" and a \\ backslash\n'


@dataclass(frozen=True)
class Normalisation:
    """A part of results that cannot be equal twice, and is taken out of both sides before they are compared."""

    tool: str
    pattern: str
    replacement: str
    reason: str

    def apply(self, value):
        if isinstance(value, dict):
            return {key: self.apply(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.apply(item) for item in value]
        return re.sub(self.pattern, self.replacement, value) if isinstance(value, str) else value


@dataclass(frozen=True)
class Server:
    launch: Callable  # (folder of the tools, fixture) -> its entry in .mcp.json
    fixture: Callable  # (fixture) -> None, makes its part of it
    calls: Callable  # (fixture) -> calls that exercise every tool it lists
    normalisations: tuple = ()
    # Tools that ask the client for something, and are listed only to one that declares it can answer. In features.py.
    asking: tuple = ()
    # (tool, why no client here can call it): the trial prints it
    skipped: tuple = ()

    def normalise(self, tool, value):
        for one in self.normalisations:
            if one.tool in (tool, EVERY_TOOL):
                value = one.apply(value)
        return value
