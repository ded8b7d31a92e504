//! The overview: its numbers, its plots beside tables, its times, and who sees it.

use http::StatusCode;
use servanda_contract::{
    GateName, Refusal, TaxonomyClass, Timestamp,
    cost::{Cost, Price},
    record::Outcome,
};

use crate::{
    browser::Browser,
    fixture::{Gateway, Users, Wanted},
};

#[tokio::test]
async fn numbers_are_those_of_the_tenant_and_the_time() {
    let gateway = Gateway::new(Users::Many);
    let mut vera = Browser::with_key(&gateway, "vera", &[]).await;
    let page = vera.get("/").await;
    assert!(
        page.html.contains("No call has ended in this time.") && page.html.contains("servanda connect"),
        "{}",
        page.html
    );
    assert!(page.html.contains("Nothing waits for a person."));
    gateway.open(Wanted::default()).await;
    for _ in 0..7 {
        gateway
            .record("acme", "ada", |record| {
                let cost = Cost { external_api_micros: 250_000, ..Cost::default() };
                record.price = Some(Box::new(Price { currency: "<EUR>".to_owned(), cost }));
            })
            .await;
        gateway.record("globex", "gus", |_| {}).await;
    }
    for _ in 0..3 {
        gateway
            .record("acme", "ada", |record| {
                let class = TaxonomyClass::PolicyViolation;
                let (id, no) = (record.call_id.clone(), "no".to_owned());
                record.refusal = Some(Refusal::new(id, GateName::Policy, class, no.clone(), no));
                (record.outcome, record.class, record.dispatched_at) = (Outcome::Refused, Some(class), None);
            })
            .await;
    }
    // Two days ago.
    let old_ms = gateway.clock_ms() - 2 * 86_400_000;
    gateway.record("acme", "ada", |record| record.received_at = Timestamp::from_unix_ms(old_ms)).await;
    for (query, total, completed) in
        [("", 10, 7), ("?within=1h", 10, 7), ("?within=24h", 10, 7), ("?within=7d", 11, 8), ("?within=1y", 10, 7)]
    {
        let page = vera.get(&format!("/{query}")).await;
        assert_eq!(page.status, StatusCode::OK);
        let word = query.strip_prefix("?within=").filter(|word| *word != "1y").unwrap_or("24h");
        for shown in [
            format!("<a href=\"/calls?within={word}\">{total}</a>"),
            format!("<a href=\"/calls?outcome=completed&#38;within={word}\">completed</a>"),
            format!("<a href=\"/calls?outcome=refused&#38;within={word}\">refused</a>"),
            format!("<a href=\"/calls?gate=policy&#38;within={word}\">policy</a>"),
            format!("<td class=\"number\">{completed}</td>"),
            "<td class=\"number\">3</td>".to_owned(),
            "<a href=\"/approvals\">1</a>".to_owned(),
            "1.75".to_owned(),
            "&#60;EUR&#62;".to_owned(),
            "p99".to_owned(),
        ] {
            assert!(page.html.contains(&shown), "{query}: {shown}: {}", page.html);
        }
        assert_eq!(page.html.matches("role=\"img\"").count(), 3, "outcomes, durations and spend are plotted");
        assert_eq!(page.html.matches("<summary>As numbers").count(), 3, "each with its numbers");
    }
}

#[tokio::test]
async fn a_person_without_a_role_gets_no_counts_of_the_tenant() {
    let gateway = Gateway::new(Users::Many);
    gateway.record("acme", "ada", |_| {}).await;
    gateway.open(Wanted::default()).await;
    let mut otto = Browser::with_key(&gateway, "otto", &[]).await;
    let page = otto.get("/").await;
    assert!(page.html.contains("for people with a role"), "{}", page.html);
    assert!(!page.html.contains("<svg") && !page.html.contains("class=\"figure\""), "{}", page.html);
    let mut nobody = Browser::new(&gateway);
    assert_eq!(nobody.get("/").await.location(), "/sign-in");
}

#[tokio::test]
async fn one_person_sees_everything() {
    let gateway = Gateway::new(Users::One);
    gateway.record("local", "local", |_| {}).await;
    let mut person = Browser::single_user(&gateway).await;
    let page = person.get("/?within=1h").await;
    assert!(page.html.contains("<a href=\"/calls?within=1h\">1</a>"), "{}", page.html);
    assert!(page.html.contains("aria-current=\"page\">Overview"), "{}", page.html);
}
