use serde_json::{Value, json};

use super::{Descriptor, Reach, infer};

fn descriptor(definition: Value) -> Descriptor {
    serde_json::from_value(definition).unwrap()
}

fn reach(name: &str, annotations: &Value, properties: &Value) -> Reach {
    let definition = json!({
        "name": name,
        "inputSchema": { "type": "object", "properties": properties },
        "annotations": annotations,
    });
    infer("up", &descriptor(definition)).reading.reach
}

#[test]
fn names_and_hints_are_weighed() {
    use Reach::{Critical, External, Internal, ReadOnly};
    let none = json!({});
    let read = json!({ "readOnlyHint": true });
    let cases = [
        ("read_file", &none, ReadOnly),
        ("get_order", &none, ReadOnly),
        ("list_commits", &none, ReadOnly),
        ("listIssues", &none, ReadOnly),
        ("search_code", &none, ReadOnly),
        ("git_status", &none, ReadOnly),
        ("git_log", &read, ReadOnly),
        ("directory_tree", &read, ReadOnly),
        ("git_diff_staged", &none, ReadOnly),
        ("monthly_report", &none, ReadOnly),
        ("get_comments", &none, ReadOnly),
        ("log_delete", &none, Critical),
        ("logs_purge", &none, Critical),
        ("history_clear", &none, Critical),
        ("find_replace", &none, Internal),
        ("status_update", &none, Internal),
        ("info_set", &none, Internal),
        ("read_write", &none, Internal),
        ("report_spam", &none, External),
        ("log_event", &none, Internal),
        ("check_out_book", &none, Internal),
        ("order_pizza", &none, Critical),
        ("update_customer_email", &none, Internal),
        ("git_commit", &none, Internal),
        ("git_checkout", &none, Internal),
        ("write_file", &none, Internal),
        ("create_directory", &none, Internal),
        ("move_file", &none, Internal),
        ("merge_pull_request", &none, Internal),
        ("send_mail", &none, External),
        ("delete_file", &none, Critical),
        ("git_reset", &none, Critical),
        ("pay_invoice", &none, Critical),
        ("execute", &none, Critical),
        ("frobnicate", &none, External),
        ("frobnicate", &read, External),
        // The author's hint never makes a dangerous name harmless.
        ("delete_everything", &read, Critical),
        ("misbehave_read_that_writes", &read, Internal),
        ("read_and_delete", &read, Critical),
    ];
    for (name, hints, expected) in cases {
        assert_eq!(reach(name, hints, &json!({})), expected, "{name} {hints}");
    }
    let contradicted = json!({ "readOnlyHint": false });
    assert_eq!(reach("get_thing", &contradicted, &json!({})), External);
}

#[test]
fn an_argument_that_is_a_program_outweighs_the_name() {
    let sql = json!({ "sql": { "type": "string" } });
    assert_eq!(reach("read_rows", &json!({}), &sql), Reach::Critical);
    assert_eq!(reach("read_rows", &json!({ "readOnlyHint": true }), &sql), Reach::ReadOnly);
    assert_eq!(reach("search_docs", &json!({}), &json!({ "query": { "type": "string" } })), Reach::ReadOnly);
    assert_eq!(reach("read_sql", &json!({}), &json!({ "query": { "type": "string" } })), Reach::Critical);
}

#[test]
fn every_proposal_is_admitted() {
    for name in ["read_file", "write_file", "send_mail", "delete_file", "frobnicate", "naïve name/ü"] {
        let inferred = infer("up", &descriptor(json!({ "name": name, "inputSchema": { "type": "object" } })));
        let admitted = servanda_gates::admit(inferred.contract, &servanda_gates::Registered::new());
        assert!(admitted.is_ok(), "{name}: {}", admitted.unwrap_err());
    }
}

#[test]
fn what_cannot_be_enforced_is_left_out_and_said() {
    let definition = json!({
        "name": "read_x",
        "inputSchema": { "properties": { "a": { "type": "string", "pattern": "^(?=.*x)" }, "b": { "pattern": "^b+$" } } },
        "outputSchema": { "type": "nonsense" },
    });
    let inferred = infer("up", &descriptor(definition));
    assert_eq!(inferred.notes.len(), 3, "{:?}", inferred.notes);
    let schema = Value::Object(inferred.contract.affordance.input_schema.clone());
    assert_eq!(schema.pointer("/properties/a/pattern"), None);
    assert_eq!(schema.pointer("/properties/b/pattern"), Some(&json!("^b+$")));
    assert!(servanda_gates::admit(inferred.contract, &servanda_gates::Registered::new()).is_ok());
}

/// Against 2,675 tools whose authors said whether they only read: how often do we call a tool read-only that its author
/// says writes? That is the dangerous direction, and it is bounded here; the other direction costs comfort only.
#[test]
fn real_tools_are_seldom_taken_for_harmless() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/corpora/tools/tools.jsonl");
    let Ok(lines) = std::fs::read_to_string(corpus) else {
        println!("skipped: no corpus of real tools at ../shared/corpora/tools");
        return;
    };
    let (mut writers, mut taken_for_readers, mut readers, mut seen_as_readers, mut refused) = (0, 0, 0, 0, 0);
    for (number, line) in lines.lines().enumerate() {
        let tool: Value = serde_json::from_str(line).unwrap();
        let hint = tool.pointer("/annotations/readOnlyHint").and_then(Value::as_bool);
        // Judged without the author's hint, so that it can be compared with it.
        let definition = json!({
            "name": tool["name"],
            "description": tool["description"],
            "inputSchema": tool["input_schema"].as_object().cloned().unwrap_or_default(),
        });
        let inferred = infer("up", &descriptor(definition));
        let reads = inferred.reading.reach == Reach::ReadOnly;
        match hint {
            Some(false) => (writers, taken_for_readers) = (writers + 1, taken_for_readers + usize::from(reads)),
            Some(true) => (readers, seen_as_readers) = (readers + 1, seen_as_readers + usize::from(reads)),
            None => {}
        }
        // Every schema of the corpus is compiled by the contract crate's own test; a sample is enough here.
        if number % 10 == 0 {
            refused +=
                usize::from(servanda_gates::admit(inferred.contract, &servanda_gates::Registered::new()).is_err());
        }
    }
    println!(
        "writers taken for readers: {taken_for_readers} of {writers}; readers seen as readers: {seen_as_readers} of {readers}; not admissible: {refused}"
    );
    assert!(taken_for_readers * 100 < writers * 8, "{taken_for_readers} of {writers} writers were taken for readers");
    assert!(seen_as_readers * 100 > readers * 60, "only {seen_as_readers} of {readers} readers were seen");
}
