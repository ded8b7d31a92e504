"""Asks Servanda what texts would do: `servanda identity effects`, many texts at a time."""

import json
import subprocess

JUDGE_SECONDS_MAX = 600


def judged(servanda, questions):
    """One answer a question; a question is `{"shell": text}` or `{"sql": text, "dialect": name}`."""
    lines = "".join(json.dumps(question) + "\n" for question in questions)
    command = [servanda, "identity", "effects", "-"]
    ran = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=JUDGE_SECONDS_MAX)
    answers = [json.loads(line) for line in ran.stdout.splitlines()]
    if len(answers) != len(questions):
        raise SystemExit(f"{len(answers)} answers to {len(questions)} texts: {ran.stderr[-500:]}")
    return answers


def reads(servanda, texts, dialect=None):
    """For each text, whether it is called a read: shell text, or SQL if a dialect is given."""
    questions = [{"shell": text} if dialect is None else {"sql": text, "dialect": dialect} for text in texts]
    return [answer["effect"] == "read" for answer in judged(servanda, questions)]
