"""The list of features that do not work through Servanda yet: `NAMING SERVER/FEATURE: CELL...` a line, where a cell is
`client,era,transport`, or `*` for every one that can try the feature. `#` begins a comment."""

from pathlib import Path

from combinations import EVERY, NAMINGS, features_of
from features import FEATURES

EXPECTED = Path(__file__).resolve().parent / "expected.txt"
ALL = "*"


def universe():
    """(naming, label) -> every combination that can try that feature."""
    cells = {(naming, feature.label): [] for naming in NAMINGS for feature in FEATURES}
    for naming in NAMINGS:
        for combination in EVERY:
            for feature in features_of(combination, naming):
                cells[naming, feature.label].append(combination)
    return cells


def read_expected(file):
    """The (naming, label, combination) that are known to fail."""
    known, expected = universe(), set()
    for number, line in enumerate(file.read_text().splitlines(), 1):
        words = line.partition("#")[0].replace(":", " ").split()
        if not words:
            continue
        key = tuple(words[:2])
        if key not in known:
            raise SystemExit(f"{file.name}:{number}: no such feature `{' '.join(key)}`")
        for word in words[2:]:
            cells = known[key] if word == ALL else [tuple(word.split(","))]
            if not set(cells) <= set(known[key]):
                raise SystemExit(f"{file.name}:{number}: `{word}` does not try `{' '.join(key)}`")
            expected |= {(*key, cell) for cell in cells}
    return expected


def write_expected(file, measured, failing):
    """Replaces what this run measured; comments at the top and cells of other runs stay."""
    text = file.read_text()
    left = (read_expected(file) - measured) | failing
    lines = [line for line in text.splitlines() if line.startswith("#")]
    for key, cells in universe().items():
        found = [cell for cell in cells if (*key, cell) in left]
        if found:
            words = [ALL] if found == cells else [",".join(cell) for cell in found]
            lines.append(f"{' '.join(key)}: {' '.join(words)}")
    file.write_text("\n".join(lines) + "\n")
