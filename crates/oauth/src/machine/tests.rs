//! Tokens without a user, and with a statement about one.

use serde_json::json;
use servanda_contract::CallerActor;
use servanda_upstream::CredentialLack;

use super::*;
use crate::{
    login::LEEWAY_MS,
    testing::{FixedAccess, OauthTestClock, TokenServer, credential_request, login_store, shown},
};

async fn server() -> TokenServer {
    TokenServer::start(|number, _| {
        (200, json!({"access_token": format!("t{number}"), "token_type": "Bearer", "expires_in": 3600}))
    })
    .await
}

fn source(server: &TokenServer, standing: UnattendedGrant, clock: &OauthTestClock) -> Arc<MachineSource> {
    Arc::new(MachineSource::new(server.terms(standing), login_store(), Arc::new(clock.clone()), None))
}

fn rejection(status: u16, challenge: &str, rejected_before: usize) -> CredentialRejection {
    CredentialRejection { status, www_authenticate: Some(challenge.to_owned()), rejected_before }
}

#[tokio::test]
async fn one_token_for_all_until_it_ends() {
    let (server, clock) = (server().await, OauthTestClock::new());
    let source = source(&server, UnattendedGrant::Client, &clock);
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..20 {
        let source = Arc::clone(&source);
        calls.spawn(async move { shown(source.present(&credential_request("acme", &format!("user{number}"))).await) });
    }
    assert!(calls.join_all().await.iter().all(|token| token == "Bearer t1"));
    assert!(!source.is_personal());
    clock.forward(3_600_000 - LEEWAY_MS - 1);
    assert_eq!(shown(source.present(&credential_request("a", "b")).await), "Bearer t1");
    clock.forward(1);
    assert_eq!(shown(source.present(&credential_request("a", "b")).await), "Bearer t2");
    assert!(server.forms()[0].starts_with("grant_type=client_credentials&scope=a&"), "{:?}", server.forms());
}

#[tokio::test]
async fn more_scopes_are_asked_for_once() {
    let (server, clock) = (server().await, OauthTestClock::new());
    let source = source(&server, UnattendedGrant::Client, &clock);
    let anybody = credential_request("a", "b");
    source.present(&anybody).await.unwrap();
    let challenge = "Bearer error=\"insufficient_scope\", scope=\"b\"";
    assert_eq!(source.rejected(&anybody, &rejection(403, challenge, 0)).await, Remedy::TryAgain);
    assert_eq!(shown(source.present(&anybody).await), "Bearer t2");
    assert!(server.forms()[1].starts_with("grant_type=client_credentials&scope=a+b&"), "{:?}", server.forms());
    let again = source.rejected(&anybody, &rejection(403, challenge, 1)).await;
    assert!(matches!(again, Remedy::GiveUp(_)), "{again:?}");
    assert_eq!(source.rejected(&anybody, &rejection(401, "Bearer", 0)).await, Remedy::TryAgain);
    assert!(matches!(source.rejected(&anybody, &rejection(401, "Bearer", 1)).await, Remedy::GiveUp(_)));
}

#[tokio::test]
async fn a_token_that_was_just_replaced_is_not_replaced_again() {
    let (server, clock) = (server().await, OauthTestClock::new());
    let source = source(&server, UnattendedGrant::Client, &clock);
    let anybody = credential_request("a", "b");
    assert_eq!(shown(source.present(&anybody).await), "Bearer t1");
    // Two requests showed the first token; the second is rejected when there is already another.
    for _ in 0..2 {
        assert_eq!(source.rejected(&anybody, &rejection(401, "Bearer", 0)).await, Remedy::TryAgain);
        assert_eq!(shown(source.present(&anybody).await), "Bearer t2");
    }
    clock.forward(FRESH_MS);
    assert_eq!(source.rejected(&anybody, &rejection(401, "Bearer", 0)).await, Remedy::TryAgain);
    assert_eq!(shown(source.present(&anybody).await), "Bearer t3");
}

#[tokio::test]
async fn a_refused_token_is_not_requested_over_and_over() {
    let server =
        TokenServer::start(|_, _| (401, json!({"error": "invalid_client", "error_description": "s3cret"}))).await;
    let clock = OauthTestClock::new();
    let source = source(&server, UnattendedGrant::Client, &clock);
    for _ in 0..3 {
        let refused = source.present(&credential_request("a", "b")).await.unwrap_err();
        assert_eq!(refused.lack, CredentialLack::NotPermitted);
        assert_eq!(
            refused.to_string(),
            "no token could be obtained for `crm`: the authorization server refused: invalid_client"
        );
    }
    assert_eq!(server.forms().len(), 1);
    clock.forward(PAUSE_MS);
    assert!(source.present(&credential_request("a", "b")).await.is_err());
    assert_eq!(server.forms().len(), 2);
}

#[tokio::test]
async fn a_client_is_not_shown_to_another_issuer_than_its_own() {
    let (server, clock) = (server().await, OauthTestClock::new());
    let login_store = login_store();
    login_store.bind_issuer("crm", "me", "https://as.test").await.unwrap();
    let source = MachineSource::new(server.terms(UnattendedGrant::Client), login_store.clone(), Arc::new(clock), None);
    let refused = source.present(&credential_request("a", "b")).await.unwrap_err();
    assert!(
        refused.to_string().contains("does not accept tokens of the authorization server that was agreed on"),
        "{refused}"
    );
    assert!(server.forms().is_empty());
    login_store.bind_issuer("crm", "me", "https://other.test").await.unwrap();
    let bound = login_store.issuer("crm", "me", Timestamp::from_unix_ms(0)).await.unwrap();
    assert_eq!(bound.as_deref(), Some("https://as.test"), "the first one stays");
}

#[derive(Debug)]
struct Stated;

impl StatementIssuer for Stated {
    fn issue(&self, about: &StatementSubject<'_>, _now: Timestamp) -> Result<Secret, MissingCredential> {
        let actors: Vec<_> = about.caller.actors.iter().map(|acting| acting.name.as_str()).collect();
        let caller = about.caller;
        Ok(Secret::from(format!("{}.{}.{}.{}", caller.tenant, caller.principal, actors.join("+"), about.upstream)))
    }
}

#[tokio::test]
async fn t7_what_is_exchanged_is_our_statement_about_the_user_and_each_party_has_a_token() {
    let (server, clock) = (server().await, OauthTestClock::new());
    let access =
        UpstreamAccess { issuer: Some(server.origin.clone()), ..server.terms(UnattendedGrant::Statement).0.clone() };
    let terms: Arc<dyn UpstreamAccessSource> = Arc::new(FixedAccess(access));
    let source = MachineSource::new(terms, login_store(), Arc::new(clock), Some(Arc::new(Stated)));
    assert!(source.is_personal());
    let ada = credential_request("acme", "ada");
    let mut caller = Caller::named("acme", "ada");
    caller.actors.push(CallerActor { name: "bot".to_owned(), proven: true });
    let bot = CredentialRequest { on_behalf_of: Some(Arc::new(caller)), ..ada.clone() };
    let mut pretender = Caller::named("acme", "ada");
    pretender.actors.push(CallerActor { name: "bot".to_owned(), proven: false });
    let pretender = CredentialRequest { on_behalf_of: Some(Arc::new(pretender)), ..ada.clone() };
    let nobody = CredentialRequest { on_behalf_of: None, ..ada.clone() };
    let mut tokens = Vec::new();
    for credential_request in [&ada, &bot, &ada, &nobody, &bot, &pretender] {
        tokens.push(shown(source.present(credential_request).await));
    }
    assert_eq!(tokens, ["Bearer t1", "Bearer t2", "Bearer t1", "Bearer t3", "Bearer t2", "Bearer t4"]);
    let forms = server.forms();
    assert!(
        forms[0]
            .contains("subject_token=acme.ada..crm&subject_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Ajwt")
    );
    assert!(forms[1].contains("subject_token=acme.ada.bot.crm&"), "{}", forms[1]);
    assert!(forms[2].starts_with("grant_type=client_credentials&"), "the gateway asks as itself");
}
