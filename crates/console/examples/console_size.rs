//! The console on a full ledger: how long the server takes for each page and filter. It fills a ledger with calls of thirty days and with open
//! tickets, asks for every page some times, and prints the times; it fails if one is too slow.
//!
//!     cargo run --release -p servanda-console --example console_size -- FILE-OR-URL [CALLS [TICKETS]]
//!
//! A ledger that has calls already is measured as it is.

#![allow(
    unreachable_pub,
    missing_docs,
    dead_code,
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "the fixture is shared with tests; the example measures and prints"
)]

#[path = "../tests/console/fixture.rs"]
mod fixture;

use std::{
    net::{IpAddr, Ipv4Addr},
    path::Path,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use fixture::{FixtureStores, Gateway, ShiftedClock, Users, Wanted, engine};
use http::{HeaderMap, HeaderValue, Method, header};
use serde_json::json;
use servanda_authn::{AuthnSettings, CredentialAuthenticator};
use servanda_console::{Console, ConsoleParts, OneTimeLinks};
use servanda_contract::{
    CallId, CallRecord, Caller, CallerActor, GateName, Refusal, TaxonomyClass, Timestamp,
    cost::{Cost, Price},
    record::{Decision, Outcome},
    time::Clock as _,
};
use servanda_doors::http::{PageBody, PageRequest, Pages as _};
use servanda_effects::{CallHistory as _, Journal as _, TicketStore as _, call_history::HistoryQuery};
use servanda_ledger::Ledger;

/// The time that one page may take on the server.
const PAGE_MAX: Duration = Duration::from_millis(100);
const ASKED: usize = 15;
const DAYS_30_MS: u64 = 30 * 86_400_000;
const TENANT: &str = "local";

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(place) = arguments.first() else {
        println!("usage: console_size FILE-OR-URL [CALLS [TICKETS]]");
        return ExitCode::FAILURE;
    };
    let number = |at: usize, usual: u64| arguments.get(at).map_or(usual, |text| text.parse().unwrap());
    let ledger = if place.starts_with("postgres") {
        Ledger::connect(place).await.unwrap()
    } else {
        Ledger::open(Path::new(place)).unwrap()
    };
    let ledger = Arc::new(ledger);
    let clock = Arc::new(ShiftedClock::default());
    let now_ms = clock.now().unix_ms();
    if ledger.list_calls(query()).await.unwrap().calls.is_empty() {
        fill(&ledger, now_ms, number(1, 1_000_000), number(2, 10_000)).await;
    }
    let slow = measure(&ledger, clock, now_ms).await;
    ledger.close().await;
    if slow == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn query() -> HistoryQuery {
    HistoryQuery { tenant: TENANT.to_owned(), limit: 50, ..HistoryQuery::default() }
}

async fn fill(ledger: &Arc<Ledger>, now_ms: u64, calls: u64, tickets: u64) {
    let began = Instant::now();
    // A record as the engine makes it; its calls differ in what pages filter by.
    let template = Gateway::new(Users::One).record(TENANT, "user-0", |_| {}).await;
    for number in 0..calls {
        let received_ms = now_ms - DAYS_30_MS + number * DAYS_30_MS / calls;
        ledger.record_finished(call(&template, number, received_ms), None, number % 512 == 511).await.unwrap();
    }
    ledger.record_finished(call(&template, calls, now_ms), None, true).await.unwrap();
    println!("{calls} calls after {} s", began.elapsed().as_secs());
    let gateway = Gateway::new(Users::One);
    for some in (0..tickets).collect::<Vec<_>>().chunks(256) {
        let opened = some.iter().map(async |number| {
            let arguments = json!({"invoice_id": format!("inv_{number}"), "reason": "duplicate"});
            let request = gateway.request(Wanted { tenant: TENANT, arguments, ..Wanted::default() });
            let target = servanda_effects::ticket_store::TicketTarget::Key(request.key);
            ledger.apply_ticket(target, servanda_approval::TicketEvent::Request(Box::new(request))).await.unwrap();
        });
        futures_util::future::join_all(opened).await;
    }
    println!("{tickets} open tickets after {} s", began.elapsed().as_secs());
}

/// Calls of 40 users and 8 agents with 120 tools; nine of ten complete.
fn call(template: &CallRecord, number: u64, received_ms: u64) -> CallRecord {
    // Any number that is spread well.
    let spread = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
    let took_ms = 3 + spread % 50 + if spread.is_multiple_of(97) { 4_000 } else { 0 };
    let actors = vec![CallerActor { name: format!("agent-{}", spread % 8), proven: true }];
    let tool = format!("server{}__tool_{}", spread % 6, (spread >> 8) % 20);
    let mut record = CallRecord {
        call_id: CallId::new(),
        caller: Caller { actors, ..Caller::named(TENANT, &format!("user-{}", (spread >> 4) % 40)) }.into(),
        tool: if number == 12_345 { "rare__needle".to_owned() } else { tool },
        received_at: Timestamp::from_unix_ms(received_ms),
        dispatched_at: Some(Timestamp::from_unix_ms(received_ms + 1)),
        finished_at: Some(Timestamp::from_unix_ms(received_ms + took_ms)),
        ..template.clone()
    };
    match spread % 100 {
        0..5 => {
            let class = TaxonomyClass::PolicyViolation;
            let (id, no) = (CallId::from(record.call_id.to_string()), "no policy permits it".to_owned());
            record.refusal = Some(Refusal::new(id, GateName::Policy, class, no.clone(), no));
            (record.outcome, record.class, record.dispatched_at) = (Outcome::Refused, Some(class), None);
            record.verdicts.truncate(9);
            record.verdicts.last_mut().unwrap().decision = Decision::Refused;
        }
        5..8 => (record.outcome, record.class) = (Outcome::ToolError, Some(TaxonomyClass::Timeout)),
        8 => (record.outcome, record.class) = (Outcome::Replayed, Some(TaxonomyClass::Success)),
        9..20 => {
            let cost = Cost { external_api_micros: 2_500, ..Cost::default() };
            record.price = Some(Box::new(Price { currency: "EUR".to_owned(), cost }));
        }
        _ => {}
    }
    record
}

async fn measure(ledger: &Arc<Ledger>, clock: Arc<ShiftedClock>, now_ms: u64) -> usize {
    let (console, cookie) = open(ledger, clock).await;
    let pages = pages(ledger, now_ms).await;
    println!("{:>9} {:>9}  page", "median", "slowest");
    let mut slow = 0;
    for page in pages {
        let mut times = Vec::new();
        for _ in 0..ASKED {
            times.push(ask(&console, &cookie, &page).await);
        }
        times.sort();
        let (median, slowest) = (*times.get(ASKED / 2).unwrap(), *times.last().unwrap());
        let page: String = page.chars().take(100).collect();
        println!("{:>6.1} ms {:>6.1} ms  {page}", median.as_secs_f64() * 1e3, slowest.as_secs_f64() * 1e3);
        slow += usize::from(median > PAGE_MAX);
    }
    slow
}

/// The address of every page and of every kind of filter.
async fn pages(ledger: &Ledger, now_ms: u64) -> Vec<String> {
    let newest = ledger.list_calls(query()).await.unwrap().calls;
    let listed = ledger.list_tickets(servanda_effects::ticket_store::TicketQuery {
        tenant: Some(TENANT.to_owned()),
        states: Vec::new(),
        before: None,
        limit: 50,
    });
    let tickets = listed.await.unwrap();
    let middle = now_ms - DAYS_30_MS / 2;
    let mut pages: Vec<String> = [
        "/?within=1h",
        "/?within=24h",
        "/?within=7d",
        "/approvals",
        "/approvals?state=all",
        "/approvals?state=decided",
        "/approvals?state=over",
        "/effects",
        "/effects?state=under_way",
        "/effects?state=all",
        "/tools",
        "/policies",
        "/budgets",
        "/passkeys",
        "/calls",
        "/calls?caller=user-7",
        "/calls?caller=agent-3",
        "/calls?tool=server2__tool_7",
        "/calls?tool=rare__needle",
        "/calls?tool=no_such_tool",
        "/calls?outcome=completed",
        "/calls?outcome=refused",
        "/calls?outcome=quarantined",
        "/calls?class=TIMEOUT",
        "/calls?class=SUCCESS",
        "/calls?gate=policy",
        "/calls?within=1h",
        "/calls?within=30d&outcome=tool_error",
        "/calls?caller=user-7&tool=server2__tool_7",
        "/calls?caller=user-7&tool=server2__tool_7&outcome=refused",
        "/calls?caller=agent-3&outcome=refused&gate=policy&class=POLICY_VIOLATION",
        "/calls?outcome=completed&gate=policy",
        "/calls?outcome=completed&class=TIMEOUT",
        "/calls?q=tool_7",
        "/calls?q=no+such+text",
        "/calls?q=no+such+text&caller=user-7",
    ]
    .map(str::to_owned)
    .into();
    for filter in ["", "tool=server2__tool_7&", "outcome=completed&", "caller=user-7&outcome=refused&"] {
        pages.push(format!("/calls?{filter}before={middle}."));
    }
    pages.extend(newest.first().map(|call| format!("/calls?q={}", call.call_id)));
    pages.extend(newest.first().map(|call| format!("/calls/{}", call.call_id)));
    pages.extend(tickets.first().map(|ticket| format!("/approvals/{}", ticket.id)));
    pages.extend(tickets.last().map(|ticket| format!("/approvals?state=all&before={}", ticket.id)));
    let chosen = tickets.iter().map(|ticket| format!("ticket={}:{}", ticket.id, ticket.subject.payload));
    pages.push(format!("/approvals/review?{}", chosen.collect::<Vec<_>>().join("&")));
    pages
}

/// A console on the ledger, and the cookie of the one person.
async fn open(ledger: &Arc<Ledger>, clock: Arc<ShiftedClock>) -> (Console, HeaderValue) {
    let stores = FixtureStores {
        tickets: ledger.clone(),
        effects: ledger.clone(),
        budgets: ledger.clone(),
        journal: ledger.clone(),
        notebook: ledger.clone(),
    };
    let links = Arc::new(OneTimeLinks::new(clock.clone()));
    let authenticator =
        CredentialAuthenticator::new(ledger.clone(), clock.clone(), Arc::new(fixture::FixedSeal), AuthnSettings::Local);
    let console = Console::new(ConsoleParts {
        engine: Arc::new(engine(Users::One, None, stores, clock.clone())),
        history: ledger.clone(),
        notebook: ledger.clone(),
        authenticator: Arc::new(authenticator.unwrap()),
        links: links.clone(),
        clock,
        link_hint: String::new(),
    });
    let headers = HeaderMap::from_iter([
        (header::HOST, HeaderValue::from_static("127.0.0.1:7332")),
        (header::ORIGIN, HeaderValue::from_static("http://127.0.0.1:7332")),
        (header::CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded")),
    ]);
    let uri = links.issue().unwrap().path().parse().unwrap();
    let peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let request = PageRequest { method: Method::POST, uri, headers, body: Bytes::new(), peer };
    let response = console.answer(request).await;
    let cookie = response.headers.get(header::SET_COOKIE).unwrap().to_str().unwrap();
    let pair = cookie.split(';').next().unwrap_or_default();
    (console, HeaderValue::from_str(pair).unwrap())
}

async fn ask(console: &Console, cookie: &HeaderValue, page: &str) -> Duration {
    let headers = HeaderMap::from_iter([
        (header::HOST, HeaderValue::from_static("127.0.0.1:7332")),
        (header::COOKIE, cookie.clone()),
    ]);
    let (uri, peer) = (page.parse().unwrap(), IpAddr::V4(Ipv4Addr::LOCALHOST));
    let request = PageRequest { method: Method::GET, uri, headers, body: Bytes::new(), peer };
    let began = Instant::now();
    let response = console.answer(request).await;
    let took = began.elapsed();
    assert_eq!(response.status, 200, "{page}");
    assert!(matches!(response.body, PageBody::Whole(_)), "{page}");
    took
}
