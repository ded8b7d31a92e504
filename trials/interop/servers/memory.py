"""npm @modelcontextprotocol/server-memory (legacy): a knowledge graph in a file, structured output on every tool."""

from .script import FAILS, INVALID, OK, Server


def launch(tools, root):
    entry = tools / "node/node_modules/@modelcontextprotocol/server-memory/dist/index.js"
    return {"command": "node", "args": [str(entry)], "env": {"MEMORY_FILE_PATH": str(root / "memory.jsonl")}}


def fixture(root):
    pass  # an absent file is an empty graph


def calls(root):
    ada = {"name": "Ada ☕", "entityType": "person", "observations": ["wrote the first program", 'says "hello"']}
    engine = {"name": "engine", "entityType": "machine", "observations": []}
    note = {"name": "note", "entityType": "text", "observations": ["G"]}
    wrote = {"from": "Ada ☕", "to": "note", "relationType": "wrote"}
    about = {"from": "note", "to": "engine", "relationType": "is about"}
    return [
        ("read_graph", {}, OK),
        ("create_entities", {"entities": [ada, engine, note]}, OK),
        # The same words, another truth: the entities are there already, so none is created.
        ("create_entities", {"entities": [ada, engine, note]}, OK),
        ("create_relations", {"relations": [wrote, about]}, OK),
        ("add_observations", {"observations": [{"entityName": "engine", "contents": ["never built", "of brass"]}]}, OK),
        ("read_graph", {}, OK),
        ("search_nodes", {"query": "PROGRAM"}, OK),
        ("search_nodes", {"query": "nowhere"}, OK),
        ("open_nodes", {"names": ["engine", "absent"]}, OK),
        ("delete_observations", {"deletions": [{"entityName": "engine", "observations": ["of brass"]}]}, OK),
        ("delete_relations", {"relations": [about]}, OK),
        ("delete_entities", {"entityNames": ["note"]}, OK),
        ("read_graph", {}, OK),
        ("add_observations", {"observations": [{"entityName": "absent", "contents": ["x"]}]}, FAILS),
        ("search_nodes", {}, INVALID),
        ("open_nodes", {"names": "engine"}, INVALID),
        ("create_entities", {"entities": [{"name": "half"}]}, INVALID),
    ]


SERVER = Server(launch, fixture, calls)
