//! MCP's own JSON Schemas, against which every message a door sends is held.

use std::{collections::BTreeMap, path::Path, sync::LazyLock};

use jsonschema::Validator;
use serde_json::{Value, json};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Era {
    Legacy,
    Modern,
}

type Schemas = BTreeMap<(Era, &'static str), Validator>;

static SCHEMAS: LazyLock<Option<Schemas>> = LazyLock::new(load);

const DEFINITIONS: [(Era, &[&str]); 2] = [
    (
        Era::Legacy,
        &[
            "JSONRPCMessage",
            "JSONRPCErrorResponse",
            "InitializeResult",
            "ListToolsResult",
            "CallToolResult",
            "EmptyResult",
            "ServerNotification",
        ],
    ),
    (
        Era::Modern,
        &[
            "JSONRPCMessage",
            "JSONRPCErrorResponse",
            "UnsupportedProtocolVersionError",
            "HeaderMismatchError",
            "DiscoverResult",
            "ListToolsResult",
            "CallToolResult",
            "SubscriptionsListenResult",
            "ServerNotification",
        ],
    ),
];

fn load() -> Option<Schemas> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/mcp-schema");
    let mut schemas = Schemas::new();
    for ((era, names), file) in DEFINITIONS.into_iter().zip(["2025-11-25.json", "2026-07-28.json"]) {
        let Ok(text) = std::fs::read_to_string(folder.join(file)) else {
            eprintln!("skipped: answers are not validated, {} is absent", folder.join(file).display());
            return None;
        };
        let document: Value = serde_json::from_str(&text).unwrap();
        for name in names {
            let schema = json!({
                "$schema": document["$schema"],
                "$defs": document["$defs"],
                "$ref": format!("#/$defs/{name}"),
            });
            schemas.insert((era, name), jsonschema::validator_for(&schema).unwrap());
        }
    }
    Some(schemas)
}

/// Holds a message against the schema of its kind; `method` is that of the request it answers.
pub(crate) fn check(era: Era, method: &str, message: &Value) {
    hold(era, "JSONRPCMessage", message);
    if message.get("method").is_some() {
        return hold(era, "ServerNotification", message);
    }
    if let Some(error) = message.get("error") {
        hold(era, "JSONRPCErrorResponse", message);
        match (era, error["code"].as_i64().unwrap()) {
            (Era::Modern, -32022) => hold(era, "UnsupportedProtocolVersionError", message),
            (Era::Modern, -32020) => hold(era, "HeaderMismatchError", message),
            _ => {}
        }
        return;
    }
    let name = match method {
        "initialize" => "InitializeResult",
        "server/discover" => "DiscoverResult",
        "tools/list" => "ListToolsResult",
        "tools/call" => "CallToolResult",
        "subscriptions/listen" => "SubscriptionsListenResult",
        "ping" => "EmptyResult",
        other => panic!("{other} has no result"),
    };
    hold(era, name, &message["result"]);
}

fn hold(era: Era, name: &'static str, value: &Value) {
    let Some(schemas) = SCHEMAS.as_ref() else { return };
    let errors: Vec<String> = schemas[&(era, name)].iter_errors(value).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "not a {name} of the {era:?} era: {errors:?}\n{value:#}");
}
