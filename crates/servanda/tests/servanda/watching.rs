//! What somebody reads who watches the gateway run: every line is true, comes when it matters, and comes once.

use rustix::process::Signal;
use serde_json::json;

use crate::{
    contract::{changes, reads},
    streams::call_aside,
    world::{World, until},
};

/// A legacy server that shows a tool only to clients it can ask something.
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
fn only_a_tool_that_nobody_is_offered_is_told() {
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
    let simple = gateway.legacy();
    assert_eq!(simple.tools(), ["company__plain"]);
    let refused = simple.call("company__choosy", json!({})).refusal();
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("does not offer it to this client, or not any more"), "{message}");

    let able = gateway.able(&json!({ "elicitation": {} }));
    assert_eq!(able.tools().len(), 2);
    able.call("company__choosy", json!({})).success();
    let said = gateway.said();
    assert!(said.contains("tool=company__gone"), "{said}");
    assert!(!said.contains("company__choosy"), "what some clients are offered is no news: {said}");
}

/// Whoever stops the gateway is told what it waits for, and can have it end at once; what was cut off stays on record.
#[test]
fn a_second_signal_ends_at_once_and_says_so() {
    for second in [Signal::INT, Signal::TERM] {
        let world = World::empty();
        world.configure(&json!({ "company": world.stub(&["change_it"], None) }));
        world.add(&changes("change_it"));
        let world = world.unpinned();
        let mut gateway = world.serve();
        let waiting = call_aside(&gateway.legacy(), 1, "company__change_it", json!({}));
        world.stub_heard("tools/call");
        gateway.signal(Signal::INT);
        let told = "stopping: waiting for 1 call in flight, up to 10 s; stop again to end at once";
        until("what is waited for to be told", || gateway.said().contains(told).then_some(()));
        world.record_of("company__change_it", "dispatching");
        gateway.signal(second);
        assert_eq!(gateway.wait(), Some(1), "{}", gateway.said());
        assert!(gateway.said().contains("1 call was cut off and may have happened"), "{}", gateway.said());
        world.assert_nothing_left();
        world.record_of("company__change_it", "unknown");
        // Its connection is gone with the gateway.
        let _ = waiting.join();
    }
}
