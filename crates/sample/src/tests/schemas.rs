//! Checks every sent message against the protocol's own schemas. If the schemas are missing, the tests are skipped and
//! counted, and fail in CI.

use std::fs;

use serde_json::{Value, json};
use servanda_requirements::shared;

use super::{MISBEHAVING, call, converse, initialize, legacy, modern};

#[test]
fn legacy_messages_follow_the_2025_11_25_schema() {
    let Some(schema) = Schema::read("2025-11-25.json") else {
        return;
    };
    let call = |id, tool: &str, arguments: Value| {
        let meta = json!({ "progressToken": id });
        legacy(id, "tools/call", json!({ "name": tool, "arguments": arguments, "_meta": meta }))
    };
    let conversation = converse(
        MISBEHAVING,
        &[
            initialize(),
            legacy(1, "ping", json!({})),
            legacy(2, "tools/list", json!({})),
            legacy(3, "tools/list", json!({ "cursor": "after:write_file" })),
            legacy(4, "tools/list", json!({ "cursor": "after:misbehave_noise_then_answer" })),
            call(5, "get_invoice", json!({ "invoice_id": "inv_1007" })),
            call(6, "get_invoice", json!({ "invoice_id": "inv_1" })),
            call(7, "monthly_report", json!({ "month": "2026-10" })),
            call(8, "admin_toggle_beta_tools", json!({})),
            call(9, "misbehave_rpc_error", json!({})),
            legacy(10, "no/such/method", json!({})),
        ],
    );
    schema.check("InitializeResult", &conversation.result(0));
    schema.check("EmptyResult", &conversation.result(1));
    for id in 2..=4 {
        schema.check("ListToolsResult", &conversation.result(id));
    }
    for id in 5..=8 {
        schema.check("CallToolResult", &conversation.result(id));
    }
    for id in 9..=10 {
        schema.check("JSONRPCErrorResponse", &conversation.answer(id));
    }
    for told in conversation.notifications("notifications/progress") {
        schema.check("ProgressNotification", &told);
    }
    for told in conversation.notifications("notifications/tools/list_changed") {
        schema.check("ToolListChangedNotification", &told);
    }
    for message in conversation.messages() {
        schema.check("JSONRPCMessage", &message);
    }
}

#[test]
fn modern_messages_follow_the_2026_07_28_schema() {
    let Some(schema) = Schema::read("2026-07-28.json") else {
        return;
    };
    let mut report = call(7, "monthly_report", json!({ "month": "2026-10" }));
    report["params"]["_meta"]["progressToken"] = "report".into();
    let mut unknown_version = modern(10, "tools/list", json!({}));
    unknown_version["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = "1900-01-01".into();
    let conversation = converse(
        MISBEHAVING,
        &[
            modern(0, "subscriptions/listen", json!({ "notifications": { "toolsListChanged": true } })),
            modern(1, "server/discover", json!({})),
            modern(2, "tools/list", json!({})),
            modern(3, "tools/list", json!({ "cursor": "after:write_file" })),
            modern(4, "tools/list", json!({ "cursor": "after:misbehave_noise_then_answer" })),
            call(5, "get_invoice", json!({ "invoice_id": "inv_1007" })),
            call(6, "get_invoice", json!({ "invoice_id": "inv_1" })),
            report,
            call(8, "admin_toggle_beta_tools", json!({})),
            call(9, "misbehave_rpc_error", json!({})),
            unknown_version,
            legacy(11, "tools/list", json!({})),
            modern(12, "no/such/method", json!({})),
        ],
    );
    schema.check("SubscriptionsListenResultResponse", &conversation.answer(0));
    schema.check("DiscoverResultResponse", &conversation.answer(1));
    for id in 2..=4 {
        schema.check("ListToolsResultResponse", &conversation.answer(id));
    }
    for id in 5..=8 {
        schema.check("CallToolResult", &conversation.result(id));
    }
    schema.check("JSONRPCErrorResponse", &conversation.answer(9));
    schema.check("UnsupportedProtocolVersionError", &conversation.answer(10));
    schema.check("InvalidParamsError", &conversation.answer(11)["error"]);
    schema.check("MethodNotFoundError", &conversation.answer(12)["error"]);
    let notifications = [
        ("notifications/progress", "ProgressNotification", 5),
        ("notifications/tools/list_changed", "ToolListChangedNotification", 1),
        ("notifications/subscriptions/acknowledged", "SubscriptionsAcknowledgedNotification", 1),
    ];
    for (method, definition, count) in notifications {
        let told = conversation.notifications(method);
        assert_eq!(told.len(), count, "{method}");
        for message in told {
            schema.check(definition, &message);
        }
    }
    for message in conversation.messages() {
        schema.check("JSONRPCMessage", &message);
    }
}

struct Schema(Value);

impl Schema {
    fn read(name: &str) -> Option<Self> {
        let text = fs::read_to_string(shared(&format!("mcp-schema/{name}"))?).unwrap();
        Some(Self(serde_json::from_str(&text).unwrap()))
    }

    fn check(&self, definition: &str, message: &Value) {
        assert!(self.0["$defs"].get(definition).is_some(), "no definition {definition}");
        let mut schema = self.0.clone();
        schema["$ref"] = format!("#/$defs/{definition}").into();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let errors: Vec<String> = validator.iter_errors(message).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{definition}: {errors:?} in {message}");
    }
}
