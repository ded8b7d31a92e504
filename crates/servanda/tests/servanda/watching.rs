//! What an operator reads while the gateway runs: every line is true, comes when it matters, and comes once.

use rustix::process::Signal;
use serde_json::json;

use crate::{
    contract::{changes, reads},
    streams::call_aside,
    world::{World, until},
};

/// A legacy server that shows a tool only to clients that it can ask questions.
const CHOOSY: &str = r#"
tools='{"name":"plain","inputSchema":{"type":"object"}}'
while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9][0-9]*\).*/\1/p')
  case "$line" in
    *'"server/discover"'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown"}}\n' "$id" ;;
    *'"initialize"'*)
      case "$line" in *'"elicitation":{'*) tools="$tools"',{"name":"choosy","inputSchema":{"type":"object"}}' ;; esac
      printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"choosy","version":"1"}}}\n' "$id" ;;
    *'"tools/list"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[%s]}}\n' "$id" "$tools" ;;
    *'"tools/call"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"done"}]}}\n' "$id" ;;
  esac
done
"#;

#[test]
fn only_a_tool_that_no_client_is_offered_is_reported() {
    let world = World::empty();
    let server = json!({ "command": "sh", "args": ["-c", CHOOSY, world.path("choosy")] });
    world.configure(&json!({ "company": server }));
    for tool in ["plain", "choosy", "gone"] {
        world.add(&reads(tool));
    }
    let world = world.unpinned();
    let gateway = world.serve();
    until("the missing tool to be told", || {
        gateway.said().contains("not offered to any client (any more)").then_some(())
    });
    // The server that was started only to be asked is stopped again: the gateway, one server and its supervisor are left.
    until("the second server to end", || (world.processes().len() == 3).then_some(()));
    let simple = gateway.legacy();
    assert_eq!(simple.tools(), ["company__plain"]);
    let refused = simple.call("company__choosy", json!({})).refusal();
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("no longer offers it, or not to this client"), "{message}");

    let able = gateway.able(&json!({ "elicitation": {} }));
    assert_eq!(able.tools().len(), 2);
    able.call("company__choosy", json!({})).success();
    let said = gateway.said();
    assert!(said.contains("tool=company__gone"), "{said}");
    assert!(!said.contains("company__choosy"), "what some clients are offered is no news: {said}");
}

/// A person who stops the gateway is told what it waits for, and can end it at once; calls that were cut off stay recorded.
#[test]
fn a_second_signal_ends_at_once_and_says_so() {
    for second in [Signal::INT, Signal::TERM] {
        let world = World::empty();
        let mut stubborn = world.stub(&["change_it"], None);
        let script = stubborn["args"][1].as_str().unwrap();
        stubborn["args"][1] = json!(format!("trap '' TERM\n{script}\nwhile :; do sleep 1; done"));
        world.configure(&json!({ "company": stubborn }));
        world.add(&changes("change_it"));
        let world = world.unpinned();
        let mut gateway = world.serve();
        let waiting = call_aside(&gateway.legacy(), 1, "company__change_it", json!({}));
        world.stub_heard("tools/call");
        gateway.signal(Signal::INT);
        let told = "stopping: waiting for 1 call in flight, up to 8 s in all; stop again to end at once";
        until("what is waited for to be told", || gateway.said().contains(told).then_some(()));
        world.record_of("company__change_it", "dispatching");
        gateway.signal(second);
        assert_eq!(gateway.wait(), Some(1), "{}", gateway.said());
        assert!(gateway.said().contains("1 call was cut off and may have happened"), "{}", gateway.said());
        world.assert_nothing_left();
        world.record_of("company__change_it", "unknown");
        // Its connection ended with the gateway.
        let _ = waiting.join();
    }
}

/// Every command that waits for a server that does not answer names it.
#[test]
fn a_server_that_does_not_answer_is_named() {
    let world = World::empty();
    let mute = json!({ "command": "sh", "args": ["-c", "cat > \"$0\"", world.path("mute")] });
    // Longer than the time until the message, so that the commands end by themselves.
    let limits = json!({ "connect_ms_max": 4000 });
    world.configure_with(&json!({ "servanda": 1, "upstreams": { "company": mute }, "limits": limits }));
    world.add(&reads("tool"));
    let gateway = world.serve();
    for command in ["tools", "doctor"] {
        let ran = world.run(&[command]);
        assert!(ran.stderr.contains("waiting for `company` to answer (up to 4 s)\n"), "{command}: {}", ran.stderr);
    }
    until("the gateway to say so", || {
        gateway.said().contains("`company` does not answer, so its tools cannot").then_some(())
    });
}

/// A server that stays down is retried, and reported once; for another reason, once more.
#[test]
fn a_setback_is_told_once_a_reason() {
    let world = World::empty();
    let script = "echo tried >> \"$0\"; [ ! -e \"$1\" ] || { echo another reason >&2; exit 4; }; exit 3";
    let broken = json!({ "command": "sh", "args": ["-c", script, world.path("tried"), world.path("other")] });
    let limits = json!({ "probe_interval_ms": 100 });
    world.configure_with(&json!({ "servanda": 1, "upstreams": { "company": broken }, "limits": limits }));
    world.add(&reads("tool"));
    let gateway = world.serve();
    let tried = |times: usize| {
        until("more attempts", || {
            let tried = std::fs::read_to_string(world.path("tried")).unwrap_or_default();
            (tried.lines().count() >= times).then_some(())
        });
    };
    let told = || gateway.said().matches("WARN the upstream is not available").count();
    tried(4);
    assert_eq!(told(), 1, "{}", gateway.said());
    world.write("other", "");
    until("the other reason to be told", || (told() == 2).then_some(()));
    // The log has each reason once; the message that the gateway is ready without it does not repeat the reason.
    let said = gateway.said();
    assert!(!said.contains("could not be asked for its tools"), "{said}");
    assert_eq!(said.matches("another reason").count(), 1, "{said}");
}

#[test]
fn only_the_owner_can_read_what_is_kept() {
    let world = World::company([reads("count_effects")]).unpinned();
    let gateway = world.serve();
    gateway.modern().call("company__count_effects", json!({})).success();
    let mode = |name: &str| {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::metadata(world.path(name)).unwrap().permissions().mode() & 0o777
    };
    assert_eq!(mode(".servanda"), 0o700);
    for file in ["ledger.db", "ledger.db-wal", "ledger.db-shm"] {
        assert_eq!(mode(&format!(".servanda/{file}")), 0o600, "{file}");
    }
}
