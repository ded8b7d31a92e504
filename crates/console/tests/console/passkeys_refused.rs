//! Passkeys that are wrong in one way. What is tried each time is right in every other way, and works in the end.

use http::StatusCode;
use servanda_approval::{ApprovalVerdict, passkey_decision_challenge};
use servanda_authn::passkeys;
use servanda_contract::time::Clock as _;

use crate::{
    browser::{Browser, FoundForm, Page},
    fixture::{Gateway, Users, Wanted},
    passkeys::{demanding, register, registration, signed_in, use_passkey},
    soft_passkey::SoftPasskey,
};

type Change = fn(&mut SoftPasskey);

/// What a browser or an authenticator may say wrongly, and what the person is told.
const WRONG: [(Change, &str); 4] = [
    (|passkey| passkey.flags = 0x01, "did not verify the person"),
    (|passkey| passkey.flags = 0x04, "a person was present"),
    (|passkey| "http://servanda.localhost:9999".clone_into(&mut passkey.origin), "another origin"),
    (|passkey| passkey.rp_id = Some("localhost".to_owned()), "another site"),
];

async fn count(gateway: &Gateway) -> usize {
    passkeys::list(gateway.notebook.as_ref(), gateway.clock.now()).await.unwrap().len()
}

#[track_caller]
fn assert_refused(page: &Page, said: &str) {
    assert!(page.status == StatusCode::FORBIDDEN && page.html.contains(said), "{said}: {} {}", page.status, page.html);
}

#[tokio::test]
async fn registrations_that_are_wrong_in_one_way() {
    let gateway = Gateway::new(Users::Many);
    let (mut ben, _) = signed_in(&gateway, "ben").await;
    for (change, said) in WRONG {
        let form = ben.get("/passkeys").await.form_to("/passkeys");
        let mut passkey = SoftPasskey::new(1);
        change(&mut passkey);
        assert_refused(&ben.submit(&registration(&form, &mut passkey, None), &[]).await, said);
    }
    let form = ben.get("/passkeys").await.form_to("/passkeys");
    let right = registration(&form, &mut SoftPasskey::new(1), None);
    let (mut cleo, _) = signed_in(&gateway, "cleo").await;
    let cleos = cleo.get("/passkeys").await.form_to("/passkeys");
    let sign_in = ben.get("/sign-in").await.form_to("/sign-in/passkey");
    let ends = form.value("challenge").split_once('.').unwrap();
    let later = format!("{}.{}", ends.0.parse::<u64>().unwrap() + 600_000, ends.1);
    for (wrong, said) in [
        (form.with(&[("name", "x")]), "sent no answer"),
        (right.with(&[("registration", "{}")]), "sent no answer"),
        (right.with(&[("challenge", "")]), "belongs to another session"),
        (right.with(&[("challenge", &later)]), "belongs to another session"),
        // Challenges of another session and of another purpose, answered rightly.
        (right.with(&[("challenge", cleos.value("challenge"))]), "another challenge"),
        (
            FoundForm { asked: cleos.asked.clone(), ..form.clone() }
                .with(&[("registration", &SoftPasskey::new(1).create(&cleos.asked["registration"]))])
                .with(&[("challenge", cleos.value("challenge")), ("name", "x")]),
            "another challenge",
        ),
        (
            {
                let mut asked = form.asked["registration"].clone();
                asked["challenge"] = sign_in.asked["assertion"]["challenge"].clone();
                let answer = SoftPasskey::new(1).create(&asked);
                right.with(&[("challenge", sign_in.value("challenge")), ("registration", &answer)])
            },
            "another challenge",
        ),
    ] {
        assert_refused(&ben.submit(&wrong, &[]).await, said);
    }
    for name in ["", "  ", &"x".repeat(65), "a\nb"] {
        assert_eq!(ben.submit(&right.with(&[("name", name)]), &[]).await.status, StatusCode::BAD_REQUEST, "{name}");
    }
    assert_eq!(ben.submit(&right.with(&[("form_token", "AAAA")]), &[]).await.status, StatusCode::FORBIDDEN);
    assert_eq!(count(&gateway).await, 0);
    assert_eq!(ben.submit(&right, &[]).await.status, StatusCode::SEE_OTHER);
    // The same answer again, and one that comes too late.
    assert_ne!(ben.submit(&right, &[]).await.status, StatusCode::SEE_OTHER);
    let form = cleo.get("/passkeys").await.form_to("/passkeys");
    let late = registration(&form, &mut SoftPasskey::new(2), None);
    gateway.clock.pass_ms(5 * 60_000);
    assert_ne!(cleo.submit(&late, &[]).await.status, StatusCode::SEE_OTHER);
    assert_eq!(count(&gateway).await, 1);
}

/// An agent that holds a person's session, and no passkey, gets none and takes none away.
#[tokio::test]
async fn t31_a_session_alone_makes_and_removes_no_passkey() {
    let gateway = Gateway::new(Users::Many);
    let ((mut ben, _), mut own) = (signed_in(&gateway, "ben").await, SoftPasskey::new(1));
    let early = ben.get("/passkeys").await.form_to("/passkeys");
    gateway.clock.pass_ms(4 * 60_000);
    let form = ben.get("/passkeys").await.form_to("/passkeys");
    gateway.clock.pass_ms(2 * 60_000);
    let page = ben.get("/passkeys").await;
    assert!(page.html.contains("Sign in again to change your passkeys"), "{}", page.html);
    assert_refused(&ben.submit(&registration(&form, &mut own, None), &[]).await, "Sign in again to change");
    assert_refused(&ben.submit(&registration(&early, &mut own, None), &[]).await, "Sign in again to change");
    assert_eq!(count(&gateway).await, 0);

    let (mut ben, _) = signed_in(&gateway, "ben").await;
    register(&mut ben, &mut own, None).await;
    // The session and a passkey of the agent's own.
    let mut agents = SoftPasskey::new(2);
    let form = ben.get("/passkeys").await.form_to("/passkeys");
    assert_refused(&ben.submit(&registration(&form, &mut agents, None), &[]).await, "sent no answer");
    let mut copy = SoftPasskey::new(3);
    copy.handle.clone_from(&own.handle);
    assert_refused(&ben.submit(&registration(&form, &mut agents, Some(&mut copy)), &[]).await, "not registered here");
    copy.id.clone_from(&own.id);
    let forged = registration(&form, &mut agents, Some(&mut copy));
    assert_refused(&ben.submit(&forged, &[]).await, "not by this passkey");
    // What the passkey signed for something else.
    let removal = ben.get("/passkeys").await.form_to("/passkeys/remove");
    let for_removal = own.get(&removal.asked["assertion"]);
    let other = registration(&form, &mut agents, None)
        .with(&[("agreement", &for_removal), ("agreement_challenge", removal.value("challenge"))]);
    assert_refused(&ben.submit(&other, &[]).await, "another challenge");
    assert_refused(&ben.submit(&removal, &[]).await, "sent no answer");
    let answered = removal.with(&[("assertion", &for_removal)]);
    assert_refused(&ben.submit(&answered.with(&[("form_token", "AAAA")]), &[]).await, "from another session");
    assert_refused(
        &ben.submit(&removal.with(&[("assertion", &copy.get(&removal.asked["assertion"]))]), &[]).await,
        "not by",
    );
    let elsewhere = removal.with(&[("passkey", "passkey:00000000000000000000000000000000")]);
    assert_refused(&ben.submit(&elsewhere, &[]).await, "not registered here");
    gateway.clock.pass_ms(6 * 60_000);
    let stale = removal.with(&[("assertion", &own.get(&removal.asked["assertion"]))]);
    assert_refused(&ben.submit(&stale, &[]).await, "Sign in again to change");
    assert_eq!(count(&gateway).await, 1);
    let (mut ben, _) = signed_in(&gateway, "ben").await;
    register(&mut ben, &mut agents, Some(&mut own)).await;
}

#[tokio::test]
async fn t31_without_authentication_only_a_session_of_a_link_registers() {
    let gateway = Gateway::new(Users::One);
    let (mut browser, mut passkey) = (Browser::at_own_name(&gateway), SoftPasskey::new(1));
    browser.post(&gateway.links.issue().unwrap().path(), &[]).await;
    register(&mut browser, &mut passkey, None).await;
    let form = browser.get("/passkeys").await.form_to("/passkeys");
    let mut by_passkey = Browser::at_own_name(&gateway);
    use_passkey(&mut by_passkey, &mut passkey).await;
    let page = by_passkey.get("/passkeys").await;
    assert!(page.html.contains("in a session of a one-time link"), "{}", page.html);
    let token = page.forms().into_iter().find(|form| form.action == "/passkeys/remove").unwrap();
    let forged = registration(&form, &mut SoftPasskey::new(2), Some(&mut passkey))
        .with(&[("form_token", token.value("form_token"))]);
    assert_eq!(by_passkey.submit(&forged, &[]).await.status, StatusCode::FORBIDDEN);
    assert_eq!(count(&gateway).await, 1);
}

#[tokio::test]
async fn sign_ins_that_are_wrong_in_one_way() {
    let gateway = Gateway::new(Users::Many);
    let ((mut ben, _), mut passkey) = (signed_in(&gateway, "ben").await, SoftPasskey::new(1));
    register(&mut ben, &mut passkey, None).await;
    let ((mut cleo, _), mut cleos) = (signed_in(&gateway, "cleo").await, SoftPasskey::new(2));
    register(&mut cleo, &mut cleos, None).await;
    let handle = passkey.handle.clone();
    let sign_in = async |passkey: &mut SoftPasskey| {
        let mut browser = Browser::at_own_name(&gateway);
        let page = use_passkey(&mut browser, passkey).await;
        assert!(page.status == StatusCode::SEE_OTHER || browser.cookie.is_none());
        page
    };
    for (change, said) in WRONG {
        let mut wrong = SoftPasskey::new(1);
        (wrong.handle, wrong.count) = (handle.clone(), passkey.count);
        change(&mut wrong);
        let page = sign_in(&mut wrong).await;
        assert_refused(&page, said);
        assert!(page.wrong_credential.is_some());
    }
    let mut stranger = SoftPasskey::new(3);
    assert_refused(&sign_in(&mut stranger).await, "sent no answer");
    for (id, handle, said) in [
        (passkey.id.clone(), "x".to_owned(), "not registered here"),
        (passkey.id.clone(), handle.clone().unwrap(), "not by this passkey"),
        (stranger.id.clone(), handle.clone().unwrap(), "not registered here"),
        // Somebody else's passkey under this person's handle.
        (cleos.id.clone(), handle.clone().unwrap(), "not registered here"),
    ] {
        (stranger.id, stranger.handle) = (id, Some(handle));
        assert_refused(&sign_in(&mut stranger).await, said);
    }
    let mut browser = Browser::at_own_name(&gateway);
    let form = browser.get("/sign-in").await.form_to("/sign-in/passkey");
    let right = form.with(&[("assertion", &passkey.get(&form.asked["assertion"]))]);
    let other = browser.get("/sign-in").await.form_to("/sign-in/passkey");
    assert_refused(
        &browser.submit(&right.with(&[("challenge", other.value("challenge"))]), &[]).await,
        "another challenge",
    );
    let headers = [("sec-fetch-site", "cross-site"), ("origin", "https://evil.example")];
    let fields: Vec<(&str, &str)> = right.fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(browser.post_with("/sign-in/passkey", &fields, &headers).await.status, StatusCode::FORBIDDEN);
    assert_eq!(browser.submit(&right, &[]).await.status, StatusCode::SEE_OTHER);
    assert_refused(&Browser::at_own_name(&gateway).submit(&right, &[]).await, "counter did not grow");
    // A counter that goes back, and then one that grows.
    passkey.count = 0;
    assert_refused(&sign_in(&mut passkey).await, "counter did not grow");
    passkey.count = 40;
    assert_eq!(sign_in(&mut passkey).await.status, StatusCode::SEE_OTHER);
    passkey.count = 20;
    assert_refused(&sign_in(&mut passkey).await, "counter did not grow");
    passkey.count = 41;
    let late = browser.get("/sign-in").await.form_to("/sign-in/passkey");
    let late = late.with(&[("assertion", &passkey.get(&late.asked["assertion"]))]);
    gateway.clock.pass_ms(5 * 60_000);
    assert_refused(&browser.submit(&late, &[]).await, "open for too long");
}

/// An authenticator without a counter says zero each time; then the challenge alone stops a repetition.
#[tokio::test]
async fn an_answer_opens_one_session_of_twenty_attempts() {
    let gateway = Gateway::new(Users::Many);
    let ((mut ben, _), mut passkey) = (signed_in(&gateway, "ben").await, SoftPasskey::new(1));
    register(&mut ben, &mut passkey, None).await;
    for has_counter in [false, true] {
        let form = ben.get("/sign-in").await.form_to("/sign-in/passkey");
        let asked = &form.asked["assertion"];
        let answer = if has_counter { passkey.get(asked) } else { passkey.get_without_counter(asked) };
        let form = form.with(&[("assertion", &answer)]);
        let attempts: Vec<_> = (0..20)
            .map(|_| {
                let (mut browser, form) = (Browser::at_own_name(&gateway), form.clone());
                tokio::spawn(async move { browser.submit(&form, &[]).await.status })
            })
            .collect();
        let mut opened = 0;
        for attempt in attempts {
            opened += usize::from(attempt.await.unwrap() == StatusCode::SEE_OTHER);
        }
        assert_eq!(opened, 1, "has a counter: {has_counter}");
    }
}

#[tokio::test]
async fn decisions_that_are_wrong_in_one_way() {
    let gateway = Gateway::new(Users::Many);
    let ticket = gateway.open(demanding()).await;
    let other = gateway.open(Wanted { arguments: serde_json::json!({}), ..demanding() }).await;
    let path = format!("/approvals/{}", ticket.id);
    let ((mut ben, _), mut passkey) = (signed_in(&gateway, "ben").await, SoftPasskey::new(1));
    register(&mut ben, &mut passkey, None).await;
    let ((mut cleo, _), mut cleos) = (signed_in(&gateway, "cleo").await, SoftPasskey::new(2));
    register(&mut cleo, &mut cleos, None).await;
    let form = ben.get(&path).await.form("approve");
    for (change, said) in WRONG {
        let mut wrong = SoftPasskey::new(1);
        wrong.count = passkey.count;
        change(&mut wrong);
        let answer = wrong.get(&form.asked["assertion"]);
        assert_refused(&ben.submit(&form.with(&[("assertion", &answer)]), &[]).await, said);
    }
    // Right signatures by ben's passkey for something else.
    let payload = ticket.subject.payload;
    let approve = ApprovalVerdict::Approve;
    let challenges = [
        passkey_decision_challenge(&ticket.id, &payload, ApprovalVerdict::Deny, ("acme", "ben")),
        passkey_decision_challenge(&other.id, &payload, approve, ("acme", "ben")),
        passkey_decision_challenge(&ticket.id, &other.subject.payload, approve, ("acme", "ben")),
        passkey_decision_challenge(&ticket.id, &payload, approve, ("acme", "cleo")),
        passkey_decision_challenge(&ticket.id, &payload, approve, ("globex", "ben")),
    ];
    for challenge in challenges {
        let asked = serde_json::json!({
            "rpId": "servanda.localhost",
            "challenge": base64::Engine::encode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, challenge.as_bytes()),
        });
        let answer = passkey.get(&asked);
        assert_refused(&ben.submit(&form.with(&[("assertion", &answer)]), &[]).await, "another challenge");
    }
    // Another person's passkey, and a counter that goes back.
    let answer = cleos.get(&form.asked["assertion"]);
    assert_refused(&ben.submit(&form.with(&[("assertion", &answer)]), &[]).await, "not registered here");
    let sign_in = Browser::at_own_name(&gateway).get("/sign-in").await.form_to("/sign-in/passkey");
    let sign_in = sign_in.with(&[("assertion", &passkey.get(&sign_in.asked["assertion"]))]);
    let latest = passkey.count;
    assert_eq!(Browser::at_own_name(&gateway).submit(&sign_in, &[]).await.status, StatusCode::SEE_OTHER);
    passkey.count = latest - 1;
    let answer = passkey.get(&form.asked["assertion"]);
    assert_refused(&ben.submit(&form.with(&[("assertion", &answer)]), &[]).await, "counter did not grow");
    for answer in ["", "{}", "null"] {
        assert_refused(&ben.submit(&form.with(&[("assertion", answer)]), &[]).await, "sent no answer");
    }
    // Nor does a form without any answer decide: not here, and not with others.
    let fields: Vec<(String, String)> = form.fields.iter().filter(|(name, _)| name != "assertion").cloned().collect();
    assert_eq!(ben.submit(&FoundForm { fields, ..form.clone() }, &[]).await.status, StatusCode::FORBIDDEN);
    let review = ben.get(&format!("/approvals/review?ticket={}:{payload}", ticket.id)).await;
    assert!(!review.has_form("approve"), "{}", review.html);
    assert!(gateway.ticket(&ticket.id).await.decisions.is_empty());
    // At an address where there are no passkeys, the form decides nothing either.
    let answer = passkey.get(&form.asked["assertion"]);
    let right = form.with(&[("assertion", &answer)]);
    let mut at_number = ben.clone();
    at_number.host = crate::browser::HOST;
    assert_eq!(at_number.submit(&right, &[]).await.status, StatusCode::FORBIDDEN);
    assert!(at_number.get("/passkeys").await.html.contains("There are no passkeys at this address"));
    let decided = ben.submit(&right, &[]).await;
    assert_eq!(decided.status, StatusCode::SEE_OTHER, "{}", decided.html);
    assert_eq!(gateway.ticket(&ticket.id).await.decisions.len(), 1);
}
