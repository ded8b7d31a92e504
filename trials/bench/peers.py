"""Other gateways, each described by a file in peers/ and measured if the environment variable that it names has the path of its binary.

A description has: `env`, `command` (`{binary}`, `{folder}` and `{port}` are filled in), `files` by name (`{upstream_host}`, `{upstream_port}`,
`{upstream_url}` and `{port}` are filled in), `path` of the endpoint, `tool` as it is called through the peer, and a `note`."""
import json
import os
import pathlib

from processes import free_port
from targets import Target, mcp_url

FOLDER = pathlib.Path(__file__).resolve().parent / "peers"


def named():
    """The peers whose binary is here, by name: (description, path)."""
    found = {}
    for file in sorted(FOLDER.glob("*.json")):
        peer = json.loads(file.read_text())
        if path := os.environ.get(peer["env"]):
            found[file.stem] = (peer, path)
    return found


def start(world, name, upstream):
    peer, binary = named()[name]
    folder = world.folder / name
    folder.mkdir()
    port = free_port()
    words = {
        "binary": binary, "folder": str(folder), "port": str(port), "upstream_host": "127.0.0.1", "upstream_port": str(upstream),
        "upstream_url": mcp_url(upstream),
    }
    for file, text in peer["files"].items():
        (folder / file).write_text(filled(text if isinstance(text, str) else "\n".join(text) + "\n", words))
    process = world.start(name, [filled(word, words) for word in peer["command"]], folder, peer.get("environment"))
    process.wait_for_port(port)
    return Target(name, f"http://127.0.0.1:{port}{peer['path']}", peer["tool"], process, peer["note"])


def filled(text, words):
    for word, value in words.items():
        text = text.replace("{" + word + "}", value)
    return text
