//! ID tokens that sign a person in, and every known way to make one that must not.

use serde_json::{Value, json};

use super::*;
use crate::{
    jwks::NoSuchKey,
    testing::NOW,
    token::{
        TenantSource,
        testing::{KEYS, header, issuer, set_of},
    },
};

const CLIENT: &str = "console";
const NONCE: &str = "n-0S6_WzA2Mj";
const ACCESS: &str = "jHkWEdUXMU1BwAsC4vtUsZwnNvTIxEl0z9K3vx5KF0Y";

fn provider() -> Issuer {
    Issuer { audience: CLIENT.to_owned(), groups_claim: Some("groups".to_owned()), ..issuer() }
}

fn claims_of_ada() -> Value {
    let now_s = NOW.unix_ms() / 1000;
    json!({
        "iss": provider().issuer, "aud": CLIENT, "sub": "ada", "iat": now_s, "exp": now_s + 300, "nonce": NONCE, "org": "acme",
        "groups": ["finance"],
    })
}

/// An ID token with these changes to valid claims; null removes one.
fn token_with(algorithm: Algorithm, changes: &Value) -> String {
    let mut claims = claims_of_ada();
    for (name, value) in changes.as_object().unwrap() {
        match value {
            Value::Null => claims.as_object_mut().unwrap().remove(name),
            value => claims.as_object_mut().unwrap().insert(name.clone(), value.clone()),
        };
    }
    let mut header = header(algorithm);
    header["typ"] = json!("JWT");
    KEYS.token(algorithm, &header.to_string(), &claims.to_string())
}

fn checked_by(
    token: &str,
    issuer: &Issuer,
    asked_again_at: Option<Timestamp>,
) -> Result<VerifiedIdToken, IdTokenError> {
    let (nonce, access_token) = (Secret::from(NONCE.to_owned()), Secret::from(ACCESS.to_owned()));
    let expected = ExpectedIdToken { nonce: &nonce, access_token: &access_token, asked_again_at };
    UnverifiedIdToken::read(token)?.verify(issuer, &KEYS.set_with_rsa(), &expected, NOW)
}

fn checked(changes: &Value) -> Result<VerifiedIdToken, IdTokenError> {
    checked_by(&token_with(Algorithm::EdDsa, changes), &provider(), None)
}

fn in_s(seconds: i64) -> Value {
    json!(i64::try_from(NOW.unix_ms() / 1000).unwrap() + seconds)
}

#[test]
fn a_good_id_token_says_who_signed_in() {
    for algorithm in [Algorithm::Rs256, Algorithm::Ps256, Algorithm::Es256, Algorithm::EdDsa] {
        let token = token_with(algorithm, &json!({}));
        let who = checked_by(&token, &provider(), None).unwrap();
        assert_eq!((who.tenant(), who.principal()), ("acme", "ada"));
        assert_eq!(who.groups(), &BTreeSet::from(["finance".to_owned()]));
        assert_eq!(who.asked_again_at(), None, "nobody asked");
        let id = who.credential().as_str();
        assert!(CredentialId::read(id).is_some() && id.starts_with("oidc:") && !token.contains(id), "{id}");
    }
}

#[test]
fn an_access_token_of_the_same_issuer_names_the_same_person() {
    let issuer = Issuer { principal_prefix: "okta|".to_owned(), ..provider() };
    let id_token = token_with(Algorithm::EdDsa, &json!({}));
    let access_token = token_with(Algorithm::EdDsa, &json!({"nonce": null}));
    let person = checked_by(&id_token, &issuer, None).unwrap();
    let caller = UnverifiedToken::read(&access_token).unwrap().verify(&issuer, &KEYS.set(), NOW).unwrap();
    assert_eq!((person.tenant(), person.principal()), (caller.tenant(), caller.principal()));
    assert_eq!(person.groups(), caller.groups());
}

#[test]
fn what_an_id_token_must_say() {
    use IdTokenError::{AuthorizedParty, Nonce, Token};
    let table = [
        (json!({"iss": "https://evil.test"}), Token(TokenError::Issuer)),
        (json!({"aud": "other"}), Token(TokenError::Audience)),
        (json!({"aud": "console/"}), Token(TokenError::Audience)),
        (json!({"aud": []}), Token(TokenError::Audience)),
        (json!({"aud": null}), Token(TokenError::Claim("aud"))),
        (json!({"aud": [CLIENT, "other"]}), AuthorizedParty),
        (json!({"aud": [CLIENT, "other"], "azp": "other"}), AuthorizedParty),
        (json!({"azp": "other"}), AuthorizedParty),
        (json!({"azp": 1}), AuthorizedParty),
        (json!({"exp": null}), Token(TokenError::Claim("exp"))),
        (json!({"exp": in_s(-31)}), Token(TokenError::Expired)),
        (json!({"iat": null}), Token(TokenError::Claim("iat"))),
        (json!({"iat": in_s(31)}), Token(TokenError::NotYet)),
        (json!({"nbf": in_s(31)}), Token(TokenError::NotYet)),
        (json!({"nonce": null}), Nonce),
        (json!({"nonce": ""}), Nonce),
        (json!({"nonce": "another"}), Nonce),
        (json!({"nonce": [NONCE]}), Nonce),
        (json!({"sub": null}), Token(TokenError::Claim("sub"))),
        (json!({"sub": ""}), Token(TokenError::Claim("sub"))),
        (json!({"sub": "a".repeat(256)}), Token(TokenError::Claim("sub"))),
        (json!({"org": null}), Token(TokenError::ConfiguredClaim)),
        (json!({"groups": 1}), Token(TokenError::ConfiguredClaim)),
        (json!({"groups": null, "_claim_names": {"groups": "src1"}}), Token(TokenError::ConfiguredClaim)),
    ];
    let taken = table.into_iter().filter(|(changes, expected)| checked(changes) != Err(*expected));
    let taken: Vec<String> = taken.map(|(changes, expected)| format!("{changes}: not {expected:?}")).collect();
    assert!(taken.is_empty(), "{}", taken.join("\n"));
    for good in [
        json!({"aud": [CLIENT]}),
        json!({"aud": [CLIENT, "other"], "azp": CLIENT}),
        json!({"azp": CLIENT}),
        json!({"exp": in_s(-29)}),
        json!({"iat": in_s(29), "nbf": in_s(29)}),
        json!({"groups": null}),
    ] {
        assert!(checked(&good).is_ok(), "{good}");
    }
}

#[test]
fn the_access_token_is_the_one_that_came_along() {
    // The second is the example of OpenID Connect Core §A.3: this access token, hashed with SHA-256.
    let sha512 = {
        let hash = Sha512::digest(ACCESS);
        URL_SAFE_NO_PAD.encode(&hash[..32])
    };
    for (algorithm, at_hash, good) in [
        (Algorithm::EdDsa, sha512.as_str(), true),
        (Algorithm::Rs256, "77QmUPtjPfzWtF2AnpK9RQ", true),
        (Algorithm::Es256, "77QmUPtjPfzWtF2AnpK9RQ", true),
        (Algorithm::Rs256, sha512.as_str(), false),
        (Algorithm::EdDsa, "77QmUPtjPfzWtF2AnpK9RQ", false),
        (Algorithm::Rs256, "77QmUPtjPfzWtF2AnpK9RR", false),
        (Algorithm::Rs256, "", false),
    ] {
        let token = token_with(algorithm, &json!({"at_hash": at_hash}));
        let checked = checked_by(&token, &provider(), None);
        assert_eq!(checked.is_ok(), good, "{algorithm:?} {at_hash}");
        assert!(good || checked == Err(IdTokenError::AccessTokenHash));
    }
    assert_eq!(checked(&json!({"at_hash": 1})), Err(IdTokenError::AccessTokenHash));
}

#[test]
fn a_person_who_was_asked_again_showed_it_after_that() {
    let asked_at = Timestamp::from_unix_ms(NOW.unix_ms() - 60_000);
    // The issuer's clock may differ by 30 s; `auth_time` has whole seconds.
    for (auth_time, good) in [
        (in_s(-60), true),
        (in_s(-5), true),
        (in_s(20), true),
        (in_s(-90), true),
        (in_s(-92), false),
        (in_s(-3600), false),
        (in_s(31), false),
        (json!("now"), false),
        (Value::Null, false),
    ] {
        let token = token_with(Algorithm::EdDsa, &json!({"auth_time": auth_time}));
        let checked = checked_by(&token, &provider(), Some(asked_at));
        assert_eq!(checked.is_ok(), good, "{auth_time}: {checked:?}");
        if let Ok(who) = checked {
            assert!(who.asked_again_at().unwrap() <= NOW, "{auth_time}: never later than now");
        }
    }
    // Without having been asked, nothing that the token says counts as having been asked.
    assert_eq!(checked(&json!({"auth_time": in_s(0)})).unwrap().asked_again_at(), None);
}

#[test]
fn an_address_names_a_person_only_if_it_was_verified() {
    let by_address = Issuer { principal_claim: Some("email".to_owned()), ..provider() };
    for (verified, good) in [(json!(true), true), (json!(false), false), (json!("true"), false), (Value::Null, false)] {
        let token = token_with(Algorithm::EdDsa, &json!({"email": "ada@acme.test", "email_verified": verified}));
        let checked = checked_by(&token, &by_address, None);
        assert_eq!(checked.is_ok(), good, "{verified}");
        assert!(good || checked == Err(IdTokenError::UnverifiedEmail));
    }
}

#[test]
fn only_the_providers_keys_and_algorithms_sign() {
    let claims = claims_of_ada().to_string();
    let by = |header: Value, issuer: &Issuer| {
        checked_by(&KEYS.token(Algorithm::EdDsa, &header.to_string(), &claims), issuer, None)
    };
    for name in ["none", "HS256", "RS1", ""] {
        let refused = by(json!({"alg": name, "kid": "ed"}), &provider());
        assert_eq!(refused, Err(IdTokenError::Token(TokenError::Algorithm)), "{name}");
    }
    let only_rsa = Issuer { algorithms: vec![Algorithm::Rs256], ..provider() };
    let refused = by(json!({"alg": "EdDSA", "kid": "ed"}), &only_rsa);
    assert_eq!(refused, Err(IdTokenError::Token(TokenError::AlgorithmOfIssuer)));
    let refused = by(json!({"alg": "EdDSA", "kid": "unknown"}), &provider());
    assert_eq!(refused, Err(IdTokenError::Token(TokenError::Key(NoSuchKey::UnknownKid))));
    let refused = by(json!({"alg": "RS256", "kid": "rsa"}), &provider());
    assert_eq!(refused, Err(IdTokenError::Token(TokenError::Signature)));
    // With the key of another issuer, under the same id.
    let other = json!({"kty": "OKP", "crv": "Ed25519", "kid": "ed", "x": URL_SAFE_NO_PAD.encode([9; 32])});
    let (nonce, access_token) = (Secret::from(NONCE.to_owned()), Secret::from(ACCESS.to_owned()));
    let expected = ExpectedIdToken { nonce: &nonce, access_token: &access_token, asked_again_at: None };
    let token = token_with(Algorithm::EdDsa, &json!({}));
    let refused = UnverifiedIdToken::read(&token).unwrap().verify(&provider(), &set_of(&[other]), &expected, NOW);
    assert_eq!(refused, Err(IdTokenError::Token(TokenError::Signature)));
}

#[test]
fn a_token_of_another_kind_signs_nobody_in() {
    let claims = claims_of_ada().to_string();
    for kind in ["at+jwt", "application/at+jwt", "logout+jwt", "dpop+jwt", "JWT+x", ""] {
        let header = json!({"alg": "EdDSA", "kid": "ed", "typ": kind}).to_string();
        let refused = checked_by(&KEYS.token(Algorithm::EdDsa, &header, &claims), &provider(), None);
        assert_eq!(refused, Err(IdTokenError::Token(TokenError::Type)), "{kind}");
    }
    for header in [json!({"alg": "EdDSA", "kid": "ed"}), json!({"alg": "EdDSA", "kid": "ed", "typ": "application/jwt"})]
    {
        assert!(checked_by(&KEYS.token(Algorithm::EdDsa, &header.to_string(), &claims), &provider(), None).is_ok());
    }
}

#[test]
fn the_tenant_is_one_that_the_provider_may_name() {
    let tenants = Some(BTreeSet::from(["acme".to_owned()]));
    let bound = Issuer { tenant: TenantSource::Claim { claim: "org".to_owned(), tenants }, ..provider() };
    let token = |tenant: &str| token_with(Algorithm::EdDsa, &json!({"org": tenant}));
    assert!(checked_by(&token("acme"), &bound, None).is_ok());
    assert_eq!(checked_by(&token("globex"), &bound, None), Err(IdTokenError::Token(TokenError::Tenant)));
}
