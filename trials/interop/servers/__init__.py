"""The real servers of the interop trial: how each is started, the fixture it works on, and the calls that exercise
every tool it lists."""

import shutil

from . import everything, filesystem, git, memory, sqlite, time

# Under these names in .mcp.json, and so the prefix of their tools through Servanda.
SERVERS = {
    "filesystem": filesystem.SERVER,
    "git": git.SERVER,
    "sqlite": sqlite.SERVER,
    "everything": everything.SERVER,
    "memory": memory.SERVER,
    "time": time.SERVER,
}


def fresh_fixture(root):
    """The same files at the same path, whatever an earlier run has done to them."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    for server in SERVERS.values():
        server.fixture(root)
