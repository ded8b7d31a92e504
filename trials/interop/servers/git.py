"""PyPI mcp-server-git (mcp 2.x, dual-era): state that changes from call to call, and errors of git."""

import os
import subprocess

from .script import COFFEE, FAILS, INSTANT_SECONDS, INVALID, OK, Server

GIT_ENV = {
    "GIT_AUTHOR_NAME": "Ada Lovelace",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_AUTHOR_DATE": f"{INSTANT_SECONDS} +0000",
    "GIT_COMMITTER_NAME": "Ada Lovelace",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
    "GIT_COMMITTER_DATE": f"{INSTANT_SECONDS} +0000",
    # What the user or the system configured (colours, line endings, signing, language) must not change the answers.
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "LC_ALL": "C.UTF-8",
}


def launch(tools, root):
    return {
        "command": str(tools / "py2/bin/mcp-server-git"),
        "args": ["--repository", str(root / "repo")],
        "env": GIT_ENV,
    }


def fixture(root):
    repo = root / "repo"
    repo.mkdir()

    def git(*arguments):
        env = {**GIT_ENV, "PATH": os.environ["PATH"], "HOME": str(root)}
        subprocess.run(["git", *arguments], cwd=repo, env=env, check=True, stdout=subprocess.DEVNULL, timeout=30)

    git("init", "--quiet", "--initial-branch=main")
    (repo / "story.txt").write_text("once\nupon\na\ntime\n")
    (repo / "sub").mkdir()
    (repo / "sub/café.txt").write_text(COFFEE)
    git("add", ".")
    git("commit", "--quiet", "--message=first: begin the story")
    git("branch", "side")
    (repo / "story.txt").write_text("once\nupon\nanother\ntime\n")
    git("commit", "--quiet", "--all", "--message=second: another ☕")
    (repo / "story.txt").write_text("once\nupon\nanother\ntime\nthe end\n")
    (repo / "new.txt").write_text("new\n")


def calls(root):
    repo = {"repo_path": str(root / "repo")}
    return [
        ("git_status", repo, OK),
        ("git_diff_unstaged", repo, OK),
        ("git_diff_unstaged", {**repo, "context_lines": 0}, OK),
        ("git_add", {**repo, "files": ["story.txt"]}, OK),
        ("git_diff_staged", repo, OK),
        ("git_commit", {**repo, "message": "third: the end"}, OK),
        # Twice the same words: the second time nothing is staged, and a replayed success would hide that.
        ("git_commit", {**repo, "message": "third: the end"}, FAILS),
        ("git_status", repo, OK),
        ("git_add", {**repo, "files": ["."]}, OK),
        ("git_reset", repo, OK),
        ("git_log", repo, OK),
        ("git_log", {**repo, "max_count": 1}, OK),
        ("git_log", {**repo, "start_timestamp": "2030-01-01"}, OK),
        ("git_show", {**repo, "revision": "HEAD~1"}, OK),
        ("git_show", {**repo, "revision": "HEAD:sub/café.txt"}, OK),
        ("git_show", {**repo, "revision": "HEAD:sub"}, OK),
        ("git_diff", {**repo, "target": "side"}, OK),
        ("git_create_branch", {**repo, "branch_name": "trial", "base_branch": "side"}, OK),
        ("git_branch", {**repo, "branch_type": "local"}, OK),
        ("git_branch", {**repo, "branch_type": "all", "contains": "main"}, OK),
        ("git_checkout", {**repo, "branch_name": "trial"}, OK),
        ("git_status", repo, OK),
        ("git_checkout", {**repo, "branch_name": "HEAD~0"}, OK),
        ("git_show", {**repo, "revision": "no-such-revision"}, FAILS),
        ("git_diff", {**repo, "target": "--stat"}, FAILS),
        ("git_create_branch", {**repo, "branch_name": "side", "base_branch": "main"}, FAILS),
        ("git_add", {**repo, "files": ["../outside.txt"]}, FAILS),
        ("git_status", {"repo_path": "/"}, FAILS),
        ("git_log", {**repo, "max_count": "many"}, INVALID),
        ("git_add", {**repo, "files": []}, INVALID),
    ]


SERVER = Server(launch, fixture, calls)
