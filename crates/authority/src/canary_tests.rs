//! T25: nothing of a credential is in any text that is printed or sent about it. Every type that has seen one is
//! printed here, and every error that one has caused.

use std::{collections::BTreeMap, fmt::Debug};

use serde_json::json;

use crate::{
    Actor, Narrowing, Secret,
    api_key::{ApiKeySpec, PresentedKey, make},
    capability::{Caveat, Delegation, RootKeys, attenuate},
    exchange::{ExchangeAnswer, ExchangeRequest},
    invocation::StatementKey,
    jwks::KeySet,
    scrubber::Scrubber,
    signature::Algorithm,
    testing::{NOW, user, user_rights},
    token::{
        UnverifiedToken,
        testing::{KEYS, claims, header, issuer},
    },
};

const CANARY: &str = "canary-7f3a9b";

/// What must not be printed: the canary, and every stretch of the credential that is long enough to be useful.
fn assert_silent(said: &impl Debug, credential: &str) {
    let text = format!("{said:?} {said:#?}");
    assert!(!text.contains(CANARY), "the canary is in {text}");
    for stretch in credential.as_bytes().chunks(12).filter(|stretch| stretch.len() == 12) {
        let stretch = String::from_utf8_lossy(stretch);
        assert!(!text.contains(&*stretch), "{stretch} of the credential is in {text}");
    }
}

/// The error and all its sources, as a log would show them.
fn chain(error: &dyn std::error::Error) -> String {
    let errors = std::iter::successors(Some(error), |error| error.source());
    errors.map(|error| format!("{error} {error:?}")).collect::<Vec<_>>().join(" ")
}

#[test]
fn t25_secrets_print_as_nothing() {
    let secret = Secret::from(CANARY.to_owned());
    assert_eq!(format!("{secret:?} {secret:#?}"), "Secret Secret");
    assert_silent(&Scrubber::new(&[secret]).unwrap(), CANARY);
}

#[test]
fn t25_keys_are_not_said() {
    let terms = ApiKeySpec {
        tenant: "acme".to_owned(),
        principal: "ada".to_owned(),
        groups: std::collections::BTreeSet::new(),
        label: "laptop".to_owned(),
        rights: user_rights(),
        expires_at: user_rights().expires_at,
    };
    let made = make(terms, NOW).unwrap();
    let text = made.text.as_text().unwrap();
    let secret = &text[25..];
    let presented = PresentedKey::read(text).unwrap();
    assert_silent(&made, secret);
    assert_silent(&presented, secret);
    assert_silent(&made.stored.authenticate(&presented, NOW).unwrap(), secret);
    for broken in [format!("{text}{CANARY}"), format!("svk_{CANARY}"), CANARY.to_owned()] {
        assert_silent(&chain(&PresentedKey::read(&broken).unwrap_err()), secret);
    }
}

#[test]
fn t25_tokens_are_not_said() {
    let mut bad = claims();
    bad["aud"] = json!(CANARY);
    let texts = [
        KEYS.token(Algorithm::EdDsa, &header(Algorithm::EdDsa).to_string(), &bad.to_string()),
        KEYS.token(Algorithm::EdDsa, &header(Algorithm::EdDsa).to_string(), &format!(r#"{{"iss":"{CANARY}"}}"#)),
        KEYS.token(Algorithm::EdDsa, &format!(r#"{{"alg":"{CANARY}"}}"#), "{}"),
        KEYS.token(Algorithm::EdDsa, "{}", &format!(r#"{{"{CANARY}":1,"{CANARY}":2}}"#)),
        format!("{CANARY}.{CANARY}.{CANARY}"),
    ];
    for text in texts {
        let error = match UnverifiedToken::read(&text) {
            Ok(token) => {
                assert_silent(&token, &text);
                token.verify(&issuer(), &KEYS.set(), NOW).unwrap_err()
            }
            Err(error) => error,
        };
        assert_silent(&chain(&error), &text);
        assert_silent(&error.client_message(), &text);
    }
}

#[test]
fn t25_agent_credentials_and_their_keys_are_not_said() {
    let root = Secret::from(format!("{CANARY}-{}", "x".repeat(32)));
    let keys = RootKeys::new("k", BTreeMap::from([("k".to_owned(), root)])).unwrap();
    assert_silent(&keys, CANARY);
    let delegation = Delegation {
        actor: Actor::named("planner").unwrap(),
        actor_lineage: Vec::new(),
        actor_budgets: Vec::new(),
        narrowing: Narrowing::default(),
        lifetime_ms: 60_000,
    };
    let made = keys.delegate(&user(user_rights()), delegation, NOW).unwrap();
    let text = made.text.as_text().unwrap();
    assert_silent(&made, text);
    assert_silent(&ExchangeAnswer::for_credential(&made, NOW).unwrap(), text);
    assert_silent(&attenuate(text, &Caveat::default()).unwrap(), text);
    assert_silent(&keys.verify(text, NOW).unwrap(), text);
    for broken in [format!("{text}{CANARY}"), format!("sva1.{CANARY}.{CANARY}"), CANARY.to_owned()] {
        assert_silent(&chain(&keys.verify(&broken, NOW).unwrap_err()), text);
        assert_silent(&attenuate(&broken, &Caveat::default()).map_err(|error| chain(&error)), text);
    }
    let seed = "canary-7f3a9b-canary-7f3a9b-1234";
    assert_silent(&StatementKey::from_seed("s", &Secret::from(seed.to_owned())).unwrap(), seed);
}

#[test]
fn t25_exchanges_and_key_sets_are_not_said() {
    let form = |rest: &str| {
        format!(
            "grant_type=urn:ietf:params:oauth:grant-type:token-exchange&subject_token={CANARY}&actor_token={CANARY}{rest}"
        )
    };
    let kind = "urn:ietf:params:oauth:token-type:jwt";
    let good = form(&format!("&subject_token_type={kind}&actor_token_type={kind}"));
    assert_silent(&ExchangeRequest::read(good.as_bytes()).unwrap(), CANARY);
    for rest in ["", "&subject_token_type=canary-7f3a9b", "&subject_token=canary-7f3a9b"] {
        let error = ExchangeRequest::read(form(rest).as_bytes()).unwrap_err();
        assert_silent(&chain(&error), CANARY);
        assert_silent(&error.answer(), CANARY);
    }
    let private = json!({"keys": [{"kty": "oct", "k": CANARY}]}).to_string();
    assert_silent(&chain(&KeySet::read(private.as_bytes()).unwrap_err()), CANARY);
    assert_silent(&KEYS.set(), &KEYS.jwk("ed")["x"].to_string());
}
