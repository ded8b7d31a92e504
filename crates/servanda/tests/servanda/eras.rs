//! A server of both eras, whose tools ask questions in the way of one era: every client keeps its own era.

use std::{
    fs,
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};

use crate::{
    agent::{Agent, Reply},
    contract::reads,
    world::{World, until},
};

const SERVER: &str = include_str!("both_eras.py");

/// The server over HTTP; it ends with the test.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A world with the server as `both`, over that transport. `log` has the messages that the server got.
#[expect(clippy::disallowed_methods, reason = "a black-box test starts the upstream as its users do")]
fn world(transport: &str) -> (World, Option<Served>) {
    let world = World::empty();
    world.write("server/both_eras.py", SERVER);
    let (script, log) = (world.path("server/both_eras.py"), world.path("server/log"));
    let served = (transport == "http").then(|| {
        let mut command = Command::new("python3");
        command.arg(&script).arg("http").arg(&log);
        Served(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    });
    let upstream = if served.is_some() {
        let port = until("the server to listen", || fs::read_to_string(world.path("server/log.port")).ok());
        json!({ "url": format!("http://127.0.0.1:{port}/mcp") })
    } else {
        json!({ "command": "python3", "args": [script, "stdio", log] })
    };
    world.configure(&json!({ "both": upstream }));
    for tool in ["consult", "confirm", "era"] {
        let mut contract = reads(tool).of("both");
        contract.0["runtime"]["timeout_ms"] = json!(20_000);
        world.add(&contract);
    }
    (world.unpinned(), served)
}

/// The messages that the server got: process, era and method of each.
fn heard(world: &World) -> Vec<[String; 3]> {
    let log = world.read("server/log");
    let words = |line: &str| -> Vec<String> { line.split(' ').map(str::to_owned).collect() };
    log.lines().map(|line| words(line).try_into().unwrap()).collect()
}

fn processes(world: &World) -> usize {
    heard(world).into_iter().map(|[process, ..]| process).collect::<std::collections::BTreeSet<_>>().len()
}

/// Calls a tool that asks a question, and answers it.
fn consult(agent: &Agent) -> Reply {
    let params = json!({ "name": "both__consult", "arguments": {} });
    let mut stream = agent.begin("consulting", "tools/call", params);
    let question: Value = serde_json::from_str(&stream.next_event().expect("a question")).unwrap();
    assert_eq!(question["method"], "sampling/createMessage", "{question}");
    let content = json!({ "type": "text", "text": "the left one" });
    let result = json!({ "role": "assistant", "model": "m", "content": content });
    agent.tell(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": result }));
    Reply::of(stream.next_event().expect("an answer"))
}

fn text(reply: &Reply) -> &str {
    reply.success()["content"][0]["text"].as_str().unwrap()
}

#[test]
fn a_legacy_client_is_asked_in_its_own_era_by_a_server_of_both() {
    for transport in ["stdio", "http"] {
        let (world, _served) = world(transport);
        let gateway = world.serve();
        let able = gateway.able(&json!({ "sampling": {} }));
        assert_eq!(able.tools(), ["both__confirm", "both__consult", "both__era"], "{transport}");
        assert_eq!(text(&consult(&able)), "legacy: the left one", "{transport}");
        assert_eq!(text(&able.call("both__era", json!({}))), "legacy", "{transport}");
    }
}

#[test]
fn a_modern_client_keeps_its_era_at_a_server_of_both() {
    for transport in ["stdio", "http"] {
        let (world, _served) = world(transport);
        let gateway = world.serve();
        let modern = gateway.modern();
        let meta = json!({ "io.modelcontextprotocol/clientCapabilities": { "elicitation": { "form": {} } } });
        let params = json!({ "name": "both__confirm", "arguments": {}, "_meta": meta });
        let asked = modern.ask("tools/call", params.clone());
        assert_eq!(asked.result()["resultType"], "input_required", "{}", asked.raw);
        let mut again = params;
        again["requestState"] = asked.result()["requestState"].clone();
        again["inputResponses"] = json!({ "sure": { "action": "accept", "content": { "ok": true } } });
        assert_eq!(text(&modern.ask("tools/call", again)), "modern: True", "{transport}");
        assert_eq!(text(&modern.call("both__era", json!({}))), "modern", "{transport}");
        assert!(heard(&world).iter().all(|[_, era, _]| era == "modern"), "nothing else was asked for");
    }
}

#[test]
fn a_second_process_is_started_only_for_a_legacy_client_that_can_be_asked() {
    let (world, _) = world("stdio");
    let gateway = world.serve();
    let (modern, unable) = (gateway.modern(), gateway.legacy());
    for agent in [&modern, &unable] {
        assert_eq!(text(&agent.call("both__era", json!({}))), "modern");
    }
    assert_eq!(processes(&world), 1);
    let able = gateway.able(&json!({ "sampling": {} }));
    assert_eq!(text(&able.call("both__era", json!({}))), "legacy");
    assert_eq!(processes(&world), 2);

    let (world, _served) = crate::eras::world("http");
    let gateway = world.serve();
    assert_eq!(text(&gateway.legacy().call("both__era", json!({}))), "legacy", "a session costs no process");
}
