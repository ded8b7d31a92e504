"""The SQL trial. Every text that Servanda calls a read in an engine's dialect is run on that engine by an owner of everything, each statement
committed by itself, and all that can be compared is compared before and after: contents, catalogs, settings, files. A change of the session
that makes a later statement act differently counts too, but for the settings that the reader lists as harmless (`settings.rs`).

Reads run in batches. A batch that changed something is run again on fresh databases, to find the text that did it.
"""

import concurrent.futures
import os
import random
import re
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

import mutation
import statements
import sweeps
from engines import ELSEWHERE, Ended, Missing, mariadb, named_differences, postgresql, sqlite
from judge import reads
from skips import missing

BATCH_TEXTS_MAX = 25
GROUP_TEXTS_MAX = 1_000
BASE_BYTES_MAX = 300
KINDS_FOUND_MAX = 60
MORE_SHOWN_MAX, SHOWN_BYTES = 20, 100
# Statements of a suite that are tried: whole files, chosen by the seed.
SUITE_STATEMENTS_MAX = 25_000
SHORT = {"own": 400, "shared corpus": 150, "regression suite": 0, "lists of the engine": 150, "mutation": 600}
# Statements of a suite that make the tables its reads look at. No other statement is run unless it is called a read. Temporary tables
# are left out: they go with a session, and then the catalogs change.
BEFORE = r"(?:\s|--[^\n]*\n|/\*.*?\*/)*"
PREPARES = re.compile(
    BEFORE + r"(create\s+(unlogged\s+)?table|create\s+(unique\s+)?index|insert\s+into|drop\s+table|create\s+type\s+\w+\s+as\s+enum)\b"
    r"(?!.*\b(nextval|load_file|outfile|program|mysql\s*\.|mysql`|sys\s*\.))", re.I | re.S
)
QUERY = re.compile(BEFORE + r"(select|with|values|pragma|show)\b", re.I | re.S)
# A text that may change the session is watched by itself.
OF_THE_SESSION = re.compile(r"\b(set|begin|start|reset)\b", re.I)


def harmless_settings():
    """The settings that the reader lets a session have, from where it lists them."""
    text = (statements.ROOT / "crates/identity/src/effects/sql/settings.rs").read_text()
    return set(re.search(r"const HARMLESS: &str = \"(.*?)\";", text, re.S)[1].replace("\\", " ").split())


class Watch:
    """Runs the texts of one engine and keeps what was found."""

    def __init__(self, engine, harmless):
        self.engine, self.harmless = engine, harmless
        self.found, self.counts, self.ended = {}, Counter(), []

    def unseen(self):
        """Known changes that the trial does not see. If there are any, its result proves nothing."""
        missed = []
        for text in self.engine.known_changes:
            self.engine.renew()
            changes, opened = self.changes([text])
            if not changes and not opened:
                missed.append(f"{self.engine.name}: {text!r} changed nothing that is seen")
        return missed

    def note(self, text, differences):
        """Keeps the first of a kind, and counts the others: the same word at the beginning, the same things changed."""
        things = tuple(re.sub(r"[\W\d]+", " ", difference.split(":")[0]) for difference in differences if not difference.startswith("after "))
        begins = re.sub(r"--[^\n]*\n|/\*.*?\*/", "", text, flags=re.S).upper().split()[:1]
        kind = (*begins, *things)
        self.found.setdefault(kind, []).append(f"{text!r}: {'; '.join(differences)}")

    def lines(self):
        """The first of each kind in full, and the beginnings of some more."""
        shown = []
        for first, *others in self.found.values():
            more = f"; and {len(others)} more: {'; '.join(other[:SHOWN_BYTES] for other in others[:MORE_SHOWN_MAX])}" if others else ""
            shown.append(f"{self.engine.name}: {first}{more}")
        return shown

    def group(self, source, texts, called_reads):
        """Runs a group against a fresh database; the rest of it is left out if a statement that prepares ends the engine."""
        try:
            self.in_order(source, texts, called_reads)
        except Ended as ended:
            self.ended.append(str(ended))

    def in_order(self, source, texts, called_reads):
        self.preparing, self.source, batch = [], source, []
        self.engine.renew()
        for text, is_read in zip(texts, called_reads):
            if len(self.found) >= KINDS_FOUND_MAX:
                return
            if is_read:
                if OF_THE_SESSION.search(text):
                    self.batch(batch)
                    self.batch([text])
                    self.engine.fresh_session()
                    batch = []
                    continue
                batch.append(text)
            if batch and (len(batch) >= BATCH_TEXTS_MAX or (not is_read and PREPARES.match(text))):
                self.batch(batch)
                batch = []
            if not is_read and PREPARES.match(text):
                self.engine.prepare(text)
                self.preparing.append(text)
        self.batch(batch)

    def batch(self, texts):
        if not texts:
            return
        try:
            changes, opened = self.changes(texts, counted=True)
            for text, what in opened:
                self.note(text, [what])
            if changes:
                self.blame(texts, changes)
                self.engine.renew(self.preparing)
        except Ended as ended:
            # Once more without the text that did it.
            self.ended.append(str(ended))
            self.engine.renew(self.preparing)
            self.batch([text for text in texts if text != self.running])

    def changes(self, texts, counted=False):
        """The differences after these texts, and what each of them left open."""
        before, opened, failed = self.engine.state(), [], 0
        for text in texts:
            self.running = text
            opened += [(text, what) for what in self.engine.run(text)]
            failed += self.engine.failed()
        after = self.engine.state()
        if counted:
            self.counts[self.source, "run"] += len(texts)
            self.counts[self.source, "without an error"] += len(texts) - failed
        explained = self.engine.explained(before, after)
        for name in [name for name in before if name in explained or self.is_harmless(name)]:
            after[name] = before[name]
        return named_differences(before, after), opened

    def is_harmless(self, name):
        setting = re.fullmatch(r"session setting (\w+)", name, re.I)
        return bool(setting) and (setting[1].lower() in self.harmless or setting[1].startswith("enable_"))

    def blame(self, texts, changes):
        """Names the texts that change something by themselves, or the last of the fewest that do together."""
        alone = 0
        for text in texts:
            self.engine.renew(self.preparing)
            if found := self.changes([text])[0]:
                self.note(text, found)
                alone += 1
        for count in range(2, 0 if alone else len(texts) + 1):
            self.engine.renew(self.preparing)
            if found := self.changes(texts[:count])[0]:
                self.note(texts[count - 1], [*found, f"after {texts[max(0, count - 4) : count - 1]!r}"])
                return
        if not alone:
            self.note(texts[-1], [*changes, f"once, but not again, with {texts!r}"])


def gathered(engine, suites, short, count, chance):
    """All groups for an engine: the reader's own lists, corpus and suites by file, the engine's lists, and mutations of known reads."""
    dialect = engine.dialect
    suite = statements.suite(dialect, suites)
    chance.shuffle(suite)
    groups = [("own", statements.own(dialect)), *statements.corpus(dialect), *limited(suite, SUITE_STATEMENTS_MAX)]
    known = statements.known_reads(dialect)
    queries = [text for source, texts in groups if source != "own" for text in texts if QUERY.match(text) and len(text) < BASE_BYTES_MAX]
    bases = known * 3 + chance.sample(queries, min(len(queries), 2_000))
    listed = sweeps.swept(dialect, engine)
    chance.shuffle(listed)
    groups += chunks("lists of the engine", listed)
    groups += chunks("mutation", mutation.mutated(dialect, bases, SHORT["mutation"] if short else count, chance))
    return shortened(groups, chance) if short else groups


def limited(groups, count):
    kept = []
    for source, texts in groups:
        if count > 0:
            kept.append((source, texts))
            count -= len(texts)
    return kept


def chunks(source, texts):
    return [(source, texts[at : at + GROUP_TEXTS_MAX]) for at in range(0, len(texts), GROUP_TEXTS_MAX)]


def shortened(groups, chance):
    """A few of each source; of a corpus, whole files, because their statements build on each other."""
    left, kept = dict(SHORT), []
    for source, texts in chance.sample(groups, len(groups)):
        texts = texts[: left[source]]
        left[source] -= len(texts)
        if texts:
            kept.append((source, texts))
    return kept


def tried(servanda, engine, suites, short, count, seed):
    """Lines for one engine, `(what was tried, what was wrong)`."""
    chance = random.Random(f"{seed} {engine.dialect}")
    with tempfile.TemporaryDirectory(prefix="servanda-redteam-", ignore_cleanup_errors=True) as made:
        os.chmod(made, 0o755)
        try:
            engine.start(Path(made) / engine.dialect)
            watch = Watch(engine, harmless_settings())
            seen, unseen = set(), watch.unseen()
            if suites and hasattr(engine, "keep_as_template"):
                prepare_shared_tables(engine, suites)
            lines = {}
            for source, texts in gathered(engine, suites, short, count, chance):
                called = reads(servanda, texts, engine.dialect)
                lines.setdefault(source, []).extend(texts)
                watch.counts[source, "reads"] += sum(called)
                # What was run before is not run again, but what prepares is.
                called = [is_read and text not in seen for text, is_read in zip(texts, called)]
                seen.update(texts)
                if any(called):
                    watch.group(source, texts, called)
            known = (f"sql: {engine.name}: {len(engine.known_changes)} known changes, {len(unseen)} of them not seen", unseen)
            return [known, *((report(engine, source, len(texts), watch.counts), []) for source, texts in lines.items()), *results(watch, seed)]
        finally:
            engine.end()
            Path(ELSEWHERE).unlink(missing_ok=True)


def prepare_shared_tables(engine, suites):
    """The tables that all files of PostgreSQL's suite look at."""
    for _, texts in statements.grouped(suites / "postgresql.jsonl", "", lambda line: line["file"] == "test_setup.sql", "file"):
        engine.keep_as_template([text for text in texts if PREPARES.match(text)])


def report(engine, source, count, counts):
    called, run, ended = (counts[source, what] for what in ("reads", "run", "without an error"))
    return f"sql: {engine.name}, {source}: {count} statements, {called} called reads, {run} different ones run, {ended} without an error"


def results(watch, seed):
    engine = f"{watch.engine.name} {watch.engine.version()}"
    faults = [(f"sql: {engine}: a fault of this version ended it: {ended}", []) for ended in watch.ended]
    return faults + [(f"sql: {engine}: {len(watch.found)} kinds of changes by what was called a read (seed {seed})", watch.lines())]


def sql_trial(servanda, suites, short, count, seed, only=None):
    """The engines run side by side; lines come engine by engine."""
    if not suites and not short:
        yield "sql: SKIPPED the engines' regression suites: no folder was given with --suites", []
    if not statements.CORPUS.exists():
        yield "sql: SKIPPED the shared corpus, which is not there", missing("sql: the shared corpus", "../shared/corpora/effects is not here")
    engines = [made for made in (postgresql.Engine(), mariadb.Engine(), sqlite.Engine()) if not only or made.dialect in only]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        ways = [(engine, pool.submit(tried, servanda, engine, suites, short, count, seed)) for engine in engines]
        for engine, way in ways:
            try:
                yield from way.result()
            except Missing as why:
                # In CI no person would notice a skipped line, so it counts as a failure there.
                yield f"sql: SKIPPED {engine.name}: {why}", missing(f"sql: {engine.name}", str(why))
            except (OSError, RuntimeError, ValueError, subprocess.SubprocessError) as error:
                yield f"sql: {engine.name}: the trial did not come to its end", [repr(error)]
