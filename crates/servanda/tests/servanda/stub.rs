//! An MCP server in a few lines of shell, for what the sample company does not do: it writes down what it gets, offers any given tools, and
//! answers every call with the same result or not at all.

use serde_json::{Value, json};

use crate::{
    sightings::saw,
    world::{World, until},
};

const SCRIPT: &str = r#"
while IFS= read -r line; do
  printf '%s\n' "$line" >> "$1"
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9][0-9]*\).*/\1/p')
  case "$line" in
    *'"server/discover"'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown"}}\n' "$id" ;;
    *'"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"stub","version":"1"}}}\n' "$id" ;;
    *'"tools/list"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":%s}}\n' "$id" "$2" ;;
    *'"tools/call"'*) while [ -n "$4" ] && [ ! -e "$4" ]; do sleep 0.02; done; [ -z "$3" ] || printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$3" ;;
  esac
done
"#;

impl World {
    /// A stub as an upstream. Without a result it never answers a call.
    pub(crate) fn stub(&self, tools: &[&str], result: Option<&Value>) -> Value {
        let definitions: Vec<Value> =
            tools.iter().map(|tool| json!({ "name": tool, "inputSchema": { "type": "object" } })).collect();
        let result = result.map(Value::to_string).unwrap_or_default();
        json!({ "command": "sh", "args": ["-c", SCRIPT, "stub", self.path("heard"), json!(definitions).to_string(), result] })
    }

    /// A stub that answers calls with this result, but only after the test has made a file of that name.
    pub(crate) fn stub_until(&self, tools: &[&str], result: &Value, file: &str) -> Value {
        let mut stub = self.stub(tools, Some(result));
        stub["args"].as_array_mut().unwrap().push(json!(self.path(file)));
        stub
    }

    /// Waits until the stub has got a message with this text.
    pub(crate) fn stub_heard(&self, what: &str) -> String {
        until(&format!("the stub to hear {what}"), || {
            let heard = std::fs::read_to_string(self.path("heard")).unwrap_or_default();
            saw("the stub heard", &heard);
            heard.contains(what).then_some(heard)
        })
    }
}
