//! `init` finds secrets in plain text in a client's file and offers to store them encrypted. No value is ever shown or written.

use serde_json::{Value, json};

use crate::world::{BINARY, World};

const TOKEN: &str = "ghp_0123456789abcdefCANARY";
const ARGUMENT: &str = "sk-0123456789abcdefCANARY";

/// A server that gets a secret in a variable, and one that gets another in an argument.
fn world() -> World {
    let world = World::empty();
    let servers = json!({ "mcpServers": {
        "github": { "command": BINARY, "args": ["sample"], "env": { "GITHUB_TOKEN": TOKEN, "MODE": "plain" } },
        "other": { "command": "sh", "args": ["-c", format!("exec {BINARY} sample"), "--api-key", ARGUMENT] },
    } });
    world.write(".mcp.json", &servers.to_string());
    world
}

fn assert_not_shown(texts: &[&str]) {
    for text in texts {
        assert!(!text.contains("CANARY"), "{text}");
    }
}

fn stored(world: &World) -> Vec<Value> {
    let listed = world.run(&["secret", "list", "--json"]).ended(0).json();
    listed["secrets"].as_array().unwrap().clone()
}

#[test]
fn a_flag_stores_what_can_be_stored_and_the_server_gets_it() {
    let world = world();
    let ran = world.run(&["init", "--yes", "--store-secrets"]).ended(0);
    let config = world.read("servanda.yaml");
    assert_not_shown(&[&ran.stdout, &ran.stderr, &config]);
    assert!(config.contains("secret: store:GITHUB_TOKEN") && config.contains("env: GITHUB_TOKEN"), "{config}");
    assert!(!config.contains("${GITHUB_TOKEN}") && config.contains("MODE: plain"), "{config}");
    assert!(config.contains("${OTHER_API_KEY}"), "an argument has no place for a reference: {config}");
    assert!(
        ran.stderr.contains("it is in the encrypted store, and servanda.yaml refers to it there"),
        "{}",
        ran.stderr
    );
    assert!(!ran.stderr.contains("set GITHUB_TOKEN before"), "{}", ran.stderr);
    assert!(ran.stderr.contains("set OTHER_API_KEY before `servanda serve`"), "{}", ran.stderr);
    let kept = stored(&world);
    assert_eq!((kept.len(), &kept[0]["secret"], &kept[0]["lacks"]), (1, &json!("store:GITHUB_TOKEN"), &Value::Null));
    // The gateway starts the server with the stored secret: nothing has to be set.
    let env = [("OTHER_API_KEY", "sk-0123456789abcdef")];
    world.run_with_env(&["call", "github__list_files", "{}"], &env).ended(0);
}

#[test]
fn a_person_is_asked_and_may_say_no() {
    let world = world();
    let asked = world.run_on_terminal(&["init"], "y\nn\n").ended(0);
    assert!(
        asked.stderr.contains("keep 1 secret encrypted in .servanda (GITHUB_TOKEN of github)? [y/N]"),
        "{}",
        asked.stderr
    );
    assert!(world.read("servanda.yaml").contains("${GITHUB_TOKEN}"));
    assert_eq!(stored(&world), Vec::<Value>::new());
    let asked = world.run_on_terminal(&["init", "--force"], "y\ny\n").ended(0);
    assert!(world.read("servanda.yaml").contains("secret: store:GITHUB_TOKEN"), "{}", asked.stderr);
    assert_eq!(stored(&world).len(), 1);
}

#[test]
fn without_a_terminal_there_is_a_hint() {
    let world = world();
    let ran = world.run(&["init", "--yes"]).ended(0);
    assert_not_shown(&[&ran.stdout, &ran.stderr]);
    assert!(ran.stderr.contains("hint: 1 secret of the file can be kept encrypted"), "{}", ran.stderr);
    assert!(ran.stderr.contains("`servanda init --force --store-secrets`"), "{}", ran.stderr);
    assert_eq!(stored(&world), Vec::<Value>::new());
}

/// The store has another secret of that name: neither is lost.
#[test]
fn a_secret_that_is_there_is_not_written_over() {
    let world = world();
    world.run_with_input(&["secret", "set", "GITHUB_TOKEN"], "another-token").ended(0);
    world.run(&["init", "--yes", "--store-secrets"]).ended(0);
    let config = world.read("servanda.yaml");
    assert!(config.contains("secret: store:GITHUB_GITHUB_TOKEN"), "{config}");
    assert_eq!(stored(&world).len(), 2);
}
