//! What somebody reads who watches the gateway run: every line is true, comes when it matters, and comes once.

use serde_json::json;

use crate::{
    contract::reads,
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
