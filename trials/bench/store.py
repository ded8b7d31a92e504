"""A PostgreSQL cluster of our own for the durable writes, in a temporary folder, with its usual durability (`fsync` on)."""
import contextlib
import itertools
import os
import pathlib
import shutil
import subprocess

from processes import free_port


def programs():
    """The folder of PostgreSQL's programs; none if it is not installed."""
    if found := shutil.which("initdb"):
        return pathlib.Path(os.path.realpath(found)).parent
    versions = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return versions[0] if versions else None


@contextlib.contextmanager
def postgresql(folder):
    """A running cluster, as a function that makes an empty database and says its URL. PostgreSQL refuses to run as root, so that it then
    runs as `nobody`."""
    binaries, place, port = programs(), pathlib.Path(folder, "postgresql"), free_port()
    place.mkdir()
    prefix = []
    if os.geteuid() == 0:
        shutil.chown(place, "nobody")
        for above in place.parents:
            if above != pathlib.Path("/") and above.stat().st_uid == 0 and not above.stat().st_mode & 0o001:
                above.chmod(above.stat().st_mode | 0o011)
        prefix = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]

    def run(*command):
        with open(place.parent / "postgresql.log", "ab") as log:
            subprocess.run([*prefix, *command], cwd=place, stdout=log, stderr=log, stdin=subprocess.DEVNULL, check=True)

    data, options = place / "data", f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories={place}"
    run(binaries / "initdb", "-D", data, "-U", "servanda", "-A", "trust", "-E", "UTF8")
    run(binaries / "pg_ctl", "-D", data, "-l", place / "log", "-o", options, "-w", "start")
    numbers = itertools.count()

    def fresh():
        name = f"bench_{next(numbers)}"
        run(binaries / "createdb", "-h", "127.0.0.1", "-p", str(port), "-U", "servanda", name)
        return f"postgres://servanda@127.0.0.1:{port}/{name}"

    try:
        yield fresh
    finally:
        run(binaries / "pg_ctl", "-D", data, "-m", "fast", "-w", "stop")
