"""The page of a run: medians over the rounds as Markdown tables, with plots beside it. `make bench-page` puts both into docs/performance;
docs/performance.md, which says what they mean, is written by hand. A quick run is refused there, because its figures are too short to quote.

usage: page.py RUN_JSON FOLDER
"""
import json
import pathlib
import statistics
import sys

from plots import bars, shown

PLOTS = (
    ("processor", "Processor time of the target for one call", "µs", "processor_us", ("reads",)),
    ("throughput", "Calls a second", "calls/s", "rps", ("reads",)),
    ("latency", "Latency, median", "ms", "p50", ("reads",)),
    ("large", "Processor time for one large result", "µs", "processor_us", ("result-100 KB", "result-1 MB")),
)
NOISE_SHARE = 0.1


def write(run, folder):
    rows = medians(run["rows"])
    pictures = pathlib.Path(folder, "performance")
    pictures.mkdir(parents=True, exist_ok=True)
    text = [head(run, rows), summary(rows)]
    for file, title, unit, key, groups in PLOTS:
        chosen = [row for row in rows if row["group"] in groups and row.get(key)]
        if chosen:
            (pictures / f"{file}.svg").write_text(bars(title, unit, by_case(chosen, key)))
            text.append(f"![{title}]({file}.svg)\n")
    for group in dict.fromkeys(row["group"] for row in rows):
        text.append(table(group, [row for row in rows if row["group"] == group]))
    (pictures / "run.md").write_text("\n".join(text))


def medians(rows):
    """One row for each case and target, with the median of every number."""
    kept = {}
    for row in rows:
        kept.setdefault((row["group"], row["case"], row["target"]), []).append(row)
    return [folded(list(same)) for same in kept.values()]


def folded(rows):
    result = dict(rows[0])
    for key in {key for row in rows for key in row}:
        values = [row[key] for row in rows if row.get(key) is not None]
        if values and all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
            result[key] = sum(values) if key == "errors" else statistics.median(values)
        elif values:
            result[key] = values[0]
    result["others"] = max((row.get("others") or 0) for row in rows)
    return result


def by_case(rows, key):
    cases = {}
    for row in rows:
        cases.setdefault(row["case"], []).append((row["target"], row[key]))
    return list(cases.items())


def head(run, rows):
    machine, others = run["machine"], max((row["others"] for row in rows), default=0)
    noise = f" Other processes took up to {others:.0%} of the machine meanwhile: compare processor time and counts only." if others > NOISE_SHARE else ""
    return (
        "# The last run of the benchmark\n"
        f"`mcp-echo` behind Servanda, measured by `make bench` at {machine['commit']}, {machine['at']}: {machine['cores']} cores ({machine['model']}) shared by load "
        f"generator, upstream and gateway; medians of {run['rounds']} rounds of {run['seconds']:g} s in changing order; every call through all gates and on "
        f"record. Compare ratios and counts; absolute figures do not travel.{noise}\n"
    )


def summary(rows):
    """The figures that have goals: processor time against the rmcp server, calls a second against direct."""
    found = {(row["case"], row["target"]): row for row in rows}
    lines = ["| reads | processor time of one call | of an rmcp server's | calls/s of direct | added p50, of direct's | system calls | context switches |", "|---|---|---|---|---|---|---|"]
    for (case, target), row in found.items():
        direct, rmcp = found.get((case, "direct")), found.get((case, "rmcp"))
        if row["group"] == "reads" and target == "servanda" and direct and rmcp:
            added = (row["p50"] - direct["p50"]) / direct["p50"] if direct["p50"] else 0
            counted = (row.get("syscalls") or {}).get("all")
            lines.append(
                f"| {case} | {row['processor_us']:.0f} µs | {ratio(row['processor_us'], rmcp['processor_us'])} × | {ratio(row['rps'], direct['rps'])} "
                f"| {added:.1f} × | {'–' if counted is None else counted} | {row['switches']:.2f} |"
            )
    return "\n".join(lines) + "\n" if len(lines) > 2 else ""


def ratio(one, other):
    return f"{one / other:.2f}" if other else "–"


COLUMNS = (
    ("calls/s", "rps"), ("p50 ms", "p50"), ("p99 ms", "p99"), ("p99.9 ms", "p999"), ("processor µs", "processor_us"), ("system calls", "syscalls"),
    ("switches", "switches"), ("resident MB", "resident_mb"), ("peak MB", "peak_mb"), ("start s", "startup_s"), ("sessions", "sessions"),
    ("KB a session", "kb_per_session"), ("raw inserts/s", "raw_inserts"), ("ratio", "ratio"), ("errors", "errors"),
)


def table(group, rows):
    used = [(name, key) for name, key in COLUMNS if any(row.get(key) is not None for row in rows)]
    lines = [f"## {group}", "| case | target | " + " | ".join(name for name, _ in used) + " |", "|---" * (len(used) + 2) + "|"]
    lines += [f"| {row['case']} | {row['target']} | " + " | ".join(cell(row.get(key)) for _, key in used) + " |" for row in rows]
    notes = {row["target"]: row["note"] for row in rows if row.get("note")}
    lines += ["", *[f"- {target}: {note}." for target, note in notes.items()]]
    where = [f"- {row['target']}, {row['case']}: {threads(row)}" for row in rows if row["target"] == "servanda" and row.get("threads_us")]
    return "\n".join(lines + (["", "Processor time by thread, µs a call:", "", *where] if where else [])) + "\n"


def threads(row):
    return ", ".join(f"{name} {spent:g}" for name, spent in list(row["threads_us"].items())[:5])


def cell(value):
    if value is None:
        return "–"
    if isinstance(value, dict):
        return f"{value.get('all', '–')}"
    return f"{value:,}" if isinstance(value, int) else shown(value)


if __name__ == "__main__":
    made = json.loads(pathlib.Path(sys.argv[1]).read_text())
    if made["quick"]:
        raise SystemExit("a quick run has no figures to quote: run `make bench`")
    write(made, sys.argv[2])
