//! What is kept of a login, and which server gets its token.

use serde_json::json;

use super::*;
use crate::{
    allowed_url::{Network, NetworkTrust},
    token_response::{self, RequestedTokenKind},
};

const NOW: Timestamp = Timestamp::from_unix_ms(1_000_000);

fn granted(client: OauthClient) -> GrantedTokens {
    let trust = NetworkTrust::new(Url::parse("https://mcp.test/mcp").unwrap(), Network::Public);
    let body = json!({"access_token": "acc-s3", "token_type": "Bearer", "expires_in": 3600, "refresh_token": "ref-s3"});
    GrantedTokens {
        issuer: "https://as.test".to_owned(),
        token_endpoint: trust.follow("https://as.test/token").unwrap(),
        client,
        resource: "https://mcp.test/mcp".to_owned(),
        scopes: OauthScopes::read("a").unwrap(),
        tokens: token_response::read(200, body.to_string().as_bytes(), RequestedTokenKind::Access, NOW).unwrap(),
    }
}

fn registered() -> Login {
    let proof = ClientAuthentication::Post(Secret::from("pass-s3".to_owned()));
    Login::from_grant(&granted(OauthClient { id: "me".to_owned(), proof }), &OauthClientConfig::default(), None, NOW)
}

#[test]
fn what_is_written_comes_back_and_prints_nothing() {
    let login = registered();
    let again = Login::from_json(&login.to_json().unwrap()).unwrap();
    assert_eq!(again.token(NOW).unwrap().as_text(), Some("acc-s3"));
    assert_eq!(again.refresh_token().unwrap().as_text(), Some("ref-s3"));
    assert_eq!(again.registered_client().unwrap().1.proof.secret().unwrap().as_text(), Some("pass-s3"));
    assert!(!format!("{login:?} {again:?}").contains("s3"));
    assert!(Login::from_json(&Secret::new(b"{}".to_vec())).is_none());
}

#[test]
fn a_token_is_not_shown_when_it_is_about_to_end() {
    let login = registered();
    let at = |ms: u64| login.token(Timestamp::from_unix_ms(NOW.unix_ms() + ms)).is_some();
    assert!(at(3_600_000 - LEEWAY_MS - 1));
    assert!(!at(3_600_000 - LEEWAY_MS));
    assert!(!at(u64::MAX / 2));
}

#[test]
fn tokens_are_for_the_address_they_were_issued_for() {
    let login = registered();
    for (url, expected) in [
        ("https://mcp.test/mcp", true),
        ("https://mcp.test/mcp/x", true),
        ("https://mcp.test/", false),
        ("https://evil.test/mcp", false),
    ] {
        assert_eq!(login.is_for(&Url::parse(url).unwrap()), expected, "{url}");
    }
}

#[test]
fn the_next_tokens_replace_the_last_ones() {
    let read = |body: serde_json::Value| {
        token_response::read(200, body.to_string().as_bytes(), RequestedTokenKind::Access, NOW).unwrap()
    };
    let login = registered();
    let rotated = login.renewed(read(json!({"access_token": "n", "token_type": "Bearer", "refresh_token": "r2"})), NOW);
    assert_eq!((rotated.refresh_token().unwrap().as_text(), rotated.generation), (Some("r2"), 1));
    let kept = login.renewed(read(json!({"access_token": "n", "token_type": "Bearer"})), NOW);
    assert_eq!(kept.refresh_token().unwrap().as_text(), Some("ref-s3"));
    assert_eq!(kept.token(Timestamp::from_unix_ms(u64::MAX)).unwrap().as_text(), Some("n"));
}

#[test]
fn a_client_of_the_configuration_is_the_one_that_is_configured_now() {
    let configured = |id: &str, secret: &str| OauthClientConfig {
        id: Some(id.to_owned()),
        secret: Some(Secret::from(secret.to_owned())),
        ..OauthClientConfig::default()
    };
    let proof = ClientAuthentication::Basic(Secret::from("old".to_owned()));
    let login =
        Login::from_grant(&granted(OauthClient { id: "me".to_owned(), proof }), &configured("me", "old"), None, NOW);
    assert!(login.registered_client().is_none());
    assert!(
        !String::from_utf8_lossy(login.to_json().unwrap().expose()).contains("\"old\""),
        "it is in the configuration"
    );
    let client = login.client(&configured("me", "new")).unwrap();
    assert_eq!(client.proof.secret().unwrap().as_text(), Some("new"));
    assert!(login.client(&configured("other", "new")).is_none());
}
