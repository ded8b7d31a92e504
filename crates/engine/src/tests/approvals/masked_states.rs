//! The state before a call: what the read tool's output schema marks, and what repeats a sensitive argument, is masked for people who may not
//! see it.

use servanda_approval::ApprovalPacket;

use super::{decisions::terms, *};

/// A gateway that shows the state before a call, as a read tool with this output schema says it: a text that repeats the argument, and a
/// number.
async fn office(output: &Value, mark_argument: bool) -> Office {
    let office = Office::new(|_| {});
    let mut reads = draft("up", "echo", false);
    reads.affordance.input_schema["properties"]["simulate"] =
        json!({"type": "boolean", "description": "Without effect."});
    reads.affordance.output_schema = output.as_object().unwrap().clone().into();
    let writes = contract(|contract| {
        contract.approval = Some(terms(&json!({
            "before": {"tool": "up.echo", "arguments": {"text": "{text}", "simulate": true}},
        })));
        if mark_argument {
            contract.affordance.input_schema["properties"]["text"]["x-sensitivity"] = json!("personal");
        }
    });
    office.harness.engine.replace_snapshot(world(&office.server, settings(), vec![writes, reads])).await.unwrap();
    office
}

fn schema(of_rows: &Value) -> Value {
    json!({"type": "object", "properties": {"rows": of_rows, "would": {"type": "string"}}})
}

/// The values of the state before, for a viewer who sees values of these sensitivities.
async fn shown(office: &Office, reveals: fn(&str) -> bool) -> Vec<(String, String)> {
    let ticket = office.ticket(&office.ticket_id()).await;
    let before = ApprovalPacket::new(&ticket, reveals, ticket.created_ms).before.unwrap();
    assert_eq!(before.fault, None);
    before.fields.leaves.into_iter().map(|leaf| (leaf.pointer, leaf.value)).collect()
}

fn values(rows: &str, would: &str) -> Vec<(String, String)> {
    vec![("/rows".to_owned(), rows.to_owned()), ("/would".to_owned(), would.to_owned())]
}

#[tokio::test]
async fn what_the_read_tool_s_schema_marks_is_masked_by_role() {
    let plain = office(&schema(&json!({"type": "number"})), false).await;
    plain.refused().await;
    assert_eq!(shown(&plain, |_| false).await, values("1", "write hello"));

    let marked = office(&schema(&json!({"type": "number", "x-sensitivity": "financial"})), false).await;
    marked.refused().await;
    assert_eq!(shown(&marked, |sensitivity| sensitivity == "financial").await, values("1", "write hello"));
    assert_eq!(shown(&marked, |_| false).await, values("••••••", "write hello"));
    assert_eq!(marked.sent(), 0);
}

#[tokio::test]
async fn what_repeats_a_sensitive_argument_is_masked_as_the_argument_is() {
    let office = office(&schema(&json!({"type": "number"})), true).await;
    office.refused().await;
    assert_eq!(shown(&office, |_| true).await, values("1", "write hello"));
    assert_eq!(shown(&office, |_| false).await, values("1", "••••••"));
    let packet = {
        let ticket = office.ticket(&office.ticket_id()).await;
        ApprovalPacket::new(&ticket, |_| false, ticket.created_ms)
    };
    assert!(!serde_json::to_string(&packet).unwrap().contains("hello"), "{packet:?}");
}

/// A name cannot be masked, so nothing of such a state is shown.
#[tokio::test]
async fn a_state_with_a_sensitive_argument_as_a_name_is_not_shown() {
    let office = office(&json!({"type": "object"}), true).await;
    let arguments = Bytes::from_static(br#"{"text":"named"}"#);
    office.refusal_of(CallRequest { arguments, ..office.request() }).await;
    let ticket = office.ticket(&office.ticket_id()).await;
    let before = ApprovalPacket::new(&ticket, |_| true, ticket.created_ms).before.unwrap();
    assert!(!serde_json::to_string(&before).unwrap().contains("named"), "{before:?}");
    assert!(before.fault.unwrap().contains("a sensitive argument as a name"));
}
