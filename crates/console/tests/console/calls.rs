//! The list of calls and the page of one: filters, pages, news, who sees what, and what agents and tools wrote as data.

use std::collections::BTreeSet;

use http::{Method, StatusCode};
use serde_json::json;
use servanda_contract::{
    CallId, CallRecord, Caller, CallerActor, GateName, Refusal, TaxonomyClass, Timestamp, legibility,
    record::{Decision, Outcome},
    refusal::FieldError,
};
use servanda_requirements::shared;

use crate::{
    browser::{Browser, Page},
    fixture::{Gateway, Users, Wanted},
};

/// Makes a record that of a call refused at a gate.
fn refuse(record: &mut CallRecord, gate: GateName, class: TaxonomyClass, message: &str) {
    let id = CallId::from(record.call_id.to_string());
    record.refusal = Some(Refusal::new(id, gate, class, message.to_owned(), "ask an operator".to_owned()));
    (record.outcome, record.class, record.dispatched_at) = (Outcome::Refused, Some(class), None);
    let end = record.verdicts.iter().position(|verdict| verdict.gate == gate).unwrap();
    record.verdicts.truncate(end + 1);
    record.verdicts[end].decision = Decision::Refused;
}

fn at(record: &mut CallRecord, received_ms: u64) {
    record.received_at = Timestamp::from_unix_ms(received_ms);
    record.finished_at = Some(Timestamp::from_unix_ms(received_ms + 12));
}

/// The ids of the calls that a list links to, in order.
fn listed(page: &Page) -> Vec<String> {
    let links = page.html.split("<a class=\"row-link\" href=\"/calls/").skip(1);
    links.map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
}

/// The address in the link with this text, as a browser follows it.
fn link(page: &Page, text: &str) -> Option<String> {
    let before = page.html.split(&format!(">{text}</a>")).next().filter(|before| before.len() < page.html.len())?;
    let href = before.rsplit("href=\"").next()?.split('"').next()?;
    Some(href.replace("&#38;", "&").replace("&#39;", "'"))
}

#[tokio::test]
async fn an_empty_list_says_what_to_do() {
    let gateway = Gateway::new(Users::Many);
    let mut vera = Browser::with_key(&gateway, "vera", &[]).await;
    let page = vera.get("/calls").await;
    assert_eq!(page.status, StatusCode::OK);
    assert!(
        page.html.contains("No call has been recorded yet.") && page.html.contains("servanda connect"),
        "{}",
        page.html
    );
    let page = vera.get("/calls?tool=nothing").await;
    assert!(page.html.contains("No call matches."), "{}", page.html);
    assert!(page.html.contains("tool: nothing"));
    let mut nobody = Browser::new(&gateway);
    let page = nobody.get("/calls?tool=a").await;
    assert_eq!((page.status, page.location()), (StatusCode::SEE_OTHER, "/sign-in?next=%2Fcalls%3Ftool%3Da"));
}

#[tokio::test]
async fn every_filter_is_in_the_address_and_every_value_filters() {
    let gateway = Gateway::new(Users::Many);
    let now_ms = 1_700_000_000_000;
    let plain = gateway.record("acme", "ada", |record| at(record, now_ms)).await;
    let refused = gateway
        .record("acme", "bob", |record| {
            at(record, now_ms + 1_000);
            record.tool = "bank__pay".to_owned();
            refuse(record, GateName::Policy, TaxonomyClass::PolicyViolation, "no policy permits it");
        })
        .await;
    let agent = gateway
        .record("acme", "ada", |record| {
            at(record, now_ms + 2_000);
            let actors = vec![CallerActor { name: "planner".to_owned(), proven: true }];
            record.caller = Caller { actors, ..Caller::named("acme", "ada") }.into();
            (record.outcome, record.class) = (Outcome::ToolError, Some(TaxonomyClass::Timeout));
        })
        .await;
    let ids =
        |records: &[&CallRecord]| -> Vec<String> { records.iter().map(|record| record.call_id.to_string()).collect() };
    let mut vera = Browser::with_key(&gateway, "vera", &[]).await;
    for (query, expected) in [
        ("", ids(&[&agent, &refused, &plain])),
        ("?caller=ada", ids(&[&agent, &plain])),
        ("?caller=planner", ids(&[&agent])),
        ("?tool=bank__pay", ids(&[&refused])),
        ("?outcome=refused", ids(&[&refused])),
        ("?outcome=completed&caller=ada", ids(&[&plain])),
        ("?class=TIMEOUT", ids(&[&agent])),
        ("?gate=policy", ids(&[&refused])),
        ("?q=PLANNER", ids(&[&agent])),
        ("?since=2023-11-14T22:13:21", ids(&[&agent, &refused])),
        ("?until=2023-11-14T22:13:21", ids(&[&refused, &plain])),
        ("?within=1h", ids(&[])),
        ("?outcome=nonsense", ids(&[&agent, &refused, &plain])),
    ] {
        assert_eq!(listed(&vera.get(&format!("/calls{query}")).await), expected, "{query}");
    }
    let page = vera.get(&format!("/calls?q={}", refused.call_id)).await;
    assert_eq!(listed(&page), ids(&[&refused]));
    let page = vera.get("/calls?caller=ada").await;
    for (text, expected) in [
        ("planner", "/calls?caller=planner"),
        ("company__get_invoice", "/calls?caller=ada&tool=company__get_invoice"),
        ("tool_error", "/calls?caller=ada&outcome=tool_error"),
        ("TIMEOUT", "/calls?caller=ada&class=TIMEOUT"),
        ("Pause", "/calls?caller=ada&live=off"),
        ("Show all", "/calls"),
    ] {
        assert_eq!(link(&page, text).as_deref(), Some(expected), "{text}: {}", page.html);
    }
    assert!(page.html.contains("hx-sse:connect=\"/calls/events?caller=ada&#38;after="), "{}", page.html);
    let paused = vera.get("/calls?caller=ada&live=off").await;
    assert!(!paused.html.contains("hx-sse"), "a page that is paused asks for no news");
    assert_eq!(link(&paused, "Show news again").as_deref(), Some("/calls?caller=ada"));
}

#[tokio::test]
async fn no_call_is_on_two_pages_or_missing_while_new_ones_arrive() {
    let gateway = Gateway::new(Users::Many);
    let mut expected = BTreeSet::new();
    for number in 0..170 {
        // Several of the same millisecond.
        expected.insert(
            gateway.record("acme", "ada", |record| at(record, 1_000_000 + number / 7)).await.call_id.to_string(),
        );
    }
    let mut vera = Browser::with_key(&gateway, "vera", &[]).await;
    let (mut seen, mut next, mut pages) = (BTreeSet::new(), "/calls?outcome=completed".to_owned(), 0);
    loop {
        let page = vera.get(&next).await;
        for id in listed(&page) {
            assert!(seen.insert(id.clone()), "{id} is on two pages");
        }
        gateway.record("acme", "ada", |record| at(record, 2_000_000 + pages)).await;
        pages += 1;
        assert_eq!(page.html.contains("hx-sse"), pages == 1, "news are on the first page alone");
        match link(&page, "Older") {
            Some(older) => next = older,
            None => break,
        }
    }
    assert_eq!((pages, seen == expected), (4, true));
    let page = vera.get(&next).await;
    assert_eq!(link(&page, "Newest").as_deref(), Some("/calls?outcome=completed"));
}

#[tokio::test]
async fn news_are_a_link_and_end_with_the_session() {
    let gateway = Gateway::new(Users::Many);
    gateway.record("acme", "ada", |record| at(record, 1_000)).await;
    let mut vera = Browser::with_key(&gateway, "vera", &[]).await;
    let page = vera.get("/calls?tool=company__get_invoice").await;
    let events = page.html.split("hx-sse:connect=\"").nth(1).unwrap().split('"').next().unwrap().replace("&#38;", "&");
    assert_eq!(vera.get(&events).await.html, "", "nothing is new");
    for number in 0..3 {
        gateway.record("acme", "ada", |record| at(record, 2_000 + number)).await;
        gateway.record("globex", "gus", |record| at(record, 2_000 + number)).await;
        gateway
            .record("acme", "ada", |record| {
                at(record, 2_000 + number);
                record.tool = "other".to_owned();
            })
            .await;
    }
    let news = vera.get(&events).await.html;
    assert_eq!(news, "data: <a class=\"news\" href=\"/calls?tool=company__get_invoice\">3 new – show</a>\n\n");
    let mut nobody = Browser::new(&gateway);
    assert_eq!(nobody.get(&events).await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn tenants_are_apart_and_a_person_without_a_role_sees_only_their_own() {
    let gateway = Gateway::new(Users::Many);
    let of_otto = gateway.record("acme", "otto", |_| {}).await;
    let of_ada = gateway.record("acme", "ada", |_| {}).await;
    let of_gus = gateway.record("globex", "gus", |_| {}).await;
    let namesake = gateway.record("globex", "otto", |_| {}).await;
    let open = |call: &CallRecord| format!("/calls/{}", call.call_id);
    for (who, seen, unseen) in [
        ("vera", vec![&of_otto, &of_ada], vec![&of_gus, &namesake]),
        ("otto", vec![&of_otto], vec![&of_ada, &of_gus, &namesake]),
        ("globex/gus", vec![&of_gus, &namesake], vec![&of_otto, &of_ada]),
    ] {
        let mut browser = Browser::with_key(&gateway, who, &[]).await;
        let ids: BTreeSet<String> = listed(&browser.get("/calls").await).into_iter().collect();
        assert_eq!(ids, seen.iter().map(|call| call.call_id.to_string()).collect(), "{who}");
        for call in &seen {
            assert_eq!(browser.get(&open(call)).await.status, StatusCode::OK, "{who}");
            let found = listed(&browser.get(&format!("/calls?q={}", call.call_id)).await);
            assert_eq!(found, [call.call_id.to_string()], "{who}");
        }
        for call in unseen {
            assert_eq!(browser.get(&open(call)).await.status, StatusCode::NOT_FOUND, "{who}");
            let found = listed(&browser.get(&format!("/calls?q={}", call.call_id)).await);
            assert!(found.is_empty(), "{who}: {found:?}");
        }
    }
    let mut otto = Browser::with_key(&gateway, "otto", &[]).await;
    assert!(listed(&otto.get("/calls?caller=ada").await).is_empty(), "a filter widens nothing");
    assert!(otto.get("/calls").await.html.contains("You see the calls that were made for you."));
    let missing = otto.send(Method::GET, "/calls/call_nothing", &[], String::new()).await;
    assert_eq!(missing.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_call_opens_gate_by_gate() {
    let gateway = Gateway::new(Users::Many);
    let first = gateway.record("acme", "ada", |_| {}).await;
    let refused = gateway
        .record("acme", "ada", |record| {
            refuse(record, GateName::Bounds, TaxonomyClass::OutOfBounds, "`amount` is too large");
            let refusal = record.refusal.as_mut().unwrap();
            refusal.operator_hint = Some("raise the limit".to_owned());
            refusal.field_errors = vec![FieldError {
                field: "amount".to_owned(),
                pointer: "/amount".to_owned(),
                expected: "at most 100".to_owned(),
                actual: "a larger number".to_owned(),
                message: String::new(),
                did_you_mean: None,
            }];
            record.effect_id = Some("eff_1".to_owned());
            record.continues = Some(first.call_id.clone());
        })
        .await;
    let mut vera = Browser::with_key(&gateway, "vera", &[]).await;
    let page = vera.get(&format!("/calls/{}", refused.call_id)).await;
    for shown in [
        "“amount” is too large",
        "ask an operator",
        "raise the limit",
        "<code>/amount</code>",
        "at most 100",
        "is every value within its limits?",
        "48 µs",
        "not reached",
        "<a href=\"/effects/eff_1\"><code>eff_1</code></a>",
        &format!("<a href=\"/calls/{}\">", first.call_id),
        "servanda call company__get_invoice ARGUMENTS",
    ] {
        assert!(page.html.contains(shown), "{shown}: {}", page.html);
    }
    assert_eq!(page.html.matches("<li class=\"stage ").count(), GateName::ALL.len());
    assert_eq!(page.html.matches("stage-good").count(), 4, "resolve, parse, structure and types passed");
    assert_eq!(page.html.matches("stage-bad").count(), 1);
    assert_eq!(page.html.matches("<rect ").count(), 5, "each stage that judged has a bar");
    let page = vera.get(&format!("/calls/{}", first.call_id)).await;
    assert!(page.html.contains("not needed: nothing is changed") && page.html.contains("11 ms"), "{}", page.html);
}

#[tokio::test]
async fn a_command_has_arguments_only_for_a_person_who_may_see_them() {
    let gateway = Gateway::new(Users::Many);
    let wanted = Wanted {
        arguments: json!({"iban": "DE89", "note": "it's \u{202e}here"}),
        sensitive: &[("/iban", "personal")],
        ..Wanted::default()
    };
    let ticket = gateway.open(wanted).await;
    let record = gateway
        .record("acme", "ada", |record| {
            record.tool = ticket.subject.tool.clone();
            record.proposal_digest = Some(ticket.subject.payload);
            record.ticket_id = Some(ticket.id.to_string());
        })
        .await;
    let path = format!("/calls/{}", record.call_id);
    let mut cleo = Browser::with_key(&gateway, "cleo", &[]).await;
    let page = cleo.get(&path).await;
    let command = r#"servanda call company__void_invoice '{"iban":"DE89","note":"it'\''s \u202ehere"}'"#;
    let escaped = command.replace('\'', "&#39;").replace('"', "&#34;");
    assert!(page.html.contains(&escaped), "{}", page.html);
    assert!(page.html.contains(&format!("<a href=\"/approvals/{}\">", ticket.id)));
    let mut ben = Browser::with_key(&gateway, "ben", &[]).await;
    let page = ben.get(&path).await;
    assert!(
        !page.html.contains("DE89") && page.html.contains("servanda call company__void_invoice ARGUMENTS"),
        "{}",
        page.html
    );
    // A record that names the ticket of other arguments.
    let other = gateway
        .record("acme", "ada", |record| {
            record.tool = ticket.subject.tool.clone();
            record.ticket_id = Some(ticket.id.to_string());
        })
        .await;
    let page = cleo.get(&format!("/calls/{}", other.call_id)).await;
    assert!(!page.html.contains("DE89"), "{}", page.html);
}

/// A page without the values between its tags: what a browser takes for markup.
fn markup(html: &str) -> BTreeSet<String> {
    let tags = html.split('<').skip(1).map(|tag| tag.split(['>', ' ']).next().unwrap_or_default());
    tags.map(str::to_owned).collect()
}

#[tokio::test]
async fn names_and_errors_that_others_wrote_are_never_markup() {
    let Some(file) = shared("corpora/blns/blns.json") else { return };
    let strings: Vec<String> = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let gateway = Gateway::new(Users::Many);
    let mut cleo = Browser::with_key(&gateway, "cleo", &[]).await;
    let plain = gateway
        .record("acme", "ada", |record| refuse(record, GateName::Types, TaxonomyClass::TypeMismatch, "no"))
        .await;
    let expected = markup(&cleo.get(&format!("/calls/{}", plain.call_id)).await.html);
    let expected_list = markup(&cleo.get("/calls?tool=x").await.html);
    let hidden = ["\u{202e}evil".to_owned(), "a\u{200b}b".to_owned()];
    for text in strings.iter().chain(&hidden).filter(|text| !text.is_empty()) {
        let record = gateway
            .record("acme", "ada", |record| {
                refuse(record, GateName::Types, TaxonomyClass::TypeMismatch, text);
                record.tool.clone_from(text);
                let actors = vec![CallerActor { name: text.clone(), proven: false }];
                record.caller = Caller { actors, client: Some(text.clone()), ..Caller::named("acme", "ada") }.into();
                record.task_id = Some(text.clone());
            })
            .await;
        let page = cleo.get(&format!("/calls/{}", record.call_id)).await;
        assert_eq!(page.status, StatusCode::OK);
        let new: Vec<String> = markup(&page.html).difference(&expected).cloned().collect();
        assert!(new.iter().all(|tag| ["/pre", "pre"].contains(&tag.as_str())), "{text:?}: {new:?}");
        let query = form_urlencoded::Serializer::new(String::new()).append_pair("tool", text).finish();
        let page = cleo.get(&format!("/calls?{query}")).await;
        let allowed = ["table", "caption", "thead", "tbody", "tr", "th", "td", "time", "code"];
        let is_ours = |tag: &str| allowed.contains(&tag.trim_start_matches('/'));
        let new: Vec<String> =
            markup(&page.html).difference(&expected_list).filter(|tag| !is_ours(tag)).cloned().collect();
        assert!(new.is_empty(), "{text:?}: {new:?}");
        // A field that is not shown carries the filter on as it is.
        let visible: String = page
            .html
            .split("<input type=\"hidden\"")
            .map(|part| part.split_once('>').map_or(part, |(_, rest)| rest))
            .collect();
        for character in legibility::hidden_characters(text) {
            let hidden = text.chars().nth(character.position).unwrap();
            assert!(!['\u{202e}', '\u{200b}'].contains(&hidden) || !visible.contains(hidden), "{text:?}");
        }
        if text.chars().count() <= 200 {
            // Some of the strings are there twice.
            assert!(!listed(&page).is_empty(), "{text:?} is found by its name: {query}");
        }
    }
}
