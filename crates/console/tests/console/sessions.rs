//! Sessions: how they begin, last and end.

use std::sync::atomic::Ordering;

use http::{Method, StatusCode};
use servanda_authn::keys;
use servanda_console::SESSIONS_PER_PERSON_MAX;
use servanda_contract::time::Clock as _;
use servanda_effects::{NoteKind, Notebook as _};

use crate::{
    browser::Browser,
    fixture::{Gateway, Users, Wanted},
};

async fn session_notes(gateway: &Gateway) -> Vec<String> {
    let notes = gateway.notebook.list(NoteKind::ConsoleSession, "", 10_000, gateway.clock.now()).await.unwrap();
    notes.into_iter().map(|note| note.key).filter(|key| key.split('.').count() == 2).collect()
}

#[tokio::test]
async fn without_a_session_only_the_page_of_ways_to_sign_in_is_seen() {
    let gateway = Gateway::new(Users::One);
    let ticket = gateway.open(Wanted { tenant: "local", principal: "local".to_owned(), ..Wanted::default() }).await;
    let mut browser = Browser::new(&gateway);
    let path = format!("/approvals/{}", ticket.id);
    for page in ["/approvals", "/approvals?state=all", path.as_str(), "/approvals/review?ticket=a:b"] {
        let answer = browser.get(page).await;
        assert_eq!(answer.status, StatusCode::SEE_OTHER, "{page}");
        assert!(answer.location().starts_with("/sign-in"), "{page}");
        assert!(!answer.html.contains("inv_1007"));
    }
    assert_eq!(browser.get("/approvals/events").await.status, StatusCode::UNAUTHORIZED, "a script is not led anywhere");
    assert_eq!(
        browser.get(&path).await.location(),
        format!("/sign-in?next=%2Fapprovals%2F{}", ticket.id.as_str().replace('_', "%5F"))
    );
    let payload = ticket.subject.payload.to_string();
    for fields in [&[][..], &[("verdict", "approve"), ("payload", &payload), ("form_token", "")]] {
        let answer = browser.post(&path, fields).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
    }
    assert_eq!(gateway.ticket(&ticket.id).await.decisions.len(), 0);
}

#[tokio::test]
async fn a_one_time_link_opens_one_session_of_fifty_attempts() {
    let gateway = Gateway::new(Users::One);
    let path = gateway.links.issue().unwrap().path();
    let mut looking = Browser::new(&gateway);
    for _ in 0..3 {
        let page = looking.get(&path).await;
        assert!(page.status == StatusCode::OK && page.html.contains("Sign in</button>"), "looking uses nothing up");
    }
    let attempts = (0..50).map(|_| {
        let (mut browser, path) = (Browser::new(&gateway), path.clone());
        tokio::spawn(async move { (browser.post(&path, &[]).await.status, browser.cookie.is_some()) })
    });
    let attempts: Vec<_> = attempts.collect();
    let mut opened = 0;
    for attempt in attempts {
        match attempt.await.unwrap() {
            (StatusCode::SEE_OTHER, true) => opened += 1,
            (StatusCode::NOT_FOUND, false) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((opened, session_notes(&gateway).await.len()), (1, 1));
    let again = looking.get(&path).await;
    assert!(again.html.contains("Start the gateway again to get another link."), "it says how to get another one");
    let wrong = looking.post("/sign-in/guess", &[]).await;
    assert_eq!(wrong.wrong_credential.as_deref(), Some("the one-time link is wrong, used or too old"));
}

#[tokio::test]
async fn a_link_is_no_way_in_where_people_have_keys() {
    let gateway = Gateway::new(Users::Many);
    let path = gateway.links.issue().unwrap().path();
    let mut browser = Browser::new(&gateway);
    assert_eq!(browser.post(&path, &[]).await.status, StatusCode::NOT_FOUND);
    assert!(browser.cookie.is_none());
}

#[tokio::test]
async fn a_cookie_that_the_client_chose_is_never_a_session() {
    let gateway = Gateway::new(Users::One);
    let chosen = format!("__Host-servanda={}.{}", "0".repeat(16), "A".repeat(43));
    let mut browser = Browser::new(&gateway);
    browser.cookie = Some(chosen.clone());
    let path = gateway.links.issue().unwrap().path();
    assert_eq!(browser.post(&path, &[]).await.status, StatusCode::SEE_OTHER);
    assert_ne!(browser.cookie.as_ref(), Some(&chosen), "signing in gives another cookie");
    let mut other = Browser::new(&gateway);
    other.cookie = Some(chosen);
    assert_eq!(other.get("/approvals").await.status, StatusCode::SEE_OTHER);
    // Nor is a session of another name, or two at once.
    let cookie = browser.cookie.clone().unwrap();
    for wrong in [cookie.replace("__Host-servanda", "servanda"), format!("{cookie}; {cookie}")] {
        other.cookie = Some(wrong);
        assert_eq!(other.get("/approvals").await.status, StatusCode::SEE_OTHER);
    }
    other.cookie = Some(cookie);
    assert_eq!(other.get("/approvals").await.status, StatusCode::OK);
}

#[tokio::test]
async fn signing_in_again_ends_the_session_before() {
    let gateway = Gateway::new(Users::One);
    let mut browser = Browser::single_user(&gateway).await;
    let mut before = browser.clone();
    browser.post(&gateway.links.issue().unwrap().path(), &[]).await;
    assert_ne!(browser.cookie, before.cookie);
    assert_eq!(browser.get("/approvals").await.status, StatusCode::OK);
    assert_eq!(before.get("/approvals").await.status, StatusCode::SEE_OTHER);
    assert_eq!(session_notes(&gateway).await.len(), 1);
}

#[tokio::test]
async fn a_session_ends_at_sign_out_and_after_its_time() {
    let gateway = Gateway::new(Users::One);
    let mut browser = Browser::single_user(&gateway).await;
    let mut copy = browser.clone();
    let form = browser.get("/approvals").await.forms().into_iter().find(|form| form.action == "/sign-out").unwrap();
    let wrong = browser.post("/sign-out", &[("form_token", "AAAA")]).await;
    assert_eq!(wrong.status, StatusCode::FORBIDDEN);
    assert_eq!(browser.submit(&form, &[]).await.status, StatusCode::SEE_OTHER);
    assert!(browser.cookie.is_none());
    assert_eq!(copy.get("/approvals").await.status, StatusCode::SEE_OTHER, "a copy of the cookie opens nothing");
    assert!(session_notes(&gateway).await.is_empty());

    let mut idle = Browser::single_user(&gateway).await;
    gateway.clock.pass_ms(59 * 60_000);
    assert_eq!(idle.get("/approvals").await.status, StatusCode::OK);
    gateway.clock.pass_ms(59 * 60_000);
    assert_eq!(idle.get("/approvals").await.status, StatusCode::OK, "being used keeps it");
    gateway.clock.pass_ms(60 * 60_000);
    assert_eq!(idle.get("/approvals").await.status, StatusCode::SEE_OTHER, "an hour without use");

    let mut busy = Browser::single_user(&gateway).await;
    for _ in 0..24 {
        assert_eq!(busy.get("/approvals").await.status, StatusCode::OK);
        gateway.clock.pass_ms(30 * 60_000);
    }
    assert_eq!(busy.get("/approvals").await.status, StatusCode::SEE_OTHER, "twelve hours however often it is used");
}

#[tokio::test]
async fn news_do_not_keep_a_session_in_use() {
    let gateway = Gateway::new(Users::One);
    let mut browser = Browser::single_user(&gateway).await;
    for _ in 0..3 {
        gateway.clock.pass_ms(25 * 60_000);
        browser.send(Method::GET, "/approvals/events", &[("sec-fetch-site", "same-origin")], String::new()).await;
    }
    assert_eq!(browser.get("/approvals").await.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn a_person_has_a_bounded_number_of_sessions() {
    let gateway = Gateway::new(Users::One);
    let mut first = Browser::single_user(&gateway).await;
    for _ in 0..SESSIONS_PER_PERSON_MAX {
        gateway.clock.pass_ms(10);
        Browser::single_user(&gateway).await;
    }
    assert_eq!(session_notes(&gateway).await.len(), SESSIONS_PER_PERSON_MAX);
    assert_eq!(first.get("/approvals").await.status, StatusCode::SEE_OTHER, "the oldest ended");
}

#[tokio::test]
async fn the_store_has_no_token() {
    let gateway = Gateway::new(Users::One);
    let browser = Browser::single_user(&gateway).await;
    let cookie = browser.cookie.unwrap();
    let secret = cookie.rsplit('.').next().unwrap();
    let notes = gateway.notebook.list(NoteKind::ConsoleSession, "", 100, gateway.clock.now()).await.unwrap();
    assert_eq!(notes.len(), 2);
    for note in notes {
        assert!(!note.key.contains(secret) && !note.value.contains(secret), "{note:?}");
    }
}

#[tokio::test]
async fn a_revoked_key_ends_its_sessions() {
    let gateway = Gateway::new(Users::Many);
    let (id, key) = gateway.key("ben", &[], &["servanda:console"]).await;
    let mut browser = Browser::new(&gateway);
    browser.post("/sign-in", &[("key", &key)]).await;
    assert_eq!(browser.get("/approvals").await.status, StatusCode::OK);
    keys::revoke(gateway.notebook.as_ref(), &id, "root", gateway.clock.now()).await.unwrap();
    assert_eq!(browser.get("/approvals").await.status, StatusCode::SEE_OTHER);
    let refused = browser.post("/sign-in", &[("key", &key)]).await;
    assert!(
        refused.status == StatusCode::FORBIDDEN && refused.html.contains("The key was revoked."),
        "{}",
        refused.html
    );
}

#[tokio::test]
async fn a_change_of_how_people_sign_in_ends_sessions_of_the_other_way() {
    let gateway = Gateway::new(Users::One);
    let mut browser = Browser::single_user(&gateway).await;
    assert_eq!(browser.get("/approvals").await.status, StatusCode::OK);
    gateway.authenticator.replace(servanda_authn::AuthnSettings::Required(Box::new(
        servanda_authn::RequiredAuthnSettings {
            resource: "http://127.0.0.1/mcp".to_owned(),
            keys: true,
            issuers: Vec::new(),
            provider: None,
            scopes_supported: std::collections::BTreeSet::new(),
            scopes_first: std::collections::BTreeSet::new(),
        },
    )));
    assert_eq!(browser.get("/approvals").await.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn a_store_that_is_away_is_said_in_words_and_decides_nothing() {
    let gateway = Gateway::new(Users::One);
    let mut browser = Browser::single_user(&gateway).await;
    gateway.notebook.is_away.store(true, Ordering::SeqCst);
    let page = browser.get("/approvals").await;
    assert_eq!(page.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(page.html.contains("The store does not answer") && page.html.contains("nothing is approved by that"));
    gateway.notebook.is_away.store(false, Ordering::SeqCst);
    assert_eq!(browser.get("/approvals").await.status, StatusCode::OK, "the session is still there");
}
