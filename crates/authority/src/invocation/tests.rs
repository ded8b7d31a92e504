//! Upstreams can check statements with the published keys, and statements say no more than they should.

use std::collections::BTreeMap;

use jsonwebtoken::{Algorithm as Theirs, DecodingKey, Validation, decode, jwk::JwkSet};
use serde_json::Value;
use servanda_contract::{digest::DigestDomain, tool::SideEffectClass};

use super::*;
use crate::{
    AuthenticatedCaller, Narrowing,
    caller::RevocationStatus,
    capability::{Delegation, RootKeys},
    rights::Rights,
    testing::{NOW, golden_json, in_ms, scopes, user, user_rights},
    token::{TokenError, UnverifiedToken},
};

fn key() -> StatementKey {
    StatementKey::from_seed("s1", &Secret::new([5; 32])).unwrap()
}

fn mint(who: &AuthenticatedCaller, tool: &str, at: Timestamp, lifetime_ms: u64) -> Result<String, StatementMintError> {
    let needed = scopes(&["billing:read"]);
    let need = RequiredRights {
        scopes: &needed,
        tool,
        resources: &["invoice/7".to_owned()],
        class: SideEffectClass::ReadOnly,
        at,
    };
    let call_id = CallId::from("call_1".to_owned());
    let invocation = Invocation {
        issuer: "https://gateway.test",
        audience: "https://upstream.test/mcp",
        upstream: "billing",
        call_id: &call_id,
        payload: Digest::compute(DigestDomain::Payload, &[b"{}"]),
        lifetime_ms,
    };
    let rechecked = who.recheck(at, |_| RevocationStatus::Good).unwrap();
    Ok(key().mint(rechecked, &need, &invocation)?.as_text().unwrap().to_owned())
}

fn agent() -> AuthenticatedCaller {
    let keys = RootKeys::new("k", BTreeMap::from([("k".to_owned(), Secret::new([7; 32]))])).unwrap();
    let mut who = user(user_rights());
    // The second agent's name comes only from the delegating holder, so it is not proven.
    for actor in [Actor::proven("assistant"), Actor::named("auditor"), Actor::proven("planner")] {
        let delegation = Delegation {
            actor: actor.unwrap(),
            actor_lineage: Vec::new(),
            actor_budgets: Vec::new(),
            narrowing: Narrowing::default(),
            lifetime_ms: 600_000,
        };
        let made = keys.delegate(&who, delegation, NOW).unwrap();
        who = keys.verify(made.text.as_text().unwrap(), NOW).unwrap();
    }
    who
}

/// Reads a statement as an upstream would, with an independent library and the published keys.
fn read_by_upstream(token: &str) -> Value {
    let published = published_keys(&[&key()]);
    let set: JwkSet = serde_json::from_value(published).unwrap();
    let head = jsonwebtoken::decode_header(token).unwrap();
    let key = DecodingKey::from_jwk(set.find(&head.kid.unwrap()).unwrap()).unwrap();
    let mut validation = Validation::new(Theirs::EdDSA);
    validation.set_audience(&["https://upstream.test/mcp"]);
    validation.set_issuer(&["https://gateway.test"]);
    validation.validate_exp = false;
    decode(token, &key, &validation).unwrap().claims
}

#[test]
fn t7_an_upstream_gets_a_statement_of_its_own_that_it_can_check() {
    let token = mint(&agent(), "billing.show", NOW, 30_000).unwrap();
    golden_json("invocation_claims.json", &read_by_upstream(&token));
    golden_json("statement_keys.json", &published_keys(&[&key()]));
}

#[test]
fn t7_a_statement_is_no_access_token() {
    let token = mint(&agent(), "billing.show", NOW, 30_000).unwrap();
    assert_eq!(UnverifiedToken::read(&token).unwrap_err(), TokenError::Type);
}

#[test]
fn t9_a_statement_ends_no_later_than_what_it_comes_from_and_says_no_more() {
    let exp = |token: &str| read_by_upstream(token)["exp"].as_u64().unwrap() * 1000;
    let agent = agent();
    assert_eq!(exp(&mint(&agent, "billing.show", NOW, 30_000).unwrap()), in_ms(30_000).unix_ms());
    assert_eq!(exp(&mint(&agent, "billing.show", NOW, u64::MAX).unwrap()), in_ms(300_000).unix_ms());
    assert_eq!(exp(&mint(&agent, "billing.show", in_ms(590_000), 30_000).unwrap()), in_ms(600_000).unix_ms());
    assert_eq!(mint(&agent, "billing.show", in_ms(599_500), 400), Err(StatementMintError::Lifetime));
    let refused = mint(&agent, "hr.pay", NOW, 30_000).unwrap_err();
    assert!(matches!(refused, StatementMintError::Lacks(_)), "{refused}");
    let nobody = user(Rights { scopes: crate::rights::Scopes::none(), ..user_rights() });
    assert!(mint(&nobody, "billing.show", NOW, 30_000).is_err());
}

#[test]
fn keys_are_of_one_form() {
    assert!(StatementKey::from_seed("", &Secret::new([5; 32])).is_err());
    assert!(StatementKey::from_seed("a", &Secret::new([5; 31])).is_err());
}

#[test]
fn t7_a_statement_for_an_exchange_says_who_and_who_acts_and_is_no_access_token() {
    let acting = |name: &str, proven| CallerActor { name: name.to_owned(), proven };
    let actors = [acting("planner", true), acting("auditor", false), acting("assistant", true)];
    let subject = SubjectStatement {
        issuer: "https://gateway.test",
        audience: "https://upstream.test/mcp",
        id: "one",
        tenant: "acme",
        principal: "ada",
        actors: &actors,
        upstream: "billing",
    };
    let token = key().mint_subject(&subject, NOW).unwrap();
    let token = token.as_text().unwrap();
    let claims = read_by_upstream(token);
    assert_eq!((claims["sub"].as_str(), claims["act"]["sub"].as_str()), (Some("acme/ada"), Some("planner")));
    assert_eq!(claims["act"]["act"], json!({"sub": "assistant"}), "a name that is not proven is not stated");
    assert_eq!(claims["exp"].as_u64().unwrap() - claims["iat"].as_u64().unwrap(), 60);
    assert_eq!(UnverifiedToken::read(token).unwrap_err(), TokenError::Type);
    let alone = key().mint_subject(&SubjectStatement { actors: &actors[1..2], ..subject }, NOW).unwrap();
    assert_eq!(read_by_upstream(alone.as_text().unwrap()).get("act"), None);
}

#[test]
fn t13_users_of_two_tenants_are_two_subjects() {
    let subject = |tenant, principal| {
        let (issuer, audience) = ("https://gateway.test", "https://upstream.test/mcp");
        let subject =
            SubjectStatement { issuer, audience, id: "one", tenant, principal, actors: &[], upstream: "billing" };
        let token = key().mint_subject(&subject, NOW).unwrap();
        read_by_upstream(token.as_text().unwrap())["sub"].as_str().unwrap().to_owned()
    };
    let users = [
        ("acme", "ada"),
        ("globex", "ada"),
        ("acme", "team/ada"),
        ("acme/team", "ada"),
        ("acme", "team%2Fada"),
        ("acme%2Fteam", "ada"),
    ];
    let subjects: std::collections::BTreeSet<_> = users.map(|(tenant, principal)| subject(tenant, principal)).into();
    assert_eq!(subjects.len(), users.len(), "{subjects:?}");
    assert!(subjects.contains("acme/team%2Fada"), "{subjects:?}");
}
