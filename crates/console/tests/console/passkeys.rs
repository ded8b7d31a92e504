//! Passkeys as they are meant: registering, signing in, deciding, and what an outsider can check afterwards.

use http::StatusCode;
use servanda_approval::{KnownPasskey, KnownPasskeyFault, TicketState, Warrant};
use servanda_authn::{keys, passkeys};
use servanda_contract::{
    time::Clock as _,
    tool::{ApprovalPattern, Presence},
};
use servanda_effects::{NoteKind, Notebook as _};

use crate::{
    browser::{Browser, FoundForm, Page},
    fixture::{Gateway, Users, Wanted},
    soft_passkey::SoftPasskey,
};

/// A person's browser under the console's own name, signed in with a key, and the key's id.
pub(crate) async fn signed_in(gateway: &Gateway, person: &str) -> (Browser, String) {
    let (id, key) = gateway.key(person, &[], &["servanda:console"]).await;
    let mut browser = Browser::at_own_name(gateway);
    let page = browser.post("/sign-in", &[("key", &key)]).await;
    assert_eq!(page.status, StatusCode::SEE_OTHER);
    (browser, id)
}

/// The form that registers a passkey, with the answers of one; `agreeing` is one that the person has already.
pub(crate) fn registration(
    form: &FoundForm,
    passkey: &mut SoftPasskey,
    agreeing: Option<&mut SoftPasskey>,
) -> FoundForm {
    let mut form = form.with(&[("name", "blue key"), ("registration", &passkey.create(&form.asked["registration"]))]);
    if let Some(agreeing) = agreeing {
        form = form.with(&[("agreement", &agreeing.get(&form.asked["agreement"]))]);
    }
    form
}

pub(crate) async fn register(browser: &mut Browser, passkey: &mut SoftPasskey, agreeing: Option<&mut SoftPasskey>) {
    let form = browser.get("/passkeys").await.form_to("/passkeys");
    let page = browser.submit(&registration(&form, passkey, agreeing), &[]).await;
    assert_eq!((page.status, page.location()), (StatusCode::SEE_OTHER, "/passkeys"), "{}", page.html);
}

/// Signs a browser in with a passkey.
pub(crate) async fn use_passkey(browser: &mut Browser, passkey: &mut SoftPasskey) -> Page {
    let form = browser.get("/sign-in").await.form_to("/sign-in/passkey");
    let form = form.with(&[("assertion", &passkey.get(&form.asked["assertion"]))]);
    browser.submit(&form, &[]).await
}

pub(crate) fn demanding() -> Wanted {
    Wanted { presence: Presence::Passkey, ..Wanted::default() }
}

#[tokio::test]
async fn a_person_registers_signs_in_and_decides_with_a_passkey() {
    let gateway = Gateway::new(Users::Many);
    let ticket = gateway.open(demanding()).await;
    let path = format!("/approvals/{}", ticket.id);
    let ((mut ben, _), mut passkey) = (signed_in(&gateway, "ben").await, SoftPasskey::new(1));
    let page = ben.get(&path).await;
    assert!(page.html.contains("This ticket needs a passkey") && page.html.contains("href=\"/passkeys\""));
    register(&mut ben, &mut passkey, None).await;
    let listed = ben.get("/passkeys").await.html;
    assert!(listed.contains("blue key") && listed.contains(&passkey.public_key()), "{listed}");

    let mut again = Browser::at_own_name(&gateway);
    assert_eq!(use_passkey(&mut again, &mut passkey).await.location(), "/approvals");
    let page = again.get(&path).await;
    assert!(page.html.contains("Approve this call with your passkey") && page.html.contains("needs JavaScript"));
    let form = page.form("approve");
    let without = again.submit(&form, &[]).await;
    assert_eq!(without.status, StatusCode::FORBIDDEN, "the form without an answer");
    let form = form.with(&[("assertion", &passkey.get(&form.asked["assertion"]))]);
    let decided = again.submit(&form, &[]).await;
    assert_eq!(decided.status, StatusCode::SEE_OTHER, "{}", decided.html);

    let decided = gateway.ticket(&ticket.id).await;
    assert_eq!(decided.state, TicketState::Approved);
    let decision = &decided.decisions[0].decision;
    assert_eq!((decision.approver.as_str(), decision.presence), ("ben", Presence::Passkey));
    assert!(decision.credential.starts_with("console:passkey:"), "{}", decision.credential);

    // Outside: the warrant, the gateway's public key, and the public key that ben gave.
    let keys = gateway.engine.approvals().keys();
    let warrant = Warrant::issue(&decided, &keys.signing_key().await.unwrap()).unwrap().unwrap();
    let claims = warrant.check(&keys.public_keys().await.unwrap()).unwrap();
    let published = |who: &str, key: String| KnownPasskey::read(&format!("{who}={key}")).unwrap();
    assert_eq!(claims.check_passkeys(&[published("acme/ben", passkey.public_key())]), Ok(()));
    let other = claims.check_passkeys(&[published("ben", SoftPasskey::new(2).public_key())]);
    assert_eq!(other, Err(KnownPasskeyFault::OtherPasskey("ben".to_owned())));
}

#[tokio::test]
async fn a_denial_is_signed_too_and_a_passkey_may_sign_what_needs_none() {
    let gateway = Gateway::new(Users::Many);
    let ((mut ben, _), mut passkey) = (signed_in(&gateway, "ben").await, SoftPasskey::new(1));
    register(&mut ben, &mut passkey, None).await;
    let denied = gateway.open(demanding()).await;
    let form = ben.get(&format!("/approvals/{}", denied.id)).await.form("deny");
    let form = form.with(&[("assertion", &passkey.get(&form.asked["assertion"])), ("reason", "no")]);
    assert_eq!(ben.submit(&form, &[]).await.status, StatusCode::SEE_OTHER);
    let denied = gateway.ticket(&denied.id).await;
    assert_eq!((denied.state, denied.decisions[0].decision.presence), (TicketState::Denied, Presence::Passkey));

    let plain = gateway.open(Wanted { arguments: serde_json::json!({}), ..Wanted::default() }).await;
    let page = ben.get(&format!("/approvals/{}", plain.id)).await;
    assert!(page.html.contains("Approve this call</button>"), "it can be approved without one: {}", page.html);
    let form = page.forms().into_iter().find(|form| form.asked.contains_key("assertion")).unwrap();
    let form = form.with(&[("assertion", &passkey.get(&form.asked["assertion"]))]);
    assert_eq!(ben.submit(&form, &[]).await.status, StatusCode::SEE_OTHER);
    let signed = &gateway.ticket(&plain.id).await.decisions[0];
    assert_eq!(signed.decision.presence, Presence::Passkey);
    assert_eq!(signed.passkey.as_ref().unwrap().public_key, passkey.public_key());
}

#[tokio::test]
async fn one_person_without_keys_registers_after_a_link_and_decides() {
    let gateway = Gateway::new(Users::One);
    let own =
        Wanted { tenant: "local", principal: "local".to_owned(), pattern: ApprovalPattern::Consent, ..demanding() };
    let ticket = gateway.open(own).await;
    let (mut browser, mut passkey) = (Browser::at_own_name(&gateway), SoftPasskey::new(1));
    browser.post(&gateway.links.issue().unwrap().path(), &[]).await;
    register(&mut browser, &mut passkey, None).await;
    let mut again = Browser::at_own_name(&gateway);
    assert_eq!(use_passkey(&mut again, &mut passkey).await.status, StatusCode::SEE_OTHER);
    let form = again.get(&format!("/approvals/{}", ticket.id)).await.form("approve");
    let form = form.with(&[("assertion", &passkey.get(&form.asked["assertion"]))]);
    assert_eq!(again.submit(&form, &[]).await.status, StatusCode::SEE_OTHER);
    assert_eq!(gateway.ticket(&ticket.id).await.state, TicketState::Approved);
}

#[tokio::test]
async fn a_sign_in_with_a_passkey_is_fresh_for_five_minutes() {
    let gateway = Gateway::new(Users::Many);
    let ticket = gateway.open(Wanted { presence: Presence::Fresh, ..Wanted::default() }).await;
    let ((mut ben, _), mut passkey) = (signed_in(&gateway, "ben").await, SoftPasskey::new(1));
    register(&mut ben, &mut passkey, None).await;
    let path = format!("/approvals/{}", ticket.id);
    use_passkey(&mut ben, &mut passkey).await;
    assert!(ben.get(&path).await.has_form("approve"));
    gateway.clock.pass_ms(6 * 60_000);
    assert!(ben.get(&path).await.html.contains("Sign in again to decide"));
    use_passkey(&mut ben, &mut passkey).await;
    let form = ben.get(&path).await.form("approve");
    assert_eq!(ben.submit(&form, &[]).await.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn a_passkey_that_ends_ends_its_sessions_and_signs_nothing_more() {
    let gateway = Gateway::new(Users::Many);
    let (first, second) = (
        gateway.open(demanding()).await,
        gateway.open(Wanted { arguments: serde_json::json!({}), ..demanding() }).await,
    );
    let decide = async |browser: &mut Browser, passkey: &mut SoftPasskey, path: &str| {
        let form = browser.get(path).await.form("approve");
        let form = form.with(&[("assertion", &passkey.get(&form.asked["assertion"]))]);
        browser.submit(&form, &[]).await.status
    };
    let ((mut ben, _), mut passkey) = (signed_in(&gateway, "ben").await, SoftPasskey::new(1));
    register(&mut ben, &mut passkey, None).await;
    let mut by_passkey = Browser::at_own_name(&gateway);
    use_passkey(&mut by_passkey, &mut passkey).await;
    assert_eq!(decide(&mut ben, &mut passkey, &format!("/approvals/{}", first.id)).await, StatusCode::SEE_OTHER);
    let path = format!("/approvals/{}", second.id);
    let form = ben.get(&path).await.form("approve");
    let late = form.with(&[("assertion", &passkey.get(&form.asked["assertion"]))]);

    let notebook = gateway.notebook.as_ref();
    let stored = passkeys::list(notebook, gateway.clock.now()).await.unwrap().remove(0);
    passkeys::revoke(notebook, &stored, "root", gateway.clock.now()).await.unwrap();
    assert_eq!(by_passkey.get("/approvals").await.status, StatusCode::SEE_OTHER, "the session that it opened ended");
    assert_eq!(ben.get("/approvals").await.status, StatusCode::OK, "and no other");
    let refused = ben.submit(&late, &[]).await;
    assert!(refused.status == StatusCode::FORBIDDEN && refused.html.contains("was removed"), "{}", refused.html);
    assert!(gateway.ticket(&second.id).await.decisions.is_empty());
    // As with a revoked key, what was decided before stays decided.
    assert_eq!(gateway.ticket(&first.id).await.state, TicketState::Approved);
    let refused = use_passkey(&mut by_passkey, &mut passkey).await;
    assert!(refused.status == StatusCode::FORBIDDEN && refused.wrong_credential.is_some());
    let left = notebook.list(NoteKind::PasskeyUse, "count.", 100, gateway.clock.now()).await.unwrap();
    assert!(left.iter().all(|note| !note.key.starts_with("count.")), "its counters are forgotten: {left:?}");
    // It cannot come back.
    let form = ben.get("/passkeys").await.form_to("/passkeys");
    let page = ben.submit(&registration(&form, &mut passkey, None), &[]).await;
    assert!(page.status == StatusCode::CONFLICT && page.html.contains("was revoked"), "{}", page.html);
}

#[tokio::test]
async fn a_passkey_ends_with_the_key_under_which_it_was_registered() {
    let gateway = Gateway::new(Users::Many);
    let ((mut ben, key), mut passkey) = (signed_in(&gateway, "ben").await, SoftPasskey::new(1));
    register(&mut ben, &mut passkey, None).await;
    let mut by_passkey = Browser::at_own_name(&gateway);
    use_passkey(&mut by_passkey, &mut passkey).await;
    assert_eq!(by_passkey.get("/approvals").await.status, StatusCode::OK);
    keys::revoke(gateway.notebook.as_ref(), &key, "root", gateway.clock.now()).await.unwrap();
    assert_eq!(by_passkey.get("/approvals").await.status, StatusCode::SEE_OTHER);
    assert_eq!(use_passkey(&mut by_passkey, &mut passkey).await.status, StatusCode::FORBIDDEN);
    // The person has another key: the passkey of the first one signs nothing, and makes room.
    let ticket = gateway.open(demanding()).await;
    let (mut ben, _) = signed_in(&gateway, "ben").await;
    assert!(ben.get(&format!("/approvals/{}", ticket.id)).await.html.contains("This ticket needs a passkey"));
    register(&mut ben, &mut SoftPasskey::new(2), None).await;
    let left = passkeys::list(gateway.notebook.as_ref(), gateway.clock.now()).await.unwrap();
    assert_eq!(left.len(), 1);
}

#[tokio::test]
async fn a_person_removes_a_passkey_with_a_passkey() {
    let gateway = Gateway::new(Users::Many);
    let ((mut ben, _), mut first, mut second) =
        (signed_in(&gateway, "ben").await, SoftPasskey::new(1), SoftPasskey::new(2));
    register(&mut ben, &mut first, None).await;
    register(&mut ben, &mut second, Some(&mut first)).await;
    let form = ben.get("/passkeys").await.form_to("/passkeys/remove");
    let form = form.with(&[("assertion", &second.get(&form.asked["assertion"]))]);
    assert_eq!(ben.submit(&form, &[]).await.location(), "/passkeys");
    let left = passkeys::list(gateway.notebook.as_ref(), gateway.clock.now()).await.unwrap();
    assert_eq!(left.len(), 1);
    assert_eq!(
        String::from(left[0].passkey.public_key.clone()),
        second.public_key(),
        "the first, on whose form it was"
    );
}

#[tokio::test]
async fn a_person_has_eight_passkeys_at_most() {
    let gateway = Gateway::new(Users::Many);
    let ((mut ben, _), mut first) = (signed_in(&gateway, "ben").await, SoftPasskey::new(1));
    register(&mut ben, &mut first, None).await;
    for seed in 2..=8 {
        register(&mut ben, &mut SoftPasskey::new(seed), Some(&mut first)).await;
    }
    let form = ben.get("/passkeys").await.form_to("/passkeys");
    let page = ben.submit(&registration(&form, &mut SoftPasskey::new(9), Some(&mut first)), &[]).await;
    assert!(page.status == StatusCode::CONFLICT && page.html.contains("at most 8 passkeys"), "{}", page.html);
    let kept = passkeys::list(gateway.notebook.as_ref(), gateway.clock.now()).await.unwrap();
    assert_eq!(kept.len(), 8);
    let counters = gateway.notebook.list(NoteKind::PasskeyUse, "count.", 100, gateway.clock.now()).await.unwrap();
    let counters = counters.iter().filter(|note| note.key.starts_with("count."));
    assert_eq!(counters.count(), 1, "only the latest counter of a passkey is kept");
}
