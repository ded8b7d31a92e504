//! Which callers are accepted and refused, and what the authenticator asks of the store and of issuers meanwhile.

use std::sync::{Arc, atomic::Ordering};

use serde_json::{Value, json};
use servanda_authority::{CredentialId, CredentialMethod};
use servanda_contract::{Timestamp, time::Clock as _};
use servanda_doors::http::{AuthRejection, Authenticator as _};
use servanda_effects::{Note, NoteKind, Notebook as _};

use crate::{
    AuthnSettings, IssuerSettings, KEY_CACHE_POLICY,
    cache::AuthnCache,
    fetch, fetchable_url, keys,
    revocation::{self, Revocation},
    root_keys::RootKeyStore,
    testing::{AuthnFixture, FixedSeal, RESOURCE, TestIssuer, terms},
};

async fn revoke(fixture: &AuthnFixture, credential: &CredentialId) {
    let revocation = Revocation { at: fixture.clock.now(), by: "test".to_owned() };
    revocation::revoke(fixture.store.as_ref(), credential, &revocation).await.unwrap();
}

#[tokio::test]
async fn a_key_lets_its_holder_in_until_it_ends() {
    let fixture = AuthnFixture::new(Vec::new());
    let (_, key) = fixture.key("acme", "ada", &["a:read"]).await;
    let who = fixture.admit(&key).await.unwrap();
    assert_eq!((who.tenant(), who.principal(), who.method()), ("acme", "ada", &CredentialMethod::ApiKey));
    assert!(who.groups().contains("staff"));
    let mut forged = key.clone();
    let last = if forged.pop() == Some('A') { 'B' } else { 'A' };
    forged.push(last);
    assert_eq!(fixture.told(&forged).await, "the credential is not valid here");
    assert_eq!(fixture.told("svk_00000000000000000000_x").await, "the credential is not valid here");
    fixture.clock.pass_ms(86_400_000);
    assert_eq!(fixture.told(&key).await, "the credential has expired");
}

/// The stored form of a key is cached for a while; its revocation still takes effect at once.
#[tokio::test]
async fn t11_a_revoked_key_is_refused_at_once_though_it_is_remembered() {
    let fixture = AuthnFixture::new(Vec::new());
    let (id, key) = fixture.key("acme", "ada", &[]).await;
    fixture.admit(&key).await.unwrap();
    keys::revoke(fixture.store.as_ref(), &id, "test", fixture.clock.now()).await.unwrap();
    assert_eq!(fixture.told(&key).await, "the credential was revoked");
    let listed = keys::list(fixture.store.as_ref(), fixture.clock.now()).await.unwrap();
    assert_eq!(listed.iter().filter(|key| key.revoked_at.is_some()).count(), 1);
}

#[tokio::test]
async fn a_store_that_is_away_rejects_every_caller_and_says_later() {
    let fixture = AuthnFixture::new(Vec::new());
    let (_, key) = fixture.key("acme", "ada", &[]).await;
    let who = fixture.admit(&key).await.unwrap();
    assert!(fixture.authenticator.is_still_valid(&who).await);
    fixture.store.away.store(true, Ordering::SeqCst);
    assert!(fixture.told(&key).await.starts_with("later:"), "cached, but its revocation cannot be checked");
    assert!(!fixture.authenticator.is_still_valid(&who).await);
}

#[tokio::test]
async fn keys_are_taken_only_where_the_terms_say_so() {
    let fixture = AuthnFixture::new(Vec::new());
    let (_, key) = fixture.key("acme", "ada", &[]).await;
    fixture.admit(&key).await.unwrap();
    let AuthnSettings::Required(mut without) = terms(Vec::new()) else { unreachable!() };
    without.keys = false;
    fixture.authenticator.replace(AuthnSettings::Required(without));
    assert_eq!(fixture.told(&key).await, "the credential is not valid here");
    fixture.authenticator.replace(AuthnSettings::Local);
    assert_eq!(fixture.admit(&key).await.unwrap().method(), &CredentialMethod::Local, "local mode needs no credential");
}

#[tokio::test]
async fn a_caller_without_a_credential_is_told_where_to_get_one() {
    let fixture = AuthnFixture::new(Vec::new());
    let Err(AuthRejection::Challenged { challenge, .. }) = fixture.authenticator.admit(None).await else {
        panic!("let in")
    };
    let expected =
        r#"Bearer scope="a:read", resource_metadata="https://gateway.test/.well-known/oauth-protected-resource/mcp""#;
    assert_eq!((challenge.status, challenge.header.as_str()), (401, expected));
    for (path, there) in [("", true), ("/mcp", true), ("/other", false), ("/p", false)] {
        assert_eq!(fixture.authenticator.metadata(path).is_some(), there, "{path}");
    }
}

#[tokio::test]
async fn a_token_is_verified_with_keys_that_are_fetched_once_for_all() {
    let issuer = TestIssuer::start("one").await;
    let fixture = Arc::new(AuthnFixture::new(vec![issuer.terms()]));
    let token = issuer.token("one", &json!({}));
    let admitting: Vec<_> = (0..32)
        .map(|_| {
            let (fixture, token) = (fixture.clone(), token.clone());
            tokio::spawn(async move { fixture.admit(&token).await.unwrap() })
        })
        .collect();
    for admitted in admitting {
        let who = admitted.await.unwrap();
        assert_eq!((who.tenant(), who.principal()), ("acme", "ada"));
        assert!(who.groups().contains("staff"));
    }
    assert_eq!(issuer.asked_for_keys(), 1);
    let mode = fixture.authenticator.mode();
    let shown = format!("{:?} {mode:?}", fixture.authenticator);
    assert!(!shown.contains(&token) && !shown.contains(token.rsplit('.').next().unwrap()), "no credential is printed");
}

#[tokio::test]
async fn t8_tokens_for_others_and_of_others_are_refused() {
    let (issuer, stranger) = (TestIssuer::start("one").await, TestIssuer::start("one").await);
    let fixture = AuthnFixture::new(vec![issuer.terms()]);
    let told = |changes: Value| {
        let token = issuer.token("one", &changes);
        let fixture = &fixture;
        async move { fixture.told(&token).await }
    };
    assert_eq!(told(json!({ "aud": "https://other.test/mcp" })).await, "the access token is not for this server");
    assert_eq!(told(json!({ "aud": [] })).await, "the access token is not for this server");
    assert_eq!(told(json!({ "exp": 1 })).await, "the access token has expired");
    assert_eq!(fixture.told(&stranger.token("one", &json!({}))).await, "the credential is not valid here");
    let claims_to_be = stranger.token("one", &json!({ "iss": issuer.url }));
    assert_eq!(fixture.told(&claims_to_be).await, "the access token is not valid here");
}

#[tokio::test]
async fn an_unknown_key_is_fetched_at_most_once_per_interval() {
    let issuer = TestIssuer::start("one").await;
    let fixture = AuthnFixture::new(vec![issuer.terms()]);
    fixture.admit(&issuer.token("one", &json!({}))).await.unwrap();
    issuer.publish(&["one", "two"]);
    let rotated = issuer.token("two", &json!({ "jti": "t-2" }));
    assert_eq!(fixture.told(&rotated).await, "the access token is not valid here", "too soon to ask again");
    assert_eq!(issuer.asked_for_keys(), 1);
    fixture.clock.pass_ms(KEY_CACHE_POLICY.fetch_interval_ms_min);
    fixture.admit(&rotated).await.unwrap();
    assert_eq!(issuer.asked_for_keys(), 2);
    for number in 0..20 {
        let made_up = issuer.token(&format!("made-up-{number}"), &json!({}));
        assert_eq!(fixture.told(&made_up).await, "the access token is not valid here");
    }
    assert_eq!(issuer.asked_for_keys(), 2, "however many unknown key ids arrive");
}

#[tokio::test]
async fn keys_are_used_while_the_issuer_is_away_and_not_for_ever() {
    let issuer = TestIssuer::start("one").await;
    let fixture = AuthnFixture::new(vec![issuer.terms()]);
    fixture.admit(&issuer.token("one", &json!({}))).await.unwrap();
    issuer.answer("/keys", 500, "");
    issuer.answer("/.well-known/openid-configuration", 500, "");
    fixture.clock.pass_ms(KEY_CACHE_POLICY.fresh_ms_max);
    fixture.admit(&issuer.token("one", &json!({ "jti": "t-2" }))).await.unwrap();
    fixture.clock.pass_ms(KEY_CACHE_POLICY.stale_ms_max);
    let token = issuer.token("one", &json!({ "jti": "t-3" }));
    assert!(fixture.told(&token).await.starts_with("later:"));
    assert!(
        fixture.told(&issuer.token("one", &json!({}))).await.starts_with("later:"),
        "nor is what was verified before"
    );
}

/// A verified token is accepted as long as the keys that verified it are still the issuer's.
#[tokio::test]
async fn a_key_that_its_issuer_took_back_verifies_nothing_any_more() {
    let issuer = TestIssuer::start("one").await;
    let fixture = AuthnFixture::new(vec![issuer.terms()]);
    let token = issuer.token("one", &json!({}));
    fixture.admit(&token).await.unwrap();
    issuer.publish(&["two"]);
    fixture.clock.pass_ms(KEY_CACHE_POLICY.fresh_ms_max);
    // The first request starts the fetch and may still be accepted with the old keys; after the fetch, none is.
    let _ = fixture.admit(&token).await;
    fixture.admit(&issuer.token("two", &json!({ "jti": "t-2" }))).await.unwrap();
    assert_eq!(fixture.told(&token).await, "the access token is not valid here");
}

#[tokio::test]
async fn other_terms_hold_for_what_was_verified_before() {
    let issuer = TestIssuer::start("one").await;
    let fixture = AuthnFixture::new(vec![issuer.terms()]);
    let token = issuer.token("one", &json!({}));
    fixture.admit(&token).await.unwrap();
    let mut other = issuer.terms();
    other.issuer.audience = "https://elsewhere.test/mcp".to_owned();
    fixture.authenticator.replace(terms(vec![other]));
    assert_eq!(fixture.told(&token).await, "the access token is not for this server");
    assert_eq!(issuer.asked_for_keys(), 1, "the keys are the same issuer's");
}

#[tokio::test]
async fn an_issuer_is_who_its_metadata_say_and_leads_nowhere_else() {
    let issuer = TestIssuer::start("one").await;
    let token = issuer.token("one", &json!({}));
    let well_known = "/.well-known/openid-configuration";
    let other = json!({ "issuer": "https://other.test", "jwks_uri": format!("{}/keys", issuer.url) });
    let inside = json!({ "issuer": issuer.url, "jwks_uri": "http://10.0.0.7/keys" });
    for (status, body) in [(200, other.to_string()), (200, inside.to_string()), (302, format!("{}/there", issuer.url))]
    {
        issuer.answer(well_known, status, &body);
        issuer.answer(
            "/there",
            200,
            &json!({ "issuer": issuer.url, "jwks_uri": format!("{}/keys", issuer.url) }).to_string(),
        );
        let fixture = AuthnFixture::new(vec![issuer.terms()]);
        assert!(fixture.told(&token).await.starts_with("later:"), "{status} {body}");
    }
    assert_eq!(issuer.asked_for_keys(), 0);
    // RFC 8414 is used if there is no OpenID Connect; with a configured key address, no metadata is fetched.
    issuer.answer(well_known, 404, "");
    issuer.answer(
        "/.well-known/oauth-authorization-server",
        200,
        &json!({ "issuer": issuer.url, "jwks_uri": format!("{}/keys", issuer.url) }).to_string(),
    );
    AuthnFixture::new(vec![issuer.terms()]).admit(&token).await.unwrap();
    let told = IssuerSettings { jwks_uri: Some(format!("{}/keys", issuer.url)), ..issuer.terms() };
    let asked = issuer.asked.lock().unwrap().len();
    AuthnFixture::new(vec![told]).admit(&token).await.unwrap();
    assert_eq!(issuer.asked.lock().unwrap().len(), asked + 1);
}

#[test]
fn addresses_of_metadata_and_of_keys() {
    let table = [
        (
            "https://a.test",
            "https://a.test/.well-known/openid-configuration",
            "https://a.test/.well-known/oauth-authorization-server",
        ),
        (
            "https://a.test/x/",
            "https://a.test/x/.well-known/openid-configuration",
            "https://a.test/.well-known/oauth-authorization-server/x",
        ),
    ];
    for (issuer, openid, rfc8414) in table {
        assert_eq!(fetch::metadata_addresses(issuer), [openid, rfc8414]);
    }
    for (text, good) in [
        ("https://a.test/keys", true),
        ("http://127.0.0.1:9/keys", true),
        ("http://[::1]/keys", true),
        ("http://localhost/keys", true),
        ("http://a.test/keys", false),
        ("http://localhost.a.test/keys", false),
        ("http://10.0.0.7/keys", false),
        ("https://ada:pw@a.test/keys", false),
        ("https://a.test/keys#x", false),
        ("file:///etc/passwd", false),
        ("keys", false),
    ] {
        assert_eq!(fetchable_url(text).is_ok(), good, "{text}");
    }
}

fn form(parameters: &[(&str, &str)]) -> Vec<u8> {
    let fixed = [
        ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
        ("subject_token_type", "urn:ietf:params:oauth:token-type:access_token"),
    ];
    let escape = |text: &str| text.bytes().map(|byte| format!("%{byte:02X}")).collect::<Vec<_>>().concat();
    let pairs = fixed.iter().chain(parameters).map(|(name, value)| format!("{name}={}", escape(value)));
    pairs.collect::<Vec<_>>().join("&").into_bytes()
}

async fn exchange(fixture: &AuthnFixture, parameters: &[(&str, &str)]) -> (u16, Value) {
    let exchanged = fixture.authenticator.exchange(form(parameters).into()).await.unwrap();
    (exchanged.status, serde_json::from_slice(&exchanged.body).unwrap())
}

#[tokio::test]
async fn a_users_credential_becomes_an_agents_and_goes_with_it() {
    let issuer = TestIssuer::start("one").await;
    let fixture = AuthnFixture::new(vec![issuer.terms()]);
    let (agent_id, agent_key) = fixture.key("acme", "planner", &[]).await;
    let token = issuer.token("one", &json!({ "scope": "a:read a:write" }));
    let actor =
        [("actor_token", agent_key.as_str()), ("actor_token_type", "urn:ietf:params:oauth:token-type:access_token")];
    let wanted = [("subject_token", token.as_str()), ("scope", "a:read"), ("resource", RESOURCE)];
    let (status, answer) = exchange(&fixture, &[&wanted[..], &actor[..]].concat()).await;
    assert_eq!(
        (status, &answer["token_type"], &answer["scope"]),
        (200, &json!("Bearer"), &json!("a:read")),
        "{answer}"
    );
    let credential = answer["access_token"].as_str().unwrap();
    let who = fixture.admit(credential).await.unwrap();
    assert_eq!((who.principal(), who.actors()[0].name(), who.actors()[0].is_proven()), ("ada", "planner", true));
    assert!(who.groups().contains("staff"), "the user's");
    assert!(fixture.authenticator.step_up(&who, &["a:write".to_owned()]).is_none(), "no issuer could widen it");
    // The agent's own key is revoked, and with it the credential that it acted with.
    keys::revoke(fixture.store.as_ref(), &agent_id, "test", fixture.clock.now()).await.unwrap();
    assert_eq!(fixture.told(credential).await, "the credential was revoked");
}

#[tokio::test]
async fn t9_no_exchange_widens_anything() {
    let fixture = AuthnFixture::new(Vec::new());
    let (_, key) = fixture.key("acme", "ada", &["a:read"]).await;
    let (_, foreign) = fixture.key("globex", "planner", &["a:write"]).await;
    let terms = ("servanda_terms", r#"{"agent": "planner"}"#);
    let actor =
        [("actor_token", foreign.as_str()), ("actor_token_type", "urn:ietf:params:oauth:token-type:access_token")];
    let table: [(&[(&str, &str)], &str); 5] = [
        (&[("subject_token", &key), ("scope", "a:read a:write"), terms], "invalid_scope"),
        (&[("subject_token", &key), ("resource", "https://other.test"), terms], "invalid_target"),
        (&[("subject_token", &key)], "invalid_request"),
        (&[("subject_token", "svk_00000000000000000000_x"), terms], "invalid_request"),
        (&[("subject_token", &key), actor[0], actor[1]], "invalid_request"),
    ];
    for (parameters, error) in table {
        let (status, answer) = exchange(&fixture, parameters).await;
        assert_eq!((status, &answer["error"]), (400, &json!(error)), "{answer}");
        assert!(!answer.to_string().contains(&key));
    }
    let (_, once) = exchange(
        &fixture,
        &[("subject_token", &key), ("servanda_terms", r#"{"agent": "a", "narrowing": {"depth_left": 0}}"#)],
    )
    .await;
    let last = once["access_token"].as_str().unwrap();
    let (status, answer) = exchange(&fixture, &[("subject_token", last), terms]).await;
    assert_eq!((status, &answer["error"]), (400, &json!("invalid_request")), "handed on often enough: {answer}");
    fixture.store.away.store(true, Ordering::SeqCst);
    let (status, answer) = exchange(&fixture, &[("subject_token", &key), terms]).await;
    assert_eq!((status, &answer["error"]), (503, &json!("temporarily_unavailable")));
}

#[tokio::test]
async fn t11_revoking_one_revokes_what_comes_from_it_and_nothing_else() {
    let fixture = AuthnFixture::new(Vec::new());
    let (_, key) = fixture.key("acme", "ada", &["a:read"]).await;
    let mut made = Vec::new();
    for agent in ["one", "two"] {
        let terms = format!(r#"{{"agent": "{agent}"}}"#);
        let (_, answer) = exchange(&fixture, &[("subject_token", &key), ("servanda_terms", &terms)]).await;
        made.push(answer["access_token"].as_str().unwrap().to_owned());
    }
    let first = fixture.admit(&made[0]).await.unwrap();
    assert!(!first.actors()[0].is_proven(), "by its holder's word");
    revoke(&fixture, first.credential()).await;
    assert!(!fixture.authenticator.is_still_valid(&first).await);
    assert_eq!(fixture.told(&made[0]).await, "the credential was revoked");
    let second = fixture.admit(&made[1]).await.unwrap();
    assert!(fixture.authenticator.is_still_valid(&second).await);
    fixture.clock.pass_ms(3_600_000);
    assert!(!fixture.authenticator.is_still_valid(&second).await, "its time is over");
    assert_eq!(fixture.told(&made[1]).await, "the credential has expired");
}

/// A gateway that shares the store accepts the credentials that another one issued.
#[tokio::test]
async fn gateways_that_share_a_store_share_their_root_keys() {
    let fixture = AuthnFixture::new(Vec::new());
    let (_, key) = fixture.key("acme", "ada", &[]).await;
    let (_, answer) = exchange(&fixture, &[("subject_token", &key), ("servanda_terms", r#"{"agent": "a"}"#)]).await;
    let other = fixture.beside(7);
    other.admit(answer["access_token"].as_str().unwrap()).await.unwrap();
    let stranger = AuthnFixture::new(Vec::new());
    assert_eq!(stranger.told(answer["access_token"].as_str().unwrap()).await, "the credential is not valid here");
}

/// The store alone does not reveal the root keys. A gateway with another sealing key says so, and accepts no agent.
#[tokio::test]
async fn root_keys_are_sealed_at_rest() {
    let fixture = AuthnFixture::new(Vec::new());
    let (_, key) = fixture.key("acme", "ada", &[]).await;
    let (_, answer) = exchange(&fixture, &[("subject_token", &key), ("servanda_terms", r#"{"agent": "a"}"#)]).await;
    let credential = answer["access_token"].as_str().unwrap();
    let roots =
        RootKeyStore::new(fixture.store.clone(), Arc::new(FixedSeal(7))).read(fixture.clock.now()).await.unwrap();
    assert!(roots.verify(credential, fixture.clock.now()).is_ok());
    let notes = fixture.store.list(NoteKind::Secret, "", 10, fixture.clock.now()).await.unwrap();
    let [note] = notes.as_slice() else { panic!("{notes:?}") };
    assert!(note.key == "agent-credential/sealed/00000001" && note.value.starts_with(r#"{"sealed":""#), "{note:?}");
    let error =
        RootKeyStore::new(fixture.store.clone(), Arc::new(FixedSeal(8))).read(fixture.clock.now()).await.unwrap_err();
    assert!(error.reason().contains("SERVANDA_SECRET_KEY"), "{}", error.reason());
    assert!(fixture.beside(8).admit(credential).await.is_err());
}

/// A root key of an earlier version is sealed when it is first read, and the credentials that it signed stay valid.
#[tokio::test]
async fn a_root_key_that_was_kept_in_clear_is_sealed() {
    let fixture = AuthnFixture::new(Vec::new());
    let value = format!("\"{}\"", "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWY");
    let note = Note {
        kind: NoteKind::Secret,
        key: "agent-credential/roots".to_owned(),
        value: value.clone(),
        expires_at: None,
    };
    fixture.store.write(note).await.unwrap();
    let book = RootKeyStore::new(fixture.store.clone(), Arc::new(FixedSeal(7)));
    book.read(fixture.clock.now()).await.unwrap();
    let notes = fixture.store.list(NoteKind::Secret, "", 10, fixture.clock.now()).await.unwrap();
    assert_eq!(notes.len(), 1);
    assert!(!notes[0].value.contains("QUJD") && notes[0].key.ends_with("/00000001"), "{notes:?}");
}

/// Existing credentials stay valid until they expire. Later ones are signed with the new key, also by gateways that
/// were already running.
#[tokio::test]
async fn root_keys_rotate() {
    let fixture = AuthnFixture::new(Vec::new());
    let (_, key) = fixture.key("acme", "ada", &[]).await;
    let terms = [("subject_token", key.as_str()), ("servanda_terms", r#"{"agent": "a"}"#)];
    let old = exchange(&fixture, &terms).await.1["access_token"].as_str().unwrap().to_owned();
    let running = fixture.beside(7);
    running.admit(&old).await.unwrap();
    let book = RootKeyStore::new(fixture.store.clone(), Arc::new(FixedSeal(7)));
    assert_eq!(book.rotate(fixture.clock.now()).await.unwrap(), "2");
    let fresh = fixture.beside(7);
    let new = exchange(&fresh, &terms).await.1["access_token"].as_str().unwrap().to_owned();
    fixture.clock.pass_ms(1_001);
    running.admit(&new).await.expect("a key that is not known is looked for");
    running.admit(&old).await.unwrap();
    assert_eq!(book.rotate(fixture.clock.now()).await.unwrap(), "3");
    fixture.clock.pass_ms(2 * 86_400_000);
    let left = fixture.store.list(NoteKind::Secret, "", 10, fixture.clock.now()).await.unwrap();
    assert_eq!(left.len(), 1, "a replaced key is dropped when all of its credentials have expired: {left:?}");
}

/// With more keys than are read at once, the newest would be unknown.
#[tokio::test]
async fn root_keys_are_limited_in_number_until_the_oldest_end() {
    let fixture = AuthnFixture::new(Vec::new());
    let book = RootKeyStore::new(fixture.store.clone(), Arc::new(FixedSeal(7)));
    for number in 2..=64 {
        assert_eq!(book.rotate(fixture.clock.now()).await.unwrap(), number.to_string());
    }
    let refused = book.rotate(fixture.clock.now()).await.unwrap_err().to_string();
    assert!(refused.contains("rotate again when the oldest has expired"), "{refused}");
    fixture.clock.pass_ms(2 * 86_400_000);
    assert_eq!(book.rotate(fixture.clock.now()).await.unwrap(), "65");
}

#[test]
fn what_is_remembered_is_bounded_and_ends() {
    let memory = AuthnCache::new(2);
    let at = Timestamp::from_unix_ms;
    memory.remember(1, "a", at(10), at(0));
    assert_eq!((memory.recall(&1, at(9)), memory.recall(&1, at(10))), (Some("a"), None));
    memory.remember(2, "b", at(20), at(0));
    memory.remember(3, "c", at(20), at(15));
    assert_eq!((memory.len(), memory.recall(&2, at(15))), (2, Some("b")), "what was over made room");
    memory.remember(4, "d", at(20), at(15));
    assert_eq!((memory.len(), memory.recall(&4, at(15))), (1, Some("d")));
}
