//! `connect` when a gateway already listens: this configuration's, an earlier version's, or another project's.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    thread,
};

use serde_json::json;

use crate::{connect::servers, world::World};

/// If the gateway answers, clients are connected to it.
#[test]
fn a_running_gateway_is_found() {
    let world = World::empty();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    world.configure_with(&json!({ "servanda": 1, "listen": address.to_string(), "upstreams": {} }));
    let answering = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut asked = [0; 1024];
        let length = stream.read(&mut asked).unwrap();
        assert!(asked[..length].starts_with(b"GET /healthz"));
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").unwrap();
    });
    let ran = world.run(&["connect", "windsurf", "--yes"]).ended(0);
    answering.join().unwrap();
    assert!(
        ran.stderr.contains(&format!("a gateway answers at {address}, so the client is sent there")),
        "{}",
        ran.stderr
    );
    let entry = servers(&world, ".codeium/windsurf/mcp_config.json")["servanda"].clone();
    assert_eq!(entry, json!({ "serverUrl": format!("http://{address}/mcp") }));
    // No gateway answers any more; existing connections stay as they are.
    assert!(world.run(&["connect", "windsurf"]).ended(0).stderr.contains("is connected already, as `servanda` (http)"));
}

/// Two projects use one address: the gateway of one is not mistaken for that of the other.
#[test]
fn the_gateway_of_another_project_is_none_of_this_one() {
    let theirs = World::company([crate::contract::count_effects()]);
    let gateway = theirs.serve();
    let address = gateway.address.to_string();
    let world = World::empty();
    world.configure_with(&json!({ "servanda": 1, "listen": address, "upstreams": {} }));
    let ran = world.run(&["connect", "windsurf", "--yes"]).ended(0);
    assert!(ran.stderr.contains(&format!("the gateway at {address} has another configuration")), "{}", ran.stderr);
    let entry = servers(&world, ".codeium/windsurf/mcp_config.json")["servanda"].clone();
    assert!(entry.get("command").is_some(), "{entry}");
    let looked = world.run(&["doctor"]).stdout;
    assert!(looked.contains(&format!("a gateway of another configuration answers at {address}")), "{looked}");
    // The project's own gateway is found.
    theirs.change_config(|config| config["listen"] = json!(address));
    let ran = theirs.run(&["connect", "windsurf", "--yes"]).ended(0);
    assert!(ran.stderr.contains("so the client is sent there"), "{}", ran.stderr);
}

/// If callers need a credential, the written entry has none, and the user is told so.
#[test]
fn a_client_that_needs_a_credential_is_said_to() {
    let world = World::guarded(&[]);
    let ran = world.run(&["connect", "claude-code", "--http", "--yes"]).ended(0);
    assert!(
        ran.stderr.contains("`Authorization: Bearer KEY`") && ran.stderr.contains("servanda keys create"),
        "{}",
        ran.stderr
    );
}
