"""What a run of the conformance suite found: read from its output folder, laid out as tables, held against the list of
known failures."""

import json
import re
from dataclasses import dataclass, field

# The suite names a folder after the scenario and the time it ran.
FOLDER = re.compile(r"server-(.+)-(\d{4}-\d\d-\d\dT[\d-]+Z)")
DIRECT = "direct"
# A member of Servanda's refusals. Where the suite asks only for an answer, a refusal is one, and the check passes.
REFUSAL = "next_action"


@dataclass
class Scenario:
    passed: int = 0
    failed: int = 0
    warned: int = 0
    refused: int = 0
    # (id of the check, what the suite says about it), of every check that failed, was warned about or passed on a refusal
    faults: list = field(default_factory=list)

    @property
    def good(self):
        # The suite has no warning about the fixture and the fixture refuses nothing, so the same must hold for Servanda.
        return self.failed == self.warned == self.refused == 0

    def cell(self, direct):
        """`passed/failed`, `w` warnings, `r` passed on a refusal, and `of` as many as pass directly if that is all."""
        notes = [f" {number}{letter}" for number, letter in ((self.warned, "w"), (self.refused, "r")) if number]
        fewer = f" of {direct.passed}" if self.good and self.passed < direct.passed else ""
        return f"{self.passed}/{self.failed}{''.join(notes)}{fewer}"


def read_scenario(checks):
    found = Scenario()
    for check in checks:
        status = check["status"]
        found.passed += status == "SUCCESS"
        found.failed += status == "FAILURE"
        found.warned += status == "WARNING"
        if status in ("FAILURE", "WARNING"):
            found.faults.append((check["id"], fault(check)))
        elif REFUSAL in (details := json.dumps(check.get("details"))):
            found.refused += 1
            found.faults.append((check["id"], f"passes, on a refusal of Servanda's: {refusal(details)}"))
    return found


def fault(check):
    message = check.get("errorMessage") or check["description"]
    if check["id"] == "wire-schema-valid":
        # Its message says only how many; its details say which message broke which rule.
        message += " " + json.dumps(check.get("details"))
    return " ".join(message.split())[:600]


def refusal(details):
    # The message of the refusal, which is JSON in a text in JSON: the quotes are escaped, once or more.
    message = re.search(r'\\+"message\\+": ?\\+"(.*?)\\+"', details)
    return message.group(1) if message else details[:200]


def read_folder(folder):
    """scenario -> Scenario, in the order they ran."""
    named = [(FOLDER.fullmatch(checks.parent.name), checks) for checks in folder.glob("*/checks.json")]
    ran = sorted((name.group(2), name.group(1), checks) for name, checks in named if name)
    return {scenario: read_scenario(json.loads(checks.read_text())) for _, scenario, checks in ran}


ABSENT = Scenario(failed=1, faults=[("no-result", "the suite wrote no result for this scenario")])


class Results:
    """(revision, column) -> scenario -> Scenario. The column `direct` decides which scenarios count."""

    def __init__(self):
        self.runs = {}

    def add(self, revision, column, scenarios):
        self.runs[revision, column] = scenarios

    def get(self, revision, column, scenario):
        return self.runs[revision, column].get(scenario, ABSENT)

    def columns(self):
        return list(dict.fromkeys(column for _, column in self.runs))

    def revisions(self):
        return list(dict.fromkeys(revision for revision, _ in self.runs))

    def scenarios(self, revision):
        return list(self.runs[revision, DIRECT])

    def cells(self):
        """Every (column, revision, scenario) through Servanda that the fixture passes directly."""
        for revision, column in self.runs:
            for scenario, direct in self.runs[revision, DIRECT].items():
                if column != DIRECT and direct.good:
                    yield column, revision, scenario

    def good(self, cell):
        column, revision, scenario = cell
        return self.get(revision, column, scenario).good

    def fewer(self):
        """Cells that pass with fewer checks than directly: nothing failed, but something was not checked."""
        directly = {(revision, name): self.get(revision, DIRECT, name) for _, revision, name in self.cells()}
        for column, revision, name in self.cells():
            found = self.get(revision, column, name)
            if found.good and found.passed < directly[revision, name].passed:
                yield column, revision, name

    def totals(self, revision, column):
        """Checks passed and failed, and scenarios passed and all, of one run."""
        every = [self.get(revision, column, name) for name in self.scenarios(revision)]
        return sum(one.passed for one in every), sum(one.failed for one in every), sum(one.good for one in every), len(every)


# ---- layout -------------------------------------------------------------------------------------------------------


def rows(results, revision, mark):
    for name in results.scenarios(revision):
        found = [results.get(revision, column, name) for column in results.columns()]
        cells = [(one, one.cell(found[0])) for one in found]  # the first column is the direct one
        yield [name, *(cell if one.good else mark(cell) for one, cell in cells)]
    totals = [results.totals(revision, column) for column in results.columns()]
    yield ["checks passed/failed", *(f"{passed}/{failed}" for passed, failed, _, _ in totals)]
    yield ["scenarios without a fault", *(f"{good} of {every}" for _, _, good, every in totals)]


def print_tables(results):
    width = max(len(row[0]) for revision in results.revisions() for row in rows(results, revision, str))
    for revision in results.revisions():
        layout = f"{{:<{width}}}" + " {:>16}" * len(results.columns())
        print("\n" + layout.format(revision, *results.columns()))
        for row in rows(results, revision, lambda text: f"FAILED {text}"):
            print(layout.format(*row))


def markdown(results, introduction):
    lines = [introduction]
    for revision in results.revisions():
        columns = results.columns()
        lines += ["", f"## Requirements {revision}", "", f"| scenario | {' | '.join(columns)} |"]
        lines += ["|---|" + "--:|" * len(columns)]
        lines += [f"| {' | '.join(row)} |" for row in rows(results, revision, lambda text: f"**{text}**")]
    return "\n".join(lines) + "\n"


def print_faults(results, cells):
    for column, revision, scenario in cells:
        print(f"\n{column} {revision} {scenario}")
        for check, message in results.get(revision, column, scenario).faults:
            print(f"    {check}: {message}")


# ---- known failures -----------------------------------------------------------------------------------------------


def read_expected(file):
    """The cells of a list of known failures: `COLUMN REVISION SCENARIO` a line, `#` begins a comment."""
    lines = (line.partition("#")[0].split() for line in file.read_text().splitlines())
    return {tuple(words) for words in lines if words}


def write_expected(file, results):
    """Replaces what this run measured; comments at the top and cells of other runs stay."""
    text = file.read_text() if file.exists() else ""
    measured = set(results.cells())
    others = read_expected(file) - measured if text else set()
    failing = {cell for cell in measured if not results.good(cell)}
    comments = [line for line in text.splitlines() if line.startswith("#")]
    file.write_text("\n".join([*comments, *(" ".join(cell) for cell in sorted(others | failing))]) + "\n")


def surprises(results, expected):
    """Cells that fail and are not in the list, and cells in the list that pass."""
    cells = list(results.cells())
    regressions = [cell for cell in cells if not results.good(cell) and cell not in expected]
    return regressions, [cell for cell in cells if results.good(cell) and cell in expected]
