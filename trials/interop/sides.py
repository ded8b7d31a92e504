"""The two sides of the trial: clients that reach their servers directly, and clients that reach them through Servanda."""

import json
import os
import re
import shutil
import subprocess
import time
from contextlib import ExitStack, contextmanager

from combinations import CLIENTS, NAMINGS, TOOLS
from comparison import addressed, unaddressed
from features import FEATURES, ROOTS
from processes import Failed, run_to_end, started, tail
from servers import SERVERS, fresh_fixture
from servers.script import FAILS, INVALID

# Bounds of every wait. Generous: Python servers were seen to need 30 s to start on a busy machine.
INIT_SECONDS_MAX = 180
READY_SECONDS_MAX = 120
DRIVER_SECONDS_MAX = 300
LIST_TOOLS = {"do": "list", "what": "tools"}


def calls_of(client, server, fixture):
    """The calls that a client makes to a server: all, or one independent call of each kind."""
    calls = SERVERS[server].calls(fixture)
    if not CLIENTS[client].single:
        return calls
    last = [[call for call in calls if call[2] == kind][-1:] for kind in (FAILS, INVALID)]
    return [calls[0], *last[0], *last[1]]


def session(target, era, steps, declares=False, versioned=False):
    """`versioned`: the negotiated version is of interest, and a client that tells it only when asked is asked."""
    roots = ROOTS if declares else []
    return {"target": target, "era": era, "steps": steps, "declares": declares, "roots": roots, "versioned": versioned}


class Side:
    """One place to run clients from. A fixture has one absolute path for all runs, so results can be equal."""

    def __init__(self, work):
        self.work, self.initialised = work, {}
        # Tools and features have a fixture each: the sessions of a client run at once, and would meet in one.
        self.fixture, self.other_fixture = work / "fixture", work / "other-fixture"
        # Hermetic: no personal MCP configuration, git configuration or loopback proxy is used.
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("XDG_", "GIT_", "SERVANDA_"))}
        self.env = {**kept, "HOME": str(work / "home"), "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
        # Some clients would look for updates, or draw boxes around log lines.
        self.env |= {"FASTMCP_CHECK_FOR_UPDATES": "off", "NO_COLOR": "1"}
        (work / "home").mkdir()

    def prepare(self):
        for fixture in (self.fixture, self.other_fixture):
            fresh_fixture(fixture)
        shutil.rmtree(self.work / "client", ignore_errors=True)
        (self.work / "client").mkdir()

    def drive(self, client, sessions):
        """Runs the client with these sessions, all at once; their documents in the same order."""
        folder = self.work / "client"
        (folder / "script.json").write_text(json.dumps({"sessions": sessions}))
        command = [*CLIENTS[client].command, "--script", str(folder / "script.json")]
        output = run_to_end(command, folder, self.env, "driver.log", DRIVER_SECONDS_MAX)
        try:
            return json.loads(output)["sessions"]
        except ValueError:
            raise Failed(f"the driver printed no document but {output[:400]!r}\n{tail(folder / 'driver.log')}") from None

    # ---- directly ----

    def direct(self, client, era, servers, features):
        """{"tools": {server: session}, "features": {label: answers}} of a client without Servanda."""
        self.prepare()
        sessions = [
            session(SERVERS[server].launch(TOOLS, self.fixture), era, [LIST_TOOLS, *self.call_steps(client, server)])
            for server in servers
        ]
        behind = list(dict.fromkeys(feature.server for feature in features))
        for server in behind:
            steps = [step for feature in features if feature.server == server for step in feature.steps]
            sessions.append(session(SERVERS[server].launch(TOOLS, self.other_fixture), era, steps, declares=True))
        found = self.drive(client, sessions)
        answers = {}
        for server, one in zip(behind, found[len(servers) :]):
            answers |= by_feature([feature for feature in features if feature.server == server], one)
        return {"tools": dict(zip(servers, found)), "features": answers}

    def call_steps(self, client, server, prefix=""):
        return [
            {"do": "call", "name": prefix + tool, "arguments": arguments}
            for tool, arguments, _ in calls_of(client, server, self.fixture)
        ]

    # ---- through Servanda ----

    def through(self, servanda, plan):
        """The same, through Servanda: one session for the tools of all servers, and one for every naming."""
        client, era, transport = plan.combination
        self.prepare()
        with ExitStack() as gateways:
            targets, sessions = [], []
            if plan.servers:
                entries = {name: SERVERS[name].launch(TOOLS, self.fixture) for name in plan.servers}
                targets.append(gateways.enter_context(self.gateway(servanda, transport, "tools", entries)))
                steps = [step for name in plan.servers for step in self.call_steps(client, name, f"{name}__")]
                sessions.append(session(targets[-1], era, [LIST_TOOLS, *steps], versioned=True))
            for naming in plan.namings:
                entries = {name: SERVERS[name].launch(TOOLS, self.other_fixture) for name in NAMINGS[naming]}
                targets.append(gateways.enter_context(self.gateway(servanda, transport, naming, entries)))
                steps = [
                    addressed(step, feature.server) if naming == "prefixed" else step
                    for feature in plan.features(naming)
                    for step in feature.steps
                ]
                sessions.append(session(targets[-1], era, steps, declares=True, versioned=True))
            try:
                return self.sorted(plan, self.drive(client, sessions))
            except Failed as failure:
                raise Failed(f"{failure}\n    servanda's own log:\n{self.servanda_log()}") from None

    def sorted(self, plan, found):
        document = {"tools": found.pop(0) if plan.servers else None, "namings": {}}
        for naming, one in zip(plan.namings, found):
            answers = by_feature(plan.features(naming), one)
            if naming == "prefixed":
                answers = {
                    feature.label: [unaddressed(answer, feature.server) for answer in answers[feature.label]]
                    for feature in plan.features(naming)
                    if feature.label in answers
                }
            document["namings"][naming] = {**one, "features": answers}
        return document

    @contextmanager
    def gateway(self, servanda, transport, kind, entries):
        """Servanda in front of these servers: the URL it serves, or the command that a client starts it with."""
        folder = self.work / "client" / kind
        self.initialise(servanda, folder, kind, entries)
        if transport == "stdio":
            yield {"command": servanda, "args": ["--config", str(folder / "servanda.yaml"), "stdio"]}
            return
        serve = [servanda, "serve", "--listen", "127.0.0.1:0"]
        with started(serve, folder, self.env, "serve.log", stdout=subprocess.DEVNULL) as process:
            yield {"url": wait_for_url(process, folder / "serve.log")}

    def initialise(self, servanda, folder, kind, entries):
        """`servanda init`, once for every set of servers: their paths are the same in every run."""
        key = (kind, *entries)
        if key not in self.initialised:
            made = self.work / f"initialised-{len(self.initialised)}"
            made.mkdir()
            (made / ".mcp.json").write_text(json.dumps({"mcpServers": entries}, indent=2))
            run_to_end([servanda, "init", "--yes"], made, self.env, "init.log", INIT_SECONDS_MAX)
            configuration = made / "servanda.yaml"
            # This trial tests neither budgets nor approvals.
            written = configuration.read_text().replace("amount: 10", "amount: 100000")
            configuration.write_text(written + "approvals: {by_class: false}\n")
            if "everything" in entries:
                # It prints its environment, so it is refused until a person permits it.
                (made / "policies").mkdir()
                permit = 'permit (principal, action == Action::"call:everything.get-env", resource);'
                (made / "policies/get-env.cedar").write_text(f'@id("get-env")\n{permit}\n')
            if kind == "bare":
                written = configuration.read_text()
                if "names: prefixed" not in written:
                    raise Failed(f"`servanda init` wrote no `names: prefixed`:\n{written}")
                configuration.write_text(written.replace("names: prefixed", "names: bare"))
            self.initialised[key] = made
        shutil.copytree(self.initialised[key], folder)

    def servanda_log(self):
        logs = [*(self.work / "client").glob("*/serve.log")]
        return "\n".join(tail(log) for log in logs) or "    | (on the standard error of the client's driver)"


def by_feature(features, found):
    """label -> the answers to its steps, of a session that made the steps of all these features in order."""
    if "answers" not in found:
        return {}
    answers = iter(found["answers"])
    return {feature.label: [next(answers) for _ in feature.steps] for feature in features}


def wait_for_url(process, log):
    deadline = time.monotonic() + READY_SECONDS_MAX
    while time.monotonic() < deadline and process.poll() is None:
        if found := re.search(r"http://127\.0\.0\.1:\d+/mcp", log.read_text(errors="replace")):
            return found.group()
        time.sleep(0.05)
    why = f"within {READY_SECONDS_MAX} s" if process.poll() is None else f"and ended with {process.poll()}"
    raise Failed(f"`servanda serve` printed no URL {why}\n{tail(log)}")


def features_needed(plans):
    """Every feature that one of these plans tries, in order."""
    wanted = {feature.label for plan in plans for naming in plan.namings for feature in plan.features(naming)}
    return [feature for feature in FEATURES if feature.label in wanted]
