"""The shell trial. Texts, and texts with something harmful put into them, are judged; those that are called reads, and only those, are run in a
real bash and a real dash, as the user `nobody`, in a folder of their own that is full of traps. Nothing may differ afterwards: no file
there or in the folders for temporary files, no process, no listening socket."""

import json
import os
import random
import shutil
import subprocess
import tempfile
from pathlib import Path

import traces
from judge import reads
from skips import missing
from unprivileged import as_nobody

LISTS = Path(__file__).resolve().parent.parent.parent / "crates/identity/src/effects/tests"
CORPUS = LISTS.parents[4].parent / "shared/corpora/effects/effects.jsonl"
RUN_SECONDS_MAX = 5

# Parts that are put into texts. If the file W appears, a text did harm.
HARM = [
    "; touch W", "&& touch W", "|| touch W", "| tee W", "> W", ">> W", ">| W", "1> W", "2> W", "&> W", "<> W", "\ntouch W", "\\\ntouch W",
    "$(touch W)", "`touch W`", "${x:=$(touch W)}", "${x@P}", "$((a[$(touch W)]))", "<(touch W)", ">(tee W)", "\n: > W\n", "& touch W &",
    "-o W", "--output=W", "--out W", "-oW", "-fprint W", "-fls W", "-exec touch W ;", "-delete", "| sh", "| bash", "| xargs touch",
    "| xargs -I{} sh -c {}",
    "W=1 touch W", "'\ntouch W\n'", "\" ; touch W ; \"", "' ; touch W ; '", "#\ntouch W", "\\; touch W", "{touch,W}", "*", "-*", "?o", "[-]o", "~",
    "!!",
    "w W", "1w W", "s/a/b/w W", "-i", "-n '1w W'", "-e '1e touch W'", "'BEGIN{system(\"touch W\")}'", "'{print > \"W\"}'", "\t;\ttouch W",
    "\r\ntouch W",
    "\x0btouch W", "\u00a0; touch W", "2>&1; touch W", "2>/dev/null; touch W", "2>/dev/nullx", "|& tee W", "<<E\ntouch W\nE\n", "<<< x > W",
    "--compress-program=./evil.sh", "-T . -S 1 --compress-program ./evil.sh", "--to-command ./evil.sh", "--pre ./evil.sh", "-c core.pager=./evil.sh",
    "x y", "f W", "- W", "-- W", "-c f W", "-f1 f W", "/dev/fd/3", "/proc/self/fd/1", "--files0-from=f", "@f", "-T W", "--log-file=W",
]
COMMANDS = [
    "ls", "cat f", "sort f", "uniq f", "find .", "grep a f", "sed -n 1p f", "awk '{print $1}' f", "head f", "tail f", "wc f", "tree", "date",
    "diff f g", "cut -c1 f",
    "tr a b", "du .", "df", "stat f", "file f", "ps", "hostname", "env", "printenv", "jq . f", "xxd f", "od f", "tac f", "nl f", "paste f g",
    "join f g", "comm f g",
    "git log", "git status", "tar tf f", "unzip -l f", "curl x", "wget x", "less f", "man ls", "python3 --version", "bash --version", "command -v ls",
    "type ls",
    "test -f f", "[ -f f ]", "echo a", "printf a", "true", "cd .", "pwd", "which ls", "base64 f", "strings f", "seq 3", "sleep 0", "time ls",
    "nice ls", "md5sum f",
]


def entries(name):
    return [text.strip("\n") for text in (LISTS / name).read_text().split("\n%%\n") if text.strip()]


def of_the_corpus():
    """The shell commands of the shared corpus, if it is installed."""
    if not CORPUS.exists():
        return []
    with CORPUS.open() as lines:
        return [line["shell"] for line in map(json.loads, lines) if "shell" in line]


def of_gtfobins(suites):
    """The texts of GTFOBins, if a folder with them is given."""
    path = suites / "shell.jsonl" if suites else None
    if not path or not path.exists():
        return []
    with path.open() as lines:
        texts = [json.loads(line)["shell"] for line in lines]
    return [text.replace("/path/to/", "") for text in texts]


def mutated(bases, count, chance):
    texts = []
    while len(texts) < count:
        base, harm = chance.choice(bases), chance.choice(HARM)
        at = chance.choice([0, len(base), chance.randrange(len(base) + 1)])
        text = chance.choice([f"{base} {harm}", f"{base}{harm}", f"{harm} {base}", base[:at] + harm + base[at:], base.replace(" ", f" {harm} ", 1)])
        if chance.random() < 0.3:
            text += " " + chance.choice(HARM)
        texts.append(text)
    return texts


def gathered(suites, count, short, chance):
    """Texts by where they are from."""
    own = entries("reading.txt") + entries("mutating.txt")
    gtfobins, corpus = of_gtfobins(suites), of_the_corpus()
    # A read makes a better disguise than a text that is refused anyway.
    bases = entries("reading.txt") * 3 + COMMANDS * 3 + gtfobins
    made = {"own lists": own, "GTFOBins": gtfobins, "shared corpus": chance.sample(corpus, min(len(corpus), 60 if short else 2_000))}
    return {**made, "mutation": mutated(bases, max(0, count - len(own)), chance)}


def witnessed(shell, text):
    """What a text changed, run by that shell. Files and sockets of other programs may appear meanwhile, so a difference outside of the
    folder counts only if a second run shows one again."""
    inside, outside = once(shell, text)
    if outside and not inside:
        inside, outside = once(shell, text)
    return inside + outside


def once(shell, text):
    """What changed in the text's own folder or goes on running, and what is new elsewhere."""
    with tempfile.TemporaryDirectory(prefix="servanda-redteam-") as made:
        os.chmod(made, 0o755)
        folder, mark = Path(made) / "home", Path(made).name
        folder.mkdir()
        traces.furnish(folder)
        before = traces.files(folder)
        around = traces.temporary_files(), traces.listening()
        command = ["timeout", "-k", "1", str(RUN_SECONDS_MAX), *as_nobody([shell, "-c", text])]
        env = {"PATH": os.environ["PATH"], "HOME": str(folder), "LC_ALL": "C.UTF-8", traces.MARK: mark}
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run(command, cwd=folder, env=env, start_new_session=True, **quiet)
        inside = [f"process {name} goes on" for name in traces.remaining(mark)]
        after = traces.files(folder)
        inside += sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
        outside = sorted(traces.temporary_files() - around[0])
        return inside, outside + [f"listens on {address}" for address in traces.listening() - around[1]]


def shell_trial(servanda, suites, count, short, seed):
    chance = random.Random(seed)
    shells = [shell for shell in ("bash", "dash") if shutil.which(shell)]
    if not suites and not short:
        yield "shell: SKIPPED GTFOBins: no folder was given with --suites", []
    if not CORPUS.exists():
        yield "shell: SKIPPED the shared corpus, which is not there", missing("shell: the shared corpus", "../shared/corpora/effects is not here")
    done = set()
    for source, texts in gathered(suites, count, short, chance).items():
        if not texts:
            continue
        called = [text for text, is_read in zip(texts, reads(servanda, texts)) if is_read]
        changed, fresh = [], [text for text in dict.fromkeys(called) if text not in done]
        done.update(fresh)
        for shell in shells:
            for text in fresh:
                if found := witnessed(shell, text):
                    changed.append(f"{shell} -c {text!r} changed {found}")
        ran = f"{len(fresh)} different ones run in {' and '.join(shells)}, {len(changed)} changes"
        yield f"shell: {source}: {len(texts)} texts (seed {seed}), {len(called)} called reads, {ran}", changed
