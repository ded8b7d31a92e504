//! `servanda check`, and how every other command treats an invalid configuration: a precise error, exit code 2, nothing started.

use serde_json::{Value, json};

use crate::{
    contract::{Contract, count_effects, get_invoice, pay_invoice},
    snapshot::Page,
    world::{Ran, World},
};

/// A world whose upstream leaves a trace if it is started.
fn trapped(contracts: impl IntoIterator<Item = Contract>) -> World {
    let world = World::empty();
    world.configure(&trap());
    for contract in contracts {
        world.add(&contract);
    }
    world
}

fn trap() -> Value {
    json!({ "company": { "command": "touch", "args": ["it-was-started"] } })
}

/// Nothing was started and nothing was created.
#[track_caller]
fn assert_untouched(world: &World, ran: &Ran) {
    assert!(ran.stderr.contains("\nhint: "), "no hint:\n{}", ran.stderr);
    assert!(!world.has("it-was-started"), "the upstream was started");
    assert!(!world.has(".servanda"), "a ledger was made");
}

#[test]
fn a_good_configuration() {
    let world = trapped([get_invoice(), pay_invoice(), count_effects()]);
    let mut page = Page::new(&world);
    page.run(&["check"]).ended(0);
    let ran = page.run(&["check", "--json"]).ended(0);
    assert_eq!(ran.json()["admitted"].as_array().unwrap().len(), 3);
    world.add(&pay_invoice().confirmed());
    page.head("once the grave tool waits for a person");
    page.run(&["check"]).ended(0);
    page.compare("check");
    assert!(!world.has("it-was-started") && !world.has(".servanda"));
}

/// Settings that are not enforced are reported; a sunset date in the future is not.
#[test]
fn what_is_not_enforced_is_noted() {
    let mut limited = pay_invoice().confirmed().timeout("standard");
    put(&mut limited.0, "/runtime/timeout_ms", json!(500_000));
    put(&mut limited.0, "/identity/lifecycle/sunset_date", json!("2999-12-31"));
    let mut scoped = get_invoice();
    put(&mut scoped.0, "/security/tenant_scoped", json!(true));
    put(&mut scoped.0, "/runtime/sandbox_isolated", json!(true));
    let world = trapped([limited, scoped]);
    let mut page = Page::new(&world);
    page.run(&["check"]).ended(0);
    page.compare("not_enforced");
    assert_eq!(world.run(&["check", "--json"]).ended(0).json()["notes"].as_array().unwrap().len(), 4);
}

#[test]
fn bad_configurations() {
    const UPSTREAMS: &str = "upstreams:\n  company: {command: touch, args: [it-was-started]}\n";
    let world = trapped([get_invoice()]);
    let mut page = Page::new(&world);
    for (heading, text) in [
        ("unknown field", format!("servanda: 1\nlisen: 127.0.0.1:1\n{UPSTREAMS}")),
        ("unknown field of an upstream", "servanda: 1\nupstreams:\n  company:\n    comand: touch\n".to_owned()),
        ("wrong type", format!("servanda: 1\nlisten: [1]\n{UPSTREAMS}")),
        ("wrong type inside", "servanda: 1\nupstreams:\n  company:\n    command: touch\n    args: {a: b}\n".to_owned()),
        ("bad enum", format!("servanda: 1\nnames: fancy\n{UPSTREAMS}")),
        ("missing field", "servanda: 1\n".to_owned()),
        ("duplicate key", format!("servanda: 1\nlisten: 127.0.0.1:1\nlisten: 127.0.0.1:2\n{UPSTREAMS}")),
        ("tab", format!("servanda: 1\n\tlisten: 127.0.0.1:1\n{UPSTREAMS}")),
        ("syntax", format!("servanda: 1\nlisten: \"127.0.0.1:1\n{UPSTREAMS}")),
        ("empty", String::new()),
        ("version", format!("servanda: 2\n{UPSTREAMS}")),
        ("not loopback", format!("servanda: 1\nlisten: 0.0.0.0:7332\n{UPSTREAMS}")),
        ("a time to keep without a unit", format!("servanda: 1\nretention: {{records: 30 days}}\n{UPSTREAMS}")),
        ("no address", format!("servanda: 1\nlisten: example.test:7332\n{UPSTREAMS}")),
        ("a task that allows nothing", format!("servanda: 1\ntasks: {{triage: {{allow: []}}}}\n{UPSTREAMS}")),
        ("a task without kinds", format!("servanda: 1\ntasks: {{triage: {{}}}}\n{UPSTREAMS}")),
        ("no such action", format!("servanda: 1\ntasks: {{triage: {{allow: [{{action: PEEK}}]}}}}\n{UPSTREAMS}")),
        ("no such field", format!("servanda: 1\ntasks: {{triage: {{allow: [{{actions: [READ]}}]}}}}\n{UPSTREAMS}")),
        ("a rule that allows nothing", format!("servanda: 1\nexpectations: {{readers: {{allow: []}}}}\n{UPSTREAMS}")),
        (
            "a rule for nobody",
            format!("servanda: 1\nexpectations: {{readers: {{upstreams: [bank], allow: [{{}}]}}}}\n{UPSTREAMS}"),
        ),
        (
            "a budget of half a call",
            format!(
                "servanda: 1\n{UPSTREAMS}budgets:\n  - {{dimension: read, amount: 9, per: caller, period: day}}\n  - {{dimension: critical, amount: 0.5, per: caller, period: day}}\n"
            ),
        ),
        (
            "a budget without a currency",
            format!(
                "servanda: 1\n{UPSTREAMS}budgets: [{{dimension: financial, amount: \"9.99\", per: caller, period: day}}]\n"
            ),
        ),
        (
            "a budget of something else",
            format!("servanda: 1\n{UPSTREAMS}budgets: [{{dimension: deletes, amount: 9, per: caller, period: day}}]\n"),
        ),
        ("unset variable", "servanda: 1\nupstreams:\n  company: {command: '${NO_SUCH_VARIABLE}'}\n".to_owned()),
        (
            "unset header",
            "servanda: 1\nupstreams:\n  company: {url: 'http://127.0.0.1:1', headers: {a: '${NO_SUCH}'}}\n".to_owned(),
        ),
        (
            "command and url",
            "servanda: 1\nupstreams:\n  company: {command: touch, url: 'http://127.0.0.1:1'}\n".to_owned(),
        ),
        ("neither", "servanda: 1\nupstreams:\n  company: {}\n".to_owned()),
        ("upstream id", format!("servanda: 1\n{UPSTREAMS}  a__b: {{command: touch}}\n")),
        ("bare names", format!("servanda: 1\nnames: bare\n{UPSTREAMS}  other: {{command: touch}}\n")),
        ("limit", format!("servanda: 1\nlimits: {{arguments_depth_max: 500}}\n{UPSTREAMS}")),
        ("no contracts", format!("servanda: 1\ncontracts: nowhere\n{UPSTREAMS}")),
    ] {
        world.write("servanda.yaml", &text);
        page.head(heading);
        let ran = page.run(&["check"]).ended(2);
        assert_eq!(ran.stdout, "", "{heading}");
        assert_untouched(&world, &ran);
    }
    page.compare("bad_configurations");
}

#[test]
fn bad_contracts() {
    let cases: [(&str, &str, Value); 21] = [
        ("unknown field", "/runtime/timeout_msec", json!(5)),
        ("wrong type", "/runtime/timeout_ms", json!("soon")),
        ("bad enum", "/transactional/side_effect_class", json!("HARMLESS")),
        ("unknown upstream", "/binding/upstream", json!("compny")),
        ("version", "/identity/version", json!("one")),
        ("sunsetted", "/identity/lifecycle/status", json!("sunsetted")),
        ("past its date", "/identity/lifecycle/sunset_date", json!("2026-01-31")),
        (
            "a key in a header for a command",
            "/effect",
            json!({ "class": "K", "mutation_class": "write_irreversible", "key": { "header": "Idempotency-Key" }, "key_window_sec": 60,
                "manifest": [{ "resource": "invoice", "operation": "UPDATE", "scope": "tenant" }] }),
        ),
        (
            "a status tool that is not there",
            "/effect",
            json!({ "class": "Q", "mutation_class": "write_irreversible",
                "status": { "tool": "company.payment_status", "key_argument": "key", "absence_is_authoritative": true },
                "manifest": [{ "resource": "invoice", "operation": "UPDATE", "scope": "tenant" }] }),
        ),
        (
            "a condition that does not compile",
            "/effect",
            json!({ "class": "Q", "mutation_class": "write_irreversible",
                "status": { "tool": "company.get_invoice", "key_argument": "key", "absence_is_authoritative": true,
                    "found_when": "args.found" },
                "manifest": [{ "resource": "invoice", "operation": "UPDATE", "scope": "tenant" }] }),
        ),
        ("a limit of the schema", "/runtime/rate_limits/max_requests", json!(0)),
        ("regex", "/affordance/input_schema/properties/invoice_id/pattern", json!("^(?=inv_)(x")),
        ("remote reference", "/affordance/input_schema/$ref", json!("https://example.test/schema.json")),
        (
            "preconditions",
            "/preconditions",
            json!([{ "id": "p", "tool": "company.get_invoice", "arguments": {}, "expect": { "rule": "true", "message": "m" } }]),
        ),
        ("CEL syntax", "/rules", json!([{ "id": "r", "rule": "args.amount_cents >", "message": "m" }])),
        ("CEL name", "/rules", json!([{ "id": "r", "rule": "argument.amount_cents > 1", "message": "m" }])),
        ("example", "/affordance/examples", json!([{ "description": "d", "arguments": { "invoice_id": "7" } }])),
        ("contradiction", "/effect/class", json!("R")),
        ("taxonomy", "/error_contract/retryable_errors", json!(["SOMETIMES"])),
        ("hidden characters", "/affordance/model_description", json!("Pays an\u{200b} invoice.\u{e0041}\u{e0042}")),
        ("mixed scripts", "/binding/tool", json!("p\u{430}y_invoice")),
    ];
    let world = trapped([]);
    let mut page = Page::new(&world);
    for (heading, pointer, value) in cases {
        let mut contract = pay_invoice();
        put(&mut contract.0, pointer, value);
        world.write("contracts/pay.json", &contract.to_string());
        page.head(heading);
        let ran = page.run(&["check"]).ended(2);
        assert_untouched(&world, &ran);
        assert!(ran.stderr.contains("contracts/pay.json"), "{heading}: {}", ran.stderr);
    }
    page.compare("bad_contracts");
}

#[test]
fn contracts_with_faults_in_their_text() {
    let world = trapped([]);
    let good = pay_invoice().to_string();
    let mut page = Page::new(&world);
    for (heading, from, to) in [
        ("missing field", "\"compensation_tool\": null,", ""),
        ("duplicate key", "\"timeout_ms\": 300000", "\"timeout_ms\": 300000, \"timeout_ms\": 5"),
        ("syntax", "\"binding\": {", "\"binding\": {{"),
        ("cut off", "\"binding\": {", "\"binding\": "),
    ] {
        assert!(good.contains(from), "{from}");
        world.write("contracts/pay.json", &good.replacen(from, to, 1));
        page.head(heading);
        let ran = page.run(&["check"]).ended(2);
        assert_untouched(&world, &ran);
    }
    page.compare("contract_text");
}

#[test]
fn every_conjunct_and_every_file_is_listed() {
    let mut empty_handed = pay_invoice();
    for (pointer, value) in [
        ("/security/required_scopes", json!([])),
        ("/observability/audit_required", json!(false)),
        ("/identity/version", json!("1")),
        ("/idempotency/required", json!(true)),
    ] {
        put(&mut empty_handed.0, pointer, value);
    }
    let contract = empty_handed.0.as_object_mut().unwrap();
    contract.remove("execution");
    let world = trapped([empty_handed, get_invoice()]);
    world.write("contracts/again.json", &get_invoice().named("company.get_invoice").0.to_string());
    let mut other = get_invoice();
    put(&mut other.0, "/identity/owner", json!("somebody else"));
    world.write("contracts/other.yaml", &other.to_string());
    let mut page = Page::new(&world);
    let ran = page.run(&["check"]).ended(2);
    assert_untouched(&world, &ran);
    for conjunct in [
        "VersionRegistered",
        "AuthPolicyDefined",
        "TimeoutClassAssigned",
        "IdempotencySpecified",
        "ObservabilityInstrumented",
    ] {
        assert!(ran.stderr.contains(conjunct), "{conjunct}:\n{}", ran.stderr);
    }
    let ran = page.run(&["check", "--json"]).ended(2);
    assert_eq!(ran.json()["problems"].as_array().unwrap().len(), 2, "{}", ran.stdout);
    let told: Value = serde_json::from_str(&ran.stderr).unwrap();
    assert_eq!(told["error"]["exit_code"], 2);
    page.compare("admission");
}

#[test]
fn two_contracts_for_one_name() {
    let world = trapped([get_invoice(), get_invoice().named("company.another")]);
    let mut page = Page::new(&world);
    for command in [&["check"] as &[&str], &["tools", "--offline"], &["call", "company__get_invoice"]] {
        let ran = page.run(command).ended(2);
        assert_untouched(&world, &ran);
    }
    page.compare("two_for_one_name");
}

/// Commands that would start something do not, and leave nothing behind.
#[test]
fn nothing_starts_on_a_bad_configuration() {
    let commands: [&[&str]; 5] = [&["serve"], &["stdio"], &["tools"], &["call", "company__get_invoice"], &["explain"]];
    let world = trapped([get_invoice()]);
    let mut contract = get_invoice();
    put(&mut contract.0, "/runtime/timeout_ms", json!(0));
    for args in &commands[..4] {
        world.write("contracts/bad.json", &contract.to_string());
        let ran = world.run(args).ended(2);
        assert!(ran.stderr.starts_with("error: a contract is not admitted\n  contracts/bad.json"), "{}", ran.stderr);
        assert_untouched(&world, &ran);
        world.write("contracts/bad.json", &get_invoice().0.to_string().replace("1.0.0", "one"));
        assert_untouched(&world, &world.run(args).ended(2));
    }
    std::fs::remove_file(world.path("contracts/bad.json")).unwrap();
    world.write("servanda.yaml", "servanda: 1\nupstreams: []\n");
    for args in commands {
        let ran = world.run(args).ended(2);
        assert!(ran.stderr.starts_with("error: servanda.yaml:2:12: `upstreams`"), "{}", ran.stderr);
        assert_untouched(&world, &ran);
    }
    world.configure(&trap());
    let ran = world.run(&["serve", "--listen", "0.0.0.0:0"]).ended(2);
    assert_untouched(&world, &ran);
}

/// Sets a value by its JSON Pointer, whose last member may be missing.
pub(crate) fn put(document: &mut Value, pointer: &str, value: Value) {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    document.pointer_mut(parent).unwrap_or_else(|| panic!("no {parent}"))[name] = value;
}
