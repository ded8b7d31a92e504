//! One call refused at every place where a call can be refused, and what `servanda explain` says about each.

use serde_json::{Value, json};

use crate::{
    contract::{Contract, changes, count_effects, get_invoice, pay_invoice, reads},
    snapshot::Page,
    world::World,
};

/// A call that is refused.
struct Refused {
    gate: &'static str,
    tool: &'static str,
    arguments: &'static str,
    /// The place that `explain` names: a JSON Pointer, or the whole call.
    pointer: &'static str,
    /// The class on record.
    class: &'static str,
}

const REFUSED: [Refused; 12] = [
    Refused {
        gate: "resolve",
        tool: "company__get_invoices",
        arguments: "{}",
        pointer: "(the whole call)",
        class: "STRUCTURAL_VIOLATION",
    },
    Refused {
        gate: "parse",
        tool: "company__get_invoice",
        arguments: r#"{"invoice_id":"inv_1001","invoice_id":"inv_1002"}"#,
        pointer: "(the whole)",
        class: "SYNTACTIC_PARSE_FAIL",
    },
    Refused {
        gate: "structure",
        tool: "company__get_invoice",
        arguments: r#"{"invoice":"inv_1001"}"#,
        pointer: "/invoice",
        class: "STRUCTURAL_VIOLATION",
    },
    Refused {
        gate: "types",
        tool: "company__pay_invoice",
        arguments: r#"{"invoice_id":"inv_1003","amount_cents":"100","currency":"CHF"}"#,
        pointer: "/amount_cents",
        class: "TYPE_MISMATCH",
    },
    Refused {
        gate: "bounds",
        tool: "company__pay_invoice",
        arguments: r#"{"invoice_id":"inv_1003","amount_cents":0,"currency":"CHF"}"#,
        pointer: "/amount_cents",
        class: "OUT_OF_BOUNDS",
    },
    Refused {
        gate: "semantics",
        tool: "company__book_meeting",
        arguments: r#"{"start":"2026-11-20T10:00:00Z","end":"2026-11-20T09:00:00Z"}"#,
        pointer: "/end",
        class: "SEMANTIC_INVALIDITY",
    },
    Refused {
        gate: "behaviour",
        tool: "company__read_query",
        arguments: r#"{"query":"WITH old AS (SELECT 1) DELETE FROM payments"}"#,
        pointer: "/query",
        class: "SEMANTIC_INVALIDITY",
    },
    Refused {
        gate: "state",
        tool: "company__void_invoice",
        arguments: r#"{"invoice_id":"inv_1001","reason":"a mistake"}"#,
        pointer: "(the whole call)",
        class: "STALE_STATE",
    },
    Refused {
        gate: "confirmation",
        tool: "company__send_mail",
        arguments: "{}",
        pointer: "(the whole call)",
        class: "CONFIRMATION_MISSING",
    },
    Refused {
        gate: "perform",
        tool: "company__misbehave_rpc_error",
        arguments: "{}",
        pointer: "(the whole call)",
        class: "UNKNOWN_ERROR",
    },
    Refused {
        gate: "perform",
        tool: "broken__tool",
        arguments: "{}",
        pointer: "(the whole call)",
        class: "DEPENDENCY_UNAVAILABLE",
    },
    Refused {
        gate: "observe",
        tool: "company__misbehave_wrong_shape",
        arguments: "{}",
        pointer: "/count",
        class: "OBSERVATION_NORMALIZATION_FAIL",
    },
];

fn contracts() -> Vec<Contract> {
    let moment = json!({ "type": "string", "format": "date-time" });
    let properties = json!({ "start": moment, "end": moment, "title": {}, "attendees": {} });
    let meeting = changes("book_meeting").input(&["start", "end"], &properties).rule(
        "args.end > args.start",
        "a meeting ends after it starts",
        &["/end"],
    );
    let mut voiding =
        changes("void_invoice").input(&["invoice_id", "reason"], &json!({ "invoice_id": {}, "reason": {} }));
    voiding.0["preconditions"] = json!([{
        "id": "never", "tool": "company.get_invoice", "arguments": { "invoice_id": "{invoice_id}" },
        "expect": { "rule": "result.invoice_id != args.invoice_id", "message": "it is the invoice that was asked for" },
    }]);
    vec![
        voiding,
        get_invoice(),
        pay_invoice(),
        count_effects(),
        meeting,
        changes("send_mail").input(&[], &json!({ "to": {}, "subject": {}, "body": {} })).confirmed(),
        reads("read_query").input(&["query"], &json!({ "query": { "type": "string", "x-effect": "sqlite" } })),
        reads("misbehave_rpc_error"),
        reads("tool").of("broken"),
        reads("misbehave_wrong_shape").output(&json!({ "count": { "type": "integer" } })),
    ]
}

fn world() -> World {
    let world = World::empty();
    world.configure(&json!({ "company": world.sample(&["--misbehave"]), "broken": { "command": "/no/such/program" } }));
    for contract in contracts() {
        world.add(&contract);
    }
    world
}

/// Issue 2, must show 4: `explain` names the gate, the pointer and the repair of any refused call.
#[test]
fn explain_names_gate_pointer_and_repair() {
    let world = world();
    let mut page = Page::new(&world);
    for Refused { gate, tool, arguments, pointer, class } in REFUSED {
        let ending = if ["perform", "observe"].contains(&gate) { "failed" } else { "refused" };
        page.head(&format!("{ending} at {gate}"));
        let ran = page.run(&["call", tool, arguments]).ended(3);
        assert_eq!(ran.stdout, "", "{gate}");
        assert!(ran.stderr.starts_with(&format!("error: {ending} at {gate}: ")), "{}", ran.stderr);
        assert!(ran.stderr.contains("\nhint: "), "{}", ran.stderr);
        let call_id = ran.call_id();
        let shown = page.run(&["explain", &call_id]).ended(0).stdout;
        let line =
            |beginning: &str| shown.lines().find(|line| line.trim_start().starts_with(beginning)).map(str::to_owned);
        let verdict = shown
            .lines()
            .find(|line| line.contains(&ending.to_uppercase()))
            .unwrap_or_else(|| panic!("no verdict:\n{shown}"));
        assert!(verdict.contains(gate), "{verdict}");
        assert!(line(&format!("at {pointer}:")).is_some(), "{gate} does not name {pointer}:\n{shown}");
        let repair = line("repair").unwrap_or_else(|| panic!("no way to repair:\n{shown}"));
        assert!(repair.trim_start_matches("  repair").trim().len() > 10, "{repair}");
        let record = world.record(&call_id);
        assert_eq!(record["class"], class, "{gate}");
        assert_eq!(record["refusal"]["gate"], gate);
        let last = record["verdicts"].as_array().unwrap().last().unwrap();
        assert_eq!((&last["gate"], &last["decision"]), (&json!(gate), &json!("refused")));
    }
    page.compare("explain_refused");
    assert_eq!(effects_of(&world), 0, "nothing that was refused has happened");
}

#[test]
fn explain_finds_a_call_in_many_ways() {
    let world = world();
    assert!(!world.has(".servanda"));
    let ran = world.run(&["explain"]).ended(1);
    assert!(ran.stderr.contains("no call has been recorded yet") && ran.stderr.contains("hint: "), "{}", ran.stderr);
    assert!(!world.has(".servanda"), "looking makes no ledger");
    let first = world.call("company__get_invoice", r#"{"invoice_id":"inv_1001"}"#).ended(0).call_id();
    let second = world.call("company__get_invoice", r#"{"invoice_id":7}"#).ended(3).call_id();
    assert!(world.run(&["explain", &first]).ended(0).stdout.contains(&first));
    assert!(world.run(&["explain", "--last"]).ended(0).stdout.contains(&second));
    let beginning = &second[..second.len() - 2];
    assert!(world.run(&["explain", beginning]).ended(0).stdout.contains(&second));
    let listed = world.run(&["explain"]).ended(0).stdout;
    let shown: Vec<&str> = listed.lines().skip(1).map(|line| line.split_whitespace().next().unwrap()).collect();
    assert!(shown.iter().all(|id| id.len() >= 17), "{listed}");
    for (id, whole) in shown.iter().zip([&second, &first]) {
        assert!(whole.starts_with(id), "the latest comes first:\n{listed}");
        assert!(world.run(&["explain", id]).ended(0).stdout.contains(whole), "what is listed can be asked for");
    }
    assert_eq!(world.run(&["explain", ""]).ended(0).stdout, listed);
    let mut page = Page::new(&world);
    page.run(&["explain", &first]).ended(0);
    page.head("the beginning of both");
    page.run(&["explain", "call_"]).ended(2);
    page.run(&["explain", "call_ffffffffffffffffffffffffffffffff"]).ended(2);
    page.run(&["explain", "%"]).ended(2);
    page.run(&["explain", "--last", "--quarantined"]).ended(2);
    page.compare("explain");
}

#[test]
fn explain_json_is_the_record() {
    let world = world();
    let call_id = world.call("company__get_invoice", r#"{"invoice_id":7}"#).ended(3).call_id();
    let shown = world.run(&["explain", &call_id, "--json"]).ended(0).json();
    assert_eq!(shown, world.record(&call_id));
    assert_eq!(shown["refusal"]["field_errors"][0]["pointer"], "/invoice_id");
    let listed = world.run(&["explain", "--json"]).ended(0).json();
    assert_eq!(listed[0]["call_id"], call_id.as_str());
    assert_eq!(world.run(&["explain", "--last", "--json"]).ended(0).json(), shown);
}

/// An answer that breaks its contract is kept for the operator and never shown to agents.
#[test]
fn explain_shows_what_was_quarantined() {
    let world = world();
    let ran = world.call("company__misbehave_wrong_shape", "{}").ended(3);
    assert!(!ran.everything().contains("three"), "the payload got out: {}", ran.everything());
    let call_id = ran.call_id();
    let explained = world.run(&["explain", &call_id]).ended(0).everything();
    assert!(!explained.contains("three"), "{explained}");
    let kept = world.run(&["explain", &call_id, "--quarantined"]).ended(0);
    let kept: Value = kept.json();
    assert_eq!(kept["structuredContent"], json!({ "count": "three", "surprise": true }));
}

fn effects_of(world: &World) -> i64 {
    let counted = world.run(&["call", "company__count_effects", "--json"]).ended(0).json();
    counted["structuredContent"]["total"].as_i64().unwrap()
}
