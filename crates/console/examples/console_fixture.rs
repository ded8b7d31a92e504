//! A gateway in memory with tickets of all kinds, for tests in a real browser and for a look at the pages: it prints where it listens, the
//! one-time link or the keys, and one line of JSON that a test reads. `--many` serves many people with keys instead of one, and with `--provider`
//! through an identity provider too.

#![allow(
    unreachable_pub,
    missing_docs,
    dead_code,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "the fixture is shared with tests; the example prints"
)]

#[path = "../tests/console/fixture.rs"]
mod fixture;
#[path = "../tests/console/identity_provider.rs"]
mod identity_provider;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use fixture::{Gateway, Users, Wanted, many, operating::WantedEffect};
use identity_provider::IdentityProvider;
use serde_json::{Value, json};
use servanda_approval::{TicketState, Warrant};
use servanda_contract::{
    CallId, CallRecord, Caller, CallerActor, GateName, Refusal, TaxonomyClass, Timestamp,
    cost::{Cost, Price},
    record::{Decision, Outcome},
    refusal::FieldError,
    tool::{ApprovalPattern, Presence, SideEffectClass},
};
use servanda_doors::{
    HttpOptions, ServerIdentity, ServingOptions,
    http::{router, serve_with},
};
use servanda_effects::{
    TicketStore as _,
    effect::{DispatchEnd, StoredAnswer},
    ticket_store::TicketQuery,
};
use tokio::{io::AsyncReadExt as _, net::TcpListener};
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let has = |wanted: &str| std::env::args().any(|argument| argument == wanted);
    let users = if has("--many") { Users::Many } else { Users::One };
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    let console_url = has("--provider").then(|| format!("http://127.0.0.1:{port}"));
    let gateway = Arc::new(Gateway::at(users, console_url.clone()));
    let provider = IdentityProvider::start(gateway.clock.clone()).await;
    if console_url.is_some() {
        gateway.authenticator.replace(many(Some(provider.settings()), Vec::new()));
    }
    let tickets = open_tickets(&gateway, users).await;
    let effects = operate(&gateway, users).await;
    let calls = record_calls(&gateway, users).await;
    let mut keys = BTreeMap::new();
    if users == Users::Many {
        for (person, groups) in [("ben", &[][..]), ("cleo", &[]), ("vera", &[]), ("opal", &[]), ("fay", &["finance"])] {
            keys.insert(person, gateway.key(person, groups, &["servanda:console"]).await.1);
        }
    }
    let links: Vec<String> = match users {
        Users::One => (0..8).filter_map(|_| gateway.links.issue().ok()).map(|link| link.path()).collect(),
        Users::Many => Vec::new(),
    };
    println!(
        "{}",
        json!({
            "port": port, "links": links, "keys": keys, "tickets": tickets, "effects": effects, "calls": calls,
            "provider": provider.issuer,
        })
    );
    let identity = ServerIdentity { name: "servanda".to_owned(), version: "0.1.0".to_owned(), instructions: None };
    let options = HttpOptions {
        authenticator: gateway.authenticator.clone(),
        pages: Some(Arc::new(gateway.console.clone())),
        ..HttpOptions::new(identity)
    };
    let stop = CancellationToken::new();
    tokio::spawn(commands(Arc::clone(&gateway), users, stop.clone()));
    let serving = ServingOptions { drain_ms_max: 200, ..ServingOptions::default() };
    serve_with(listener, router(gateway.engine.clone(), options), stop, serving).await
}

/// Reads letters: `n` opens another ticket, `r` one about a refund and prints its id, `p` one about a plan and prints its id, `d` makes a call that the newest grant covers and prints
/// it, `c` records another call, `t` lets six minutes pass, `w` prints the warrants of approved tickets with
/// the public key that checks them; the end of the input ends the example.
async fn commands(gateway: Arc<Gateway>, users: Users, stop: CancellationToken) {
    let mut input = tokio::io::stdin();
    let (mut number, mut refunds) = (0, 39);
    loop {
        match input.read_u8().await {
            Ok(b'n') => {
                number += 1;
                let arguments = json!({"invoice_id": format!("inv_2{number:03}"), "reason": "duplicate"});
                let consequence = Some(format!("Invoice inv_2{number:03} becomes void; nobody is charged for it."));
                gateway.open(Wanted { arguments, consequence, ..of(users) }).await;
            }
            Ok(b'w') => println!("{}", warrants(&gateway).await),
            Ok(b'c') => {
                let Wanted { tenant, principal, .. } = of(users);
                gateway.record(tenant, &principal, |record| "company__new_one".clone_into(&mut record.tool)).await;
            }
            Ok(b'r') => println!("{}", json!({ "ticket": gateway.open(refund(users, &mut refunds)).await.id })),
            Ok(b'p') => {
                let mut plan = fixture::planning::plan();
                for call in &mut plan.calls {
                    call.demand.pattern = of(users).pattern;
                }
                println!("{}", json!({ "ticket": gateway.open_plan(&plan, of(users)).await.id }));
            }
            Ok(b'd') => println!("{}", draw(&gateway, users).await),
            Ok(b't') => gateway.clock.pass_ms(6 * 60_000),
            Ok(_) => {}
            Err(_) => break,
        }
    }
    stop.cancel();
    tokio::time::sleep(Duration::from_secs(1)).await;
}

/// A call whose arguments have a number and a path, each time another.
fn refund(users: Users, amount: &mut u32) -> Wanted {
    *amount += 1;
    Wanted {
        tool: "bank.refund",
        arguments: json!({"amount": *amount, "file": "/srv/bills/2026/inv_1007.pdf", "to": "Nordwind GmbH"}),
        consequence: Some(format!("{amount} EUR go back to Nordwind GmbH.")),
        class: SideEffectClass::HighRiskExternal,
        ..of(users)
    }
}

/// A call that the newest grant covers, or that the store does not let it draw.
async fn draw(gateway: &Gateway, users: Users) -> Value {
    let grants = gateway.engine.approvals().grants(Some(of(users).tenant), None, 1).await.unwrap();
    let Some(ticket) = grants.first() else { return json!({ "call": null }) };
    json!({ "call": gateway.draw_on_grant(&ticket.id).await.ok().map(|record| record.call_id.to_string()) })
}

/// The warrants of approved tickets by ticket, and the gateway's public keys.
async fn warrants(gateway: &Gateway) -> Value {
    let keys = gateway.engine.approvals().keys();
    let key = keys.signing_key().await.unwrap();
    let query = TicketQuery { tenant: None, states: vec![TicketState::Approved], before: None, limit: 200 };
    let mut warrants = BTreeMap::new();
    for ticket in gateway.tickets.list_tickets(query).await.unwrap() {
        let ticket = gateway.ticket(&ticket.id).await;
        if let Some(warrant) = Warrant::issue(&ticket, &key).unwrap() {
            warrants.insert(ticket.id.to_string(), warrant.as_str().to_owned());
        }
    }
    json!({ "warrants": warrants, "keys": keys.public_keys().await.unwrap() })
}

/// A ticket of the gateway's people.
fn of(users: Users) -> Wanted {
    let (tenant, principal) = if users == Users::One { ("local", "local") } else { ("acme", "ada") };
    let pattern = if users == Users::One { ApprovalPattern::Consent } else { ApprovalPattern::Operator };
    Wanted { tenant, principal: principal.to_owned(), pattern, ..Wanted::default() }
}

/// Calls of all kinds over the last hours; two of them by name.
async fn record_calls(gateway: &Gateway, users: Users) -> BTreeMap<&'static str, String> {
    let Wanted { tenant, principal, .. } = of(users);
    let now_ms = gateway.clock_ms();
    for number in 0..140_u64 {
        let received_ms = now_ms - 60_000 - number * 7 * 60_000;
        let took_ms = 4 + number * number % 311;
        gateway
            .record(tenant, &principal, |record| {
                record.received_at = Timestamp::from_unix_ms(received_ms);
                record.dispatched_at = Some(Timestamp::from_unix_ms(received_ms + 1));
                record.finished_at = Some(Timestamp::from_unix_ms(received_ms + took_ms));
                let name = if number.is_multiple_of(3) { "payments-agent" } else { "billing-agent" };
                let actors = vec![CallerActor { name: name.to_owned(), proven: true }];
                record.caller = Caller { actors, ..Caller::named(tenant, &principal) }.into();
                let tool = match number % 3 {
                    0 => "company__get_invoice",
                    1 => "company__list_invoices",
                    _ => "bank__transfer",
                };
                tool.clone_into(&mut record.tool);
                match number % 11 {
                    3 => {
                        refuse(record, GateName::Policy, TaxonomyClass::PolicyViolation, "no policy permits this call");
                    }
                    5 => {
                        refuse(record, GateName::Bounds, TaxonomyClass::OutOfBounds, "an argument is out of bounds");
                    }
                    7 => (record.outcome, record.class) = (Outcome::ToolError, Some(TaxonomyClass::Timeout)),
                    9 => (record.outcome, record.class) = (Outcome::Unknown, Some(TaxonomyClass::Timeout)),
                    _ => {
                        let cost = Cost { external_api_micros: 250_000, ..Cost::default() };
                        record.price = Some(Box::new(Price { currency: "EUR".to_owned(), cost }));
                    }
                }
            })
            .await;
    }
    let plain = gateway.record(tenant, &principal, |_| {}).await;
    let hostile = gateway
        .record(tenant, &principal, |record| {
            "pay\u{202e}ecioevni <b>now</b>".clone_into(&mut record.tool);
            refuse(record, GateName::Types, TaxonomyClass::TypeMismatch, "the value is <script>alert(1)</script>");
        })
        .await;
    BTreeMap::from([("plain", plain.call_id.to_string()), ("hostile", hostile.call_id.to_string())])
}

/// Makes a record that of a call refused at a gate.
fn refuse(record: &mut CallRecord, gate: GateName, class: TaxonomyClass, message: &str) {
    let id = CallId::from(record.call_id.to_string());
    let mut refusal =
        Refusal::new(id, gate, class, message.to_owned(), "Correct the arguments and call again.".to_owned());
    refusal.field_errors = vec![FieldError {
        field: "amount".to_owned(),
        pointer: "/amount".to_owned(),
        expected: "a number of at most 1,000".to_owned(),
        actual: "a larger number".to_owned(),
        message: String::new(),
        did_you_mean: None,
    }];
    record.refusal = Some(refusal);
    (record.outcome, record.class, record.dispatched_at) = (Outcome::Refused, Some(class), None);
    let end = record.verdicts.iter().position(|verdict| verdict.gate == gate).unwrap();
    record.verdicts.truncate(end + 1);
    record.verdicts.get_mut(end).unwrap().decision = Decision::Refused;
}

/// Tickets of all kinds, by name.
async fn open_tickets(gateway: &Gateway, users: Users) -> BTreeMap<&'static str, String> {
    let mut opened = BTreeMap::new();
    for (name, wanted) in grave_calls(users).into_iter().chain(ordinary_calls(users)) {
        opened.insert(name, gateway.open(wanted).await.id.to_string());
    }
    opened
}

/// Calls that reach far, or hide something.
fn grave_calls(users: Users) -> Vec<(&'static str, Wanted)> {
    let transfer = Wanted {
        tool: "bank.transfer",
        agent: Some(("payments-agent", true)),
        arguments: json!({
            "amount": 18_250, "currency": "EUR", "from": "operating", "memo": "Invoice 2026-118",
            "to": {"iban": "DE89370400440532013000", "name": "Nordwind GmbH"},
        }),
        consequence: Some("18,250 EUR go from the operating account to Nordwind GmbH.".to_owned()),
        class: SideEffectClass::CriticalMutation,
        decide_within_ms: 3_600_000,
        before: Some(Err("the server did not answer in time".to_owned())),
        ..of(users)
    };
    let transfer = match users {
        Users::One => transfer,
        Users::Many => {
            Wanted { pattern: ApprovalPattern::Dual, quorum: 2, sensitive: &[("/to/iban", "personal")], ..transfer }
        }
    };
    let bidirectional = Wanted {
        tool: "files.share",
        agent: Some(("helper", false)),
        arguments: json!({
            "file": "invoice_\u{202e}fdp.exe", "link": "https://nordw\u{0456}nd.example/share",
            "note": "  please approve <b>quickly</b>\nApproved by security: yes",
        }),
        consequence: Some("The file invoice_\u{202e}fdp.exe is shared outside.".to_owned()),
        class: SideEffectClass::HighRiskExternal,
        compensation: Some("files.unshare"),
        ..of(users)
    };
    let fresh = Wanted {
        tool: "iam.grant_role",
        arguments: json!({"role": "owner", "user": "new-hire@example.test", "expires": null, "notify": true}),
        consequence: Some("new-hire@example.test becomes an owner.".to_owned()),
        class: SideEffectClass::CriticalMutation,
        presence: Presence::Fresh,
        compensation: Some("iam.revoke_role"),
        ..of(users)
    };
    let passkey = Wanted {
        tool: "iam.rotate_root",
        arguments: json!({"account": "production", "reason": "yearly"}),
        consequence: Some("The root credential of production is replaced.".to_owned()),
        class: SideEffectClass::CriticalMutation,
        presence: Presence::Passkey,
        ..of(users)
    };
    let passkey_denied = Wanted { arguments: json!({"account": "staging", "reason": "yearly"}), ..passkey.clone() };
    vec![
        ("transfer", transfer),
        ("bidi", bidirectional),
        ("fresh", fresh),
        ("passkey", passkey),
        ("passkey_denied", passkey_denied),
    ]
}

/// Calls as they come every day.
fn ordinary_calls(users: Users) -> Vec<(&'static str, Wanted)> {
    let plain = Wanted {
        before: Some(Ok(json!({
            "invoice_id": "inv_1007", "status": "open", "total": {"amount": 120, "currency": "EUR"},
            "lines": [{"item": "chair", "count": 2}],
        }))),
        after: Some("status: void"),
        price: Some("0.10 EUR"),
        ..of(users)
    };
    let mail = Wanted {
        tool: "mail.send",
        arguments: json!({
            "to": ["all@example.test"], "subject": "Office closes early", "attachments": [],
            "body": "Dear all,\n\nthe office closes at 3 pm.\n\nFacilities",
        }),
        consequence: Some("A mail goes to all@example.test.".to_owned()),
        class: SideEffectClass::HighRiskExternal,
        ..of(users)
    };
    let void = |number: u32, reason: &str| Wanted {
        arguments: json!({"invoice_id": format!("inv_{number}"), "reason": reason}),
        consequence: Some(format!("Invoice inv_{number} becomes void; nobody is charged for it.")),
        ..of(users)
    };
    let merge = Wanted {
        tool: "repo.merge",
        arguments: json!({"pull_request": 4_711, "repository": "example/site"}),
        consequence: Some("Pull request 4711 is merged into example/site.".to_owned()),
        compensation: Some("repo.revert"),
        ..of(users)
    };
    vec![
        ("plain", plain),
        ("deny", mail),
        ("first", void(1_101, "duplicate")),
        ("second", void(1_102, "duplicate")),
        ("third", void(1_103, "fraud_review")),
        ("keyboard", merge),
    ]
}

/// What the pages of effects, tools and budgets show; the effects by name.
async fn operate(gateway: &Gateway, users: Users) -> BTreeMap<&'static str, String> {
    let (tenant, principal) = if users == Users::One { ("local", "local") } else { ("acme", "ada") };
    let own = || WantedEffect { tenant, principal: principal.to_owned(), ..WantedEffect::default() };
    let mut effects = BTreeMap::new();
    for (name, wanted) in [
        ("unknown", own()),
        ("keyboard", WantedEffect { key: "order-2", ..own() }),
        (
            "bidi",
            WantedEffect {
                key: "order-3",
                arguments: json!({"invoice_id": "inv_1\u{202e}700", "note": "<b>done</b>", "reason": "duplicate"}),
                agent: Some("bot\u{2066}".to_owned()),
                ..own()
            },
        ),
        ("under_way", WantedEffect { key: "order-4", end: None, ..own() }),
        (
            "done",
            WantedEffect {
                key: "order-5",
                end: Some(DispatchEnd::Completed(StoredAnswer::Result(Bytes::from_static(b"{}")))),
                ..own()
            },
        ),
    ] {
        effects.insert(name, gateway.effect(wanted).await.id.to_string());
    }
    gateway.observe_tools().await;
    gateway.use_budgets(tenant).await;
    effects
}
