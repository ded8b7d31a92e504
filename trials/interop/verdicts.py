"""The verdicts: the direct side must do what the scripts say, and Servanda's side must do the same."""

from combinations import CLIENTS, VERSION_EXPECTED
from comparison import (
    DIFFERENCES_SHOWN_MAX, canonical, comparable, comparable_call, difference, is_error, listed, same_call, with_own_addresses,
)
from expected import EXPECTED, read_expected, write_expected
from servers import SERVERS
from servers.script import FAILS, INVALID, MEANT, OK, TASKED
from sides import calls_of

ABSENT = {"error": {"kind": "absent", "message": "the session ended before it"}}


class Tally:
    def __init__(self):
        self.passed, self.failed = 0, 0

    def check(self, holds, what):
        if holds:
            self.passed += 1
        else:
            self.failed += 1
            print(f"  FAILED {what}", flush=True)


# ---- of the direct side -------------------------------------------------------------------------------------------


def check_direct(tally, label, client, server, fixture, found):
    """The trial is worth something only if the direct side does what the script says, for every tool."""
    tally.check("failed" not in found, f"{label}: {found.get('failed')}")
    if "answers" not in found:
        return
    scripted = {tool for tool, _, _ in SERVERS[server].calls(fixture)}
    names = set(listed(found["answers"][0])) - set(SERVERS[server].asking)
    tally.check(
        names == scripted,
        f"{label}: listed but not called {sorted(names - scripted)}, called but not listed {sorted(scripted - names)}",
    )
    for (tool, _, kind), answer in zip(calls_of(client, server, fixture), found["answers"][1:]):
        if CLIENTS[client].verbatim:
            as_written = {
                OK: "result" in answer and not is_error(answer),
                MEANT: "result" in answer and not is_error(answer),
                FAILS: is_error(answer),
                INVALID: is_error(answer),
                TASKED: is_error(answer) or "error" in answer,
            }[kind]
        else:  # such a client may refuse by itself what the server would refuse; and has its own words for the rest
            unable = answer.get("error", {}).get("kind") == "NotImplementedError"
            as_written = kind != OK or unable or ("result" in answer and not is_error(answer))
        tally.check(as_written, f"{label}: `{tool}` was written as {kind} and answered {canonical(answer)[:400]}")


def check_direct_feature(tally, label, feature, answers):
    """A feature that fails without Servanda says nothing about Servanda. Those named for a failure must fail."""
    refused = feature.name.endswith(("-unknown", "-invalid"))
    for step, answer in zip(feature.steps, answers):
        good = "error" in answer if refused else "result" in answer and not is_error(answer)
        complete = all(
            sum(one["method"] == method for one in answer.get("told", [])) >= least
            for method, least in step.get("told", {}).items()
        )
        was_asked = len(answer.get("asked", [])) >= len(step.get("answers", {}))
        tally.check(good and complete and was_asked, f"{label}: {step} answered {canonical(answer)[:600]}")


# ---- of Servanda's side -------------------------------------------------------------------------------------------

COLUMNS = "{:<9} {:<7} {:<6} {:<20} {:<11} {:>6} {:>6} {:>10} {:>8}"


def header():
    names = ("client", "era", "over", "what", "version", "tried", "equal", "different", "seconds")
    print(COLUMNS.format(*names), flush=True)


def row(combination, what, version, tried, equal, seconds=None):
    time_taken = "" if seconds is None else f"{seconds:.1f}"
    cells = COLUMNS.format(*combination, what, str(version), tried, equal, tried - equal, time_taken)
    print(cells.rstrip(), flush=True)


def check_session(tally, plan, label, found):
    tally.check("failed" not in found, f"{label}: {found.get('failed')}")
    version = found.get("protocolVersion")
    tally.check(version == VERSION_EXPECTED[plan.combination[1]], f"{label}: negotiated {version}")
    return version


def compare_tools(tally, side, plan, found, direct, seconds):
    client, label = plan.combination[0], " ".join(plan.combination)
    version = check_session(tally, plan, label, found)
    answers = iter(found.get("answers", []))
    listing = next(answers, {"result": {"tools": []}})
    for name in plan.servers:
        server, calls, equal = SERVERS[name], calls_of(client, name, side.fixture), 0
        own = [with_own_addresses(next(answers, ABSENT), name) for _ in calls]
        if "answers" not in direct[name]:
            continue  # already counted as failed
        there, expected = listed(listing, f"{name}__"), listed(direct[name]["answers"][0])
        names = (there.keys() | expected.keys()) - set(server.asking)
        wrong = sorted(tool for tool in names if there.get(tool) != expected.get(tool))
        detail = "\n" + difference(canonical(expected.get(wrong[0])), canonical(there.get(wrong[0]))) if wrong else ""
        tally.check(not wrong, f"{label} {name}: listed differently: {wrong}{detail}")
        for index, (call, answer, wanted) in enumerate(zip(calls, own, direct[name]["answers"][1:])):
            same = same_call(server, call, answer, wanted)
            equal += same
            texts = [comparable_call(server, call[0], one) for one in (wanted, answer)]
            detail = "\n" + difference(*texts) if index - equal < DIFFERENCES_SHOWN_MAX else ""
            tally.check(same, f"{label} {name}: call {index} `{call[0]}`{detail}")
        row(plan.combination, f"tools of {name}", version, len(calls), equal, seconds)
        seconds = None  # one run for all: its time is on the first row


def compare_features(tally, plan, naming, found, direct, features):
    label, equal = f"{' '.join(plan.combination)} {naming}", 0
    version = check_session(tally, plan, label, found)
    tried = plan.features(naming)
    for feature in tried:
        server = SERVERS[feature.server]
        absent = [ABSENT] * len(feature.steps)
        wrong = []
        answers = zip(feature.steps, direct.get(feature.label, absent), found["features"].get(feature.label, absent))
        for index, (step, wanted, answer) in enumerate(answers):
            texts = [comparable(server, step, one) for one in (wanted, answer)]
            if texts[0] != texts[1]:
                message = f"\n    error : {canonical(answer['error'])[:400]}" if "error" in answer else ""
                wrong.append(f"    step {index} {step}\n{difference(*texts)}{message}")
        features[naming, feature.label, plan.combination] = "\n".join(wrong)
        equal += not wrong
    row(plan.combination, f"features, {naming}", version, len(tried), equal)


def judge_features(tally, features, options):
    """Holds what was found of every feature against the list of those that are known to fail."""
    failing = {cell for cell, wrong in features.items() if wrong}
    if options.update:
        write_expected(EXPECTED, set(features), failing)
    expected = read_expected(EXPECTED)
    for cell, wrong in features.items():
        naming, label, combination = cell
        where = f"{naming} {label} {','.join(combination)}"
        if cell not in expected:
            tally.check(not wrong, f"{where}: not as without Servanda\n{wrong}")
        elif not wrong:
            tally.check(False, f"{where}: passes, wanted a failure: take it out of {EXPECTED.name} (or --update)")
        elif options.why:
            print(f"  expected {where}\n{wrong}", flush=True)
    if known := failing & expected:
        print(f"{len(known)} features fail as {EXPECTED.name} says (--why shows how)")
