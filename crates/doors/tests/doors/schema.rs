//! MCP's own JSON Schemas. Every message that a door sends is checked against them.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock, Mutex},
};

use jsonschema::Validator;
use serde_json::{Value, json};
use servanda_requirements::shared;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Era {
    Legacy,
    Modern,
}

/// The documents, by era; and the definitions compiled so far, because compiling takes a while.
struct Schemas {
    documents: BTreeMap<Era, Value>,
    compiled: Mutex<BTreeMap<(Era, &'static str), Arc<Validator>>>,
}

static SCHEMAS: LazyLock<Option<Schemas>> = LazyLock::new(load);

fn load() -> Option<Schemas> {
    let mut documents = BTreeMap::new();
    for (era, file) in [(Era::Legacy, "2025-11-25.json"), (Era::Modern, "2026-07-28.json")] {
        let text = std::fs::read_to_string(shared(&format!("mcp-schema/{file}"))?).unwrap();
        documents.insert(era, serde_json::from_str(&text).unwrap());
    }
    Some(Schemas { documents, compiled: Mutex::default() })
}

impl Schemas {
    fn get(&self, era: Era, name: &'static str) -> Arc<Validator> {
        let mut compiled = self.compiled.lock().unwrap();
        let compile = || {
            let document = &self.documents[&era];
            let schema = json!({
                "$schema": document["$schema"],
                "$defs": document["$defs"],
                "$ref": format!("#/$defs/{name}"),
            });
            Arc::new(jsonschema::validator_for(&schema).unwrap())
        };
        Arc::clone(compiled.entry((era, name)).or_insert_with(compile))
    }
}

/// Checks a message against the schema of its kind; `method` is that of the request it answers.
pub(crate) fn check(era: Era, method: &str, message: &Value) {
    if let Some(batch) = message.as_array() {
        return batch.iter().for_each(|message| hold(era, "JSONRPCMessage", message));
    }
    hold(era, "JSONRPCMessage", message);
    if let Some(said) = message.get("method").and_then(Value::as_str) {
        let kind = match (era, message.get("id")) {
            (Era::Legacy, Some(_)) => "ServerRequest",
            (Era::Modern, Some(_)) => panic!("a modern client is asked by the answer: {message}"),
            // The tasks extension has schemas of its own.
            (Era::Modern, None) if said == "notifications/tasks" => return,
            (_, None) => "ServerNotification",
        };
        return hold(era, kind, message);
    }
    if let Some(error) = message.get("error") {
        hold(era, "JSONRPCErrorResponse", message);
        match (era, error["code"].as_i64().unwrap()) {
            (Era::Modern, -32022) => hold(era, "UnsupportedProtocolVersionError", message),
            (Era::Modern, -32021) => hold(era, "MissingRequiredClientCapabilityError", message),
            (Era::Modern, -32020) => hold(era, "HeaderMismatchError", message),
            _ => {}
        }
        return;
    }
    hold(era, result_name(era, method, &message["result"]), &message["result"]);
}

fn result_name(era: Era, method: &str, result: &Value) -> &'static str {
    match (era, method) {
        (Era::Modern, _) if result["resultType"] == "input_required" => "InputRequiredResult",
        (Era::Modern, _) if result["resultType"] == "task" => "Result",
        (Era::Legacy, "tools/call") if result.get("task").is_some() => "CreateTaskResult",
        (_, "initialize") => "InitializeResult",
        (_, "server/discover") => "DiscoverResult",
        (_, "tools/list") => "ListToolsResult",
        (_, "tools/call") => "CallToolResult",
        (_, "resources/list") => "ListResourcesResult",
        (_, "resources/templates/list") => "ListResourceTemplatesResult",
        (_, "resources/read") => "ReadResourceResult",
        (_, "prompts/list") => "ListPromptsResult",
        (_, "prompts/get") => "GetPromptResult",
        (_, "completion/complete") => "CompleteResult",
        (Era::Legacy, "tasks/get") => "GetTaskResult",
        (Era::Legacy, "tasks/cancel") => "CancelTaskResult",
        (Era::Legacy, "tasks/list") => "ListTasksResult",
        (Era::Legacy, "tasks/result") => "GetTaskPayloadResult",
        (Era::Modern, "tasks/get" | "tasks/update" | "tasks/cancel") => "Result",
        (_, "subscriptions/listen") => "SubscriptionsListenResult",
        (Era::Legacy, "ping" | "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe") => "EmptyResult",
        (_, other) => panic!("{other} has no result"),
    }
}

fn hold(era: Era, name: &'static str, value: &Value) {
    let Some(schemas) = SCHEMAS.as_ref() else { return };
    let errors: Vec<String> = schemas.get(era, name).iter_errors(value).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "not a {name} of the {era:?} era: {errors:?}\n{value:#}");
}
