//! The upstream's tools, as it lists them. What their contracts say is in `world`.

use serde_json::{Value, json};

/// The kinds of tools: a plain one, one with a precondition, a slow one, one that changes an account which only one call may
/// change at a time, a long one of that kind, and one whose calls never wait for each other. That one's business id is a path, so
/// that a grant can cover many of them.
pub const WAYS: [&str; 6] = ["pay", "checked", "slow", "turn", "long", FILED];
/// The way whose tools name the business id as a file.
pub const FILED: &str = "filed";
/// The ways whose tools name an account.
pub const WITH_ACCOUNT: [&str; 2] = ["turn", "long"];
/// The classes of tools that change something.
pub const MUTATING: [&str; 3] = ["n", "k", "q"];
/// The member of `_meta` that has a caller's key.
pub const KEY_META: &str = "chaos/key";
/// The member of `_meta` that names a client's attempt; the gateway passes it on.
pub const ATTEMPT_META: &str = "chaos/attempt";
/// The header in which a gateway's configuration names the gateway.
pub const GATEWAY_HEADER: &str = "x-chaos-gateway";

/// What `tools/list` says.
pub fn list() -> Value {
    let mut tools = Vec::new();
    for way in WAYS {
        for class in MUTATING {
            tools.push(tool(&format!("{way}_{class}"), &arguments(way)));
        }
    }
    tools.push(tool("read_r", &payment()));
    tools.push(tool("balance", &json!({ "business_id": { "type": "string" } })));
    tools.push(tool("status_q", &json!({ "key": { "type": "string" } })));
    json!({ "tools": tools })
}

/// The argument that has the business id of a tool's calls.
pub fn business_argument(tool: &str) -> &'static str {
    let bare = tool.rsplit_once('.').map_or(tool, |(_, bare)| bare);
    if bare.starts_with(FILED) { "file" } else { "business_id" }
}

/// The arguments of a tool that changes something.
pub fn arguments(way: &str) -> Value {
    let mut arguments = json!({
        business_argument(way): { "type": "string" },
        "amount": { "type": "integer" },
        "script": { "type": "string" },
    });
    if WITH_ACCOUNT.contains(&way) {
        arguments["account"] = json!({ "type": "string" });
    }
    arguments
}

/// The arguments of a plain payment.
pub fn payment() -> Value {
    arguments("pay")
}

fn tool(name: &str, properties: &Value) -> Value {
    let required: Vec<&String> = properties.as_object().map(|known| known.keys().collect()).unwrap_or_default();
    json!({
        "name": name,
        "description": format!("The trial's {name}."),
        "inputSchema": {
            "type": "object", "properties": properties, "required": required, "additionalProperties": false,
        },
    })
}
