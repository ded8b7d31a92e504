//! What the operator is told, and that it is true: before the gateway starts, while it runs, and when something has to be settled by hand.

use std::net::TcpListener;

use serde_json::{Value, json};

use crate::{
    access::payment,
    contract::{changes, count_effects, get_invoice, pay_invoice, reads, slow_change},
    world::{World, until},
};

/// A port at which nothing listens.
fn closed_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn a_tool_that_asks_for_an_approval_waits_for_it_and_every_command_says_so() {
    let world = World::company([pay_invoice().confirmed(), get_invoice()]).unpinned();
    let checked = world.run(&["check"]).ended(0);
    assert!(checked.stderr.contains("note: a person approves each call of company.pay_invoice"), "{checked:?}");
    let tools = world.run(&["tools", "--offline"]).ended(0).stdout;
    let line = tools.lines().find(|line| line.contains("pay_invoice")).unwrap();
    assert!(line.contains("needs approval"), "{tools}");
    let line = tools.lines().find(|line| line.contains("get_invoice")).unwrap();
    assert!(!line.contains("needs approval"), "{tools}");
    let rows = world.run(&["tools", "--offline", "--json"]).ended(0).json();
    let refused: Vec<&Value> = rows.as_array().unwrap().iter().map(|row| &row["needs_approval"]).collect();
    assert_eq!(refused, [&json!(false), &json!(true)]);
    // The call is refused, as announced.
    world.call("company__pay_invoice", &payment(100).to_string()).ended(3);

    let fresh = World::empty();
    fresh.write(".mcp.json", &json!({ "mcpServers": { "company": fresh.sample(&[]) } }).to_string());
    let told = fresh.run(&["init", "--yes"]).ended(0).stderr;
    assert!(told.contains("a person approves each call of"), "{told}");
}

/// `check` finds everything that `serve` refuses and that can be known without starting anything.
#[test]
fn check_finds_what_serve_refuses() {
    let unset = "${SERVANDA_TEST_UNSET}";
    let cases: [(&str, &str, Value); 8] = [
        ("ledger", "/ledger", json!("${DATABASE_URL}")),
        ("listen", "/listen", json!("0.0.0.0:7332")),
        ("environment", "/upstreams/company/env", json!({ "TOKEN": unset })),
        ("url", "/upstreams/web", json!({ "url": format!("http://{unset}/mcp") })),
        ("header", "/upstreams/web", json!({ "url": "http://127.0.0.1:1/mcp", "headers": { "X": unset } })),
        ("issuer", "/auth", json!({ "mode": "required", "issuers": [{ "issuer": "not a url" }] })),
        ("callback", "/callbacks", json!([{ "name": "ops", "url": "ftp://x", "secret": unset }])),
        ("policies", "/policy", json!({ "files": "no-such-folder" })),
    ];
    let mut found = 0;
    for (what, pointer, value) in cases {
        let world = World::company([get_invoice()]).unpinned();
        world.change_config(|config| set(config, pointer, value.clone()));
        let checked = world.run(&["check"]);
        assert_eq!(checked.code, Some(2), "`check` does not find {what}: {checked:?}");
        let served = world.run(&["serve"]);
        assert_eq!(served.code, Some(2), "{what}: {served:?}");
        let (of_serve, of_check) = (error(&served.stderr), error(&checked.stderr));
        assert_eq!(of_serve, of_check, "{what}");
        assert!(!world.has(".servanda/ledger.db"), "{what}: nothing is made");
        found += 1;
    }
    assert_eq!(found, 8);
}

/// A ledger file that differs from the known one is found by reading it.
#[test]
fn check_finds_a_ledger_that_serve_refuses() {
    let world = World::company([get_invoice()]).unpinned();
    world.call("company__get_invoice", r#"{"invoice_id":"inv_1001"}"#).ended(0);
    world.run(&["check"]).ended(0);
    std::fs::remove_file(world.path(".servanda/ledger.db")).unwrap();
    let served = world.run(&["serve", "--listen", "127.0.0.1:0"]).ended(2);
    let checked = world.run(&["check"]).ended(2);
    assert_eq!(error(&served.stderr), error(&checked.stderr));
}

fn set(config: &mut Value, pointer: &str, value: Value) {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    config.pointer_mut(parent).unwrap()[name] = value;
}

fn error(stderr: &str) -> &str {
    stderr.lines().find(|line| line.starts_with("error: ")).unwrap_or_else(|| panic!("{stderr}"))
}

#[test]
fn check_as_json_has_every_note_of_the_text() {
    let world = World::company([pay_invoice(), get_invoice(), changes("send_mail").confirmed()]);
    world.write("policies/p.cedar", "permit (principal, action, resource);\n");
    world.change_config(|config| config["policy"] = json!({ "mode": "shadow" }));
    let text = world.run(&["check"]).ended(0).stderr;
    let notes = world.run(&["check", "--json"]).ended(0).json()["notes"].clone();
    let notes: Vec<&str> = notes.as_array().unwrap().iter().map(|note| note.as_str().unwrap()).collect();
    let told: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("note: ") || line.starts_with("warning: "))
        .map(|line| line.strip_prefix("note: ").unwrap_or(line))
        .collect();
    assert_eq!(notes, told);
    for part in ["is not enforced", "a person approves each call", "nothing is pinned", "without a person's approval"] {
        assert!(notes.iter().any(|note| note.contains(part)), "{part}: {notes:?}");
    }
}

/// A server that accepts payments and never says how one ended.
const SILENT: &str = r#"
tools='{"name":"pay","inputSchema":{"type":"object"}},{"name":"get_invoice","inputSchema":{"type":"object"}}'
while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9][0-9]*\).*/\1/p')
  case "$line" in
    *'"server/discover"'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown"}}\n' "$id" ;;
    *'"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"bank","version":"1"}}}\n' "$id" ;;
    *'"tools/list"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[%s]}}\n' "$id" "$tools" ;;
    *'"get_invoice"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"open"}]}}\n' "$id" ;;
  esac
done
"#;

#[test]
fn an_unknown_effect_is_shown_with_all_that_is_needed_to_settle_it() {
    let properties = json!({
        "amount_cents": { "type": "integer" },
        "invoice_id": { "type": "string" },
        "card": { "type": "string", "x-sensitivity": "pii" },
    });
    let mut contract = changes("pay").input(&["invoice_id"], &properties);
    contract.0["verification"] =
        json!({ "target_state_reference": "invoice/{invoice_id}", "tool": "company.get_invoice" });
    let world = World::empty();
    world.configure(&json!({ "company": { "command": "sh", "args": ["-c", SILENT, world.path("bank")] } }));
    world.add(&contract);
    world.add(&get_invoice());
    let world = world.unpinned();
    let arguments = json!({ "amount_cents": 6000, "invoice_id": "inv_1003", "card": "4242424242424242" });
    world.run(&["call", "company__pay", &arguments.to_string(), "--timeout-ms", "4000"]).ended(4);
    let listed = world.run(&["effects", "--state", "outcome_unknown", "--json"]).ended(0).json();
    let handle = listed[0]["id"].as_str().unwrap().to_owned();

    let page = world.run(&["effects", "show", &handle]).ended(0).stdout;
    for part in [
        r#""invoice_id":"inv_1003""#,
        r#""card":"[masked]""#,
        "operation",
        "look for  at `company`, what `pay` makes of these arguments",
        r#"servanda call company__get_invoice '{"invoice_id":"inv_1003"}'"#,
    ] {
        assert!(page.contains(part), "{part}:\n{page}");
    }
    let told = world.run(&["effects", "show", &handle, "--json"]).ended(0).json();
    let look_up = &told["look_up"];
    assert_eq!(look_up["arguments"], json!({ "amount_cents": 6000, "invoice_id": "inv_1003", "card": "[masked]" }));
    assert_eq!((&look_up["upstream"], &look_up["tool"]), (&json!("company"), &json!("pay")));
    assert!(look_up["operation_id"].as_str().is_some_and(|key| !key.is_empty()), "{told:#}");
    assert!(look_up["sent_at"].is_string() && look_up["commands"].as_array().unwrap().len() == 1, "{told:#}");
    assert!(!format!("{page}{told}").contains("4242"), "what the schema marks is masked");

    // The suggested commands work, and the arguments are deleted when the effect is settled.
    world.run(&["call", "company__get_invoice", r#"{"invoice_id":"inv_1003"}"#]).ended(0);
    world.run(&["effects", "settle", &handle, "--as", "completed", "--evidence", "seen at the company"]).ended(0);
    let settled = world.run(&["effects", "show", &handle, "--json"]).ended(0).json();
    assert_eq!(settled["look_up"].get("arguments"), None, "{settled:#}");
}

#[test]
fn explain_does_not_say_of_a_call_that_was_sent_that_it_was_not_performed() {
    let world = World::company([slow_change(), count_effects()]);
    let gateway = world.serve();
    gateway.modern().call("company__count_effects", json!({})).success();
    let agent = gateway.modern();
    let slow = json!({ "name": "company__misbehave_slow", "arguments": { "milliseconds": 60_000 } });
    let pending = agent.question(1, "tools/call", slow).send(gateway.address);
    let record = world.record_of("company__misbehave_slow", "dispatching");
    // The record of a running call, and the record after a crash.
    let id = record["call_id"].as_str().unwrap();
    for _ in 0..2 {
        let page = world.run(&["explain", id]).ended(0).stdout;
        let performed = page.lines().find(|line| line.split_whitespace().next() == Some("perform")).unwrap();
        assert!(performed.contains("SENT") && performed.contains("sent at "), "{page}");
        assert!(!page.contains("not reached"), "{page}");
    }
    drop(pending);
    gateway.kill();
    let page = world.run(&["explain", id]).ended(0).stdout;
    assert!(page.contains("SENT") && !page.contains("not reached"), "{page}");
}

#[test]
fn a_wrong_credential_is_logged_with_its_address_and_the_reason_and_a_flood_is_one_line() {
    let world = World::guarded(&[]);
    let gateway = world.serve();
    let (good, id) = world.key("acme", "ada", &["company:read"], &[]);
    assert_eq!(gateway.knock(&good).0, 200);
    let id = id.strip_prefix("key:").unwrap_or(&id).to_owned();
    world.run(&["keys", "revoke", &id]).ended(0);
    assert_eq!(gateway.knock(&good).0, 401);
    let line = until("the line", || {
        let said = gateway.said();
        said.lines().find(|line| line.contains("a credential was not accepted")).map(str::to_owned)
    });
    assert!(line.contains("address=\"127.0.0.1\"") && line.contains("revoked"), "{line}");
    let wrong = "svk_this-is-a-wrong-credential-of-somebody";
    for _ in 0..50 {
        assert_eq!(gateway.knock(wrong).0, 401);
    }
    let said = gateway.said();
    assert_eq!(said.matches("a credential was not accepted").count(), 1, "{said}");
    assert!(!said.contains("wrong-credential-of-somebody") && !said.contains(&good), "{said}");
    // Every client begins without a credential.
    let (status, _) = gateway.knock("");
    assert_eq!(status, 401);
}

/// A token request that asks for too much is not logged as a wrong credential; one with a wrong token is.
#[test]
fn only_a_wrong_token_of_an_exchange_is_logged_as_a_wrong_credential() {
    let world = World::guarded(&[]);
    let gateway = world.serve();
    let (good, _) = world.key("acme", "ada", &["company:read"], &[]);
    let terms = ("servanda_terms", r#"{"agent":"helper"}"#);
    let (status, told) = gateway.exchange(&[("subject_token", &good), ("scope", "company:write"), terms]);
    assert_eq!((status, &told["error"]), (400, &json!("invalid_scope")), "{told}");
    let (status, told) = gateway.exchange(&[("subject_token", "svk_wrong"), terms]);
    assert_eq!((status, &told["error"]), (400, &json!("invalid_request")), "{told}");
    let line = until("the line", || {
        let said = gateway.said();
        said.lines().find(|line| line.contains("a credential was not accepted")).map(str::to_owned)
    });
    assert!(line.contains("subject token is not valid here") && line.contains("left_out=0"), "{line}");
    assert!(!gateway.said().contains("svk_wrong"), "{}", gateway.said());
}

#[test]
fn doctor_names_host_port_and_cause_of_every_connection_that_fails() {
    let world = World::company([get_invoice()]).unpinned();
    let (database, upstream, issuer) = (closed_port(), closed_port(), closed_port());
    world.change_config(|config| {
        config["ledger"] = json!(format!("postgres://ada:s3cret@127.0.0.1:{database}/servanda"));
        config["upstreams"]["web"] = json!({ "url": format!("http://127.0.0.1:{upstream}/mcp") });
        config["auth"] = json!({ "mode": "required", "issuers": [{
            "issuer": format!("http://127.0.0.1:{issuer}/"), "tenant": "acme" }] });
    });
    let told = world.run(&["doctor", "--json"]).ended(1).json();
    let findings = told["findings"].as_array().unwrap();
    for (what, port) in [("ledger", database), ("upstream web", upstream), ("issuer http", issuer)] {
        let finding = findings
            .iter()
            .find(|finding| finding["what"].as_str().unwrap().starts_with(what) && finding["mark"] == "bad")
            .unwrap_or_else(|| panic!("{what}: {told:#}"));
        let says = finding["says"].as_str().unwrap();
        assert!(says.contains(&format!("127.0.0.1:{port}")), "{what}: {says}");
        assert!(says.to_lowercase().contains("refused"), "{what}: {says}");
    }
    assert!(!told.to_string().contains("s3cret"));
}

/// A healthy server causes no warning, and "ready" means that it has answered.
#[test]
fn starting_is_quiet_when_all_is_well() {
    let world = World::empty();
    world.write(".mcp.json", &json!({ "mcpServers": { "company": world.sample(&[]) } }).to_string());
    world.run(&["init", "--yes"]).ended(0);
    let gateway = world.serve();
    let told: Value =
        serde_json::from_str(&crate::http::Question::page("/readyz").ask(gateway.address).text()).unwrap();
    assert_eq!(told["upstreams"], json!({ "answering": 1, "not_answering": 0 }), "{told}");
    let said = gateway.said();
    assert!(!said.contains("WARN") && !said.contains("ERROR") && !said.contains("warning"), "{said}");
    assert_eq!(said.lines().count(), 3, "the address, how to connect, and where people decide: {said}");
}

#[test]
fn ready_means_that_every_server_answered_or_is_named() {
    let world = World::empty();
    // One that answers after a while, one that cannot be started.
    let slow = format!("sleep 2; exec {} sample --database {}", crate::world::BINARY, world.path("books.db").display());
    world.configure(&json!({
        "company": { "command": "sh", "args": ["-c", slow, world.path("slow")] },
        "broken": { "command": "/no/such/program" },
    }));
    for contract in [get_invoice(), reads("lost").of("broken")] {
        world.add(&contract);
    }
    let world = world.unpinned();
    let gateway = world.serve();
    let said = until("what is said", || Some(gateway.said()).filter(|said| said.contains("connect: ")));
    assert!(said.contains("`broken` does not answer, so its tools cannot be called"), "{said}");
    assert_eq!(said.matches("could not be started").count(), 1, "the reason is told once: {said}");
    assert!(!said.contains("`company` does not answer"), "{said}");
    let tools = gateway.modern().tools();
    assert!(tools.iter().any(|tool| tool == "company__get_invoice"), "{tools:?}");
    assert_eq!(gateway.modern().tools(), tools, "the list stays as it was the first time");
    let told: Value =
        serde_json::from_str(&crate::http::Question::page("/readyz").ask(gateway.address).text()).unwrap();
    let expected = json!({ "answering": 1, "not_answering": 1, "not_answering_ids": ["broken"] });
    assert_eq!(told["upstreams"], expected, "{told}");
}
