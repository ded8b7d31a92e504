//! Tokens that are accepted, and every known way to make one that must not be.

use hmac::{Hmac, KeyInit as _, Mac as _};
use proptest::prelude::*;
use serde_json::{Value, json};
use sha2::Sha256;

use super::{
    testing::{AUDIENCE, ISSUER, KEYS, claims, header, issuer, set_of},
    *,
};
use crate::{
    rights::Scopes,
    testing::{NOW, in_ms},
};

const ALL: [Algorithm; 4] = [Algorithm::Rs256, Algorithm::Ps256, Algorithm::Es256, Algorithm::EdDsa];

fn check(token: &str) -> Result<AuthenticatedCaller, TokenError> {
    UnverifiedToken::read(token)?.verify(&issuer(), &KEYS.set(), NOW)
}

fn check_with_rsa(token: &str) -> Result<AuthenticatedCaller, TokenError> {
    UnverifiedToken::read(token)?.verify(&issuer(), &KEYS.set_with_rsa(), NOW)
}

/// A token with these changes to valid claims.
fn with(change: &Value) -> String {
    let mut claims = claims();
    for (name, value) in change.as_object().unwrap() {
        match value {
            Value::Null => claims.as_object_mut().unwrap().remove(name),
            value => claims.as_object_mut().unwrap().insert(name.clone(), value.clone()),
        };
    }
    KEYS.token(Algorithm::EdDsa, &header(Algorithm::EdDsa).to_string(), &claims.to_string())
}

fn with_header(change: &Value) -> String {
    let mut header = header(Algorithm::EdDsa);
    header.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    KEYS.token(Algorithm::EdDsa, &header.to_string(), &claims().to_string())
}

fn after_s(seconds: i64) -> Value {
    json!(i64::try_from(NOW.unix_ms() / 1000).unwrap() + seconds)
}

#[test]
fn a_good_token_says_who_for_whom_and_with_what() {
    for algorithm in ALL {
        let token = KEYS.token(algorithm, &header(algorithm).to_string(), &claims().to_string());
        let who = check_with_rsa(&token).unwrap();
        assert_eq!((who.tenant(), who.principal()), ("acme", "ada"));
        assert_eq!(who.rights().scopes, Scopes::from_words(["billing:read", "billing:write"]).unwrap());
        assert_eq!(who.rights().expires_at, in_ms(3_600_000 + 30_000));
        assert_eq!(who.method(), &CredentialMethod::AccessToken { issuer: ISSUER.to_owned() });
    }
}

#[test]
fn tokens_of_another_maker_are_read_alike() {
    use jsonwebtoken::{Algorithm as Theirs, EncodingKey, Header, encode};
    for (ours, theirs) in ALL.into_iter().zip([Theirs::RS256, Theirs::PS256, Theirs::ES256, Theirs::EdDSA]) {
        let der = KEYS.der(ours);
        let key = match ours {
            // The library wants PKCS #1 for RSA, which is in PKCS #8 after 26 bytes for 2048 bits.
            Algorithm::Rs256 | Algorithm::Ps256 => EncodingKey::from_rsa_der(&der[26..]),
            Algorithm::Es256 => EncodingKey::from_ec_der(&der),
            Algorithm::EdDsa => EncodingKey::from_ed_der(&der),
        };
        let kid = header(ours)["kid"].as_str().map(str::to_owned);
        let token = encode(&Header { kid, ..Header::new(theirs) }, &claims(), &key).unwrap();
        assert_eq!(check_with_rsa(&token).unwrap().principal(), "ada", "{theirs:?}");
    }
}

#[test]
fn t28_no_token_without_a_signature_is_taken() {
    let body = URL_SAFE_NO_PAD.encode(claims().to_string());
    for name in ["none", "None", "NONE", "nOnE", ""] {
        let head = URL_SAFE_NO_PAD.encode(json!({"alg": name, "kid": "ed"}).to_string());
        for signature in ["", "AA"] {
            let token = format!("{head}.{body}.{signature}");
            assert_eq!(check(&token).unwrap_err(), TokenError::Algorithm, "{name}");
        }
    }
    let head = URL_SAFE_NO_PAD.encode(header(Algorithm::EdDsa).to_string());
    assert_eq!(check(&format!("{head}.{body}.")).unwrap_err(), TokenError::Signature);
    assert_eq!(check(&format!("{head}.{body}")).unwrap_err(), TokenError::Malformed);
}

#[test]
fn t28_a_public_key_is_no_shared_secret() {
    let (modulus, _) = KEYS.rsa_parts();
    let jwk = KEYS.jwk("rsa").to_string();
    for secret in [modulus.as_slice(), jwk.as_bytes()] {
        let head = json!({"alg": "HS256", "kid": "rsa", "typ": "JWT"}).to_string();
        let signed = format!("{}.{}", URL_SAFE_NO_PAD.encode(head), URL_SAFE_NO_PAD.encode(claims().to_string()));
        let code = Hmac::<Sha256>::new_from_slice(secret).unwrap().chain_update(&signed).finalize().into_bytes();
        let token = format!("{signed}.{}", URL_SAFE_NO_PAD.encode(code));
        assert_eq!(check_with_rsa(&token).unwrap_err(), TokenError::Algorithm);
    }
}

#[test]
fn t28_a_key_is_used_only_with_its_own_algorithms() {
    for (algorithm, kid) in [(Algorithm::EdDsa, "rsa"), (Algorithm::Rs256, "ed"), (Algorithm::Es256, "ed")] {
        let head = json!({"alg": algorithm.name(), "kid": kid}).to_string();
        let token = KEYS.token(algorithm, &head, &claims().to_string());
        assert_eq!(check_with_rsa(&token).unwrap_err(), TokenError::Key(NoSuchKey::OtherAlgorithm), "{kid}");
    }
    // Also with one kind of key, if the issuer said which algorithm it is for.
    let mut jwk = KEYS.jwk("rsa");
    jwk["alg"] = json!("PS256");
    let token = KEYS.token(Algorithm::Rs256, &header(Algorithm::Rs256).to_string(), &claims().to_string());
    let refused = UnverifiedToken::read(&token).unwrap().verify(&issuer(), &set_of(&[jwk]), NOW);
    assert_eq!(refused.unwrap_err(), TokenError::Key(NoSuchKey::OtherAlgorithm));
    // Also if the label of a valid signature is changed.
    let good = KEYS.sign(Algorithm::Ps256, b"message");
    let key = KEYS.set_with_rsa();
    let key = key.find(Some("rsa"), Algorithm::Rs256).unwrap();
    assert!(key.verify(Algorithm::Ps256, b"message", &good).is_ok());
    assert!(key.verify(Algorithm::Rs256, b"message", &good).is_err());
    assert!(key.verify(Algorithm::Es256, b"message", &good).is_err());
}

#[test]
fn t28_an_issuer_uses_only_what_was_agreed() {
    let narrow = Issuer { algorithms: vec![Algorithm::Es256], ..issuer() };
    let token = with(&json!({}));
    let refused = UnverifiedToken::read(&token).unwrap().verify(&narrow, &KEYS.set(), NOW);
    assert_eq!(refused.unwrap_err(), TokenError::AlgorithmOfIssuer);
}

#[test]
fn t28_which_key_is_meant_is_never_guessed() {
    let nameless = json!({"alg": "EdDSA"}).to_string();
    let token = KEYS.token(Algorithm::EdDsa, &nameless, &claims().to_string());
    assert_eq!(check(&token).unwrap_err(), TokenError::Key(NoSuchKey::Ambiguous));
    let only = set_of(&[KEYS.jwk("ed")]);
    assert!(UnverifiedToken::read(&token).unwrap().verify(&issuer(), &only, NOW).is_ok());
    let twice = set_of(&[KEYS.jwk("ed"), KEYS.jwk("ed")]);
    let refused = UnverifiedToken::read(&with(&json!({}))).unwrap().verify(&issuer(), &twice, NOW);
    assert_eq!(refused.unwrap_err(), TokenError::Key(NoSuchKey::Ambiguous));
    assert_eq!(check(&with_header(&json!({"kid": "new"}))).unwrap_err(), TokenError::Key(NoSuchKey::UnknownKid));
    assert_eq!(check(&with_header(&json!({"kid": 1}))).unwrap_err(), TokenError::Malformed);
}

#[test]
fn t28_keys_that_come_with_the_token_are_not_used() {
    let stranger = aws_lc_rs::signature::Ed25519KeyPair::generate().unwrap();
    let public = URL_SAFE_NO_PAD.encode(aws_lc_rs::signature::KeyPair::public_key(&stranger).as_ref());
    let jwk = json!({"kty": "OKP", "crv": "Ed25519", "x": public, "kid": "ed"});
    let head = json!({"alg": "EdDSA", "kid": "ed", "jwk": jwk, "jku": "https://evil.test/keys"}).to_string();
    let signed = format!("{}.{}", URL_SAFE_NO_PAD.encode(head), URL_SAFE_NO_PAD.encode(claims().to_string()));
    let token = format!("{signed}.{}", URL_SAFE_NO_PAD.encode(stranger.sign(signed.as_bytes())));
    assert_eq!(check(&token).unwrap_err(), TokenError::Signature);
}

#[test]
fn t8_tokens_for_others_and_of_others_are_refused() {
    let table = [
        (json!({"aud": "https://other.test/mcp"}), TokenError::Audience),
        (json!({"aud": ["https://other.test", "https://gateway.test"]}), TokenError::Audience),
        (json!({"aud": []}), TokenError::Audience),
        (json!({"aud": format!("{AUDIENCE}/")}), TokenError::Audience),
        (json!({"aud": AUDIENCE.to_uppercase()}), TokenError::Audience),
        (json!({"aud": null}), TokenError::Claim("aud")),
        (json!({"aud": {"x": AUDIENCE}}), TokenError::Claim("aud")),
        (json!({"aud": [AUDIENCE, 1]}), TokenError::Claim("aud")),
        (json!({"iss": "https://issuer.test/"}), TokenError::Issuer),
        (json!({"iss": null}), TokenError::Claim("iss")),
    ];
    for (change, expected) in table {
        assert_eq!(check(&with(&change)).unwrap_err(), expected, "{change}");
    }
    assert!(check(&with(&json!({"aud": ["https://other.test", AUDIENCE]}))).is_ok());
}

#[test]
fn t10_tokens_are_good_in_their_time_only() {
    let table = [
        (json!({"exp": null}), Some(TokenError::Claim("exp"))),
        (json!({"exp": "tomorrow"}), Some(TokenError::Claim("exp"))),
        (json!({"exp": -1}), Some(TokenError::Claim("exp"))),
        (json!({"exp": after_s(-3600)}), Some(TokenError::Expired)),
        (json!({"exp": after_s(-30)}), Some(TokenError::Expired)),
        (json!({"exp": after_s(-29)}), None),
        (json!({"exp": 1e300}), None),
        (json!({"nbf": after_s(31)}), Some(TokenError::NotYet)),
        (json!({"nbf": after_s(30)}), None),
        (json!({"nbf": true}), Some(TokenError::Claim("nbf"))),
        (json!({"iat": after_s(31)}), Some(TokenError::NotYet)),
    ];
    for (change, expected) in table {
        assert_eq!(check(&with(&change)).err(), expected, "{change}");
    }
    let generous = Issuer { leeway_ms: u64::MAX, ..issuer() };
    let token = with(&json!({"exp": after_s(-121)}));
    let refused = UnverifiedToken::read(&token).unwrap().verify(&generous, &KEYS.set(), NOW);
    assert_eq!(refused.unwrap_err(), TokenError::Expired, "no configuration makes a leeway of hours");
}

#[test]
fn t28_one_text_has_one_meaning() {
    let head = header(Algorithm::EdDsa).to_string();
    let twice = claims().to_string().replacen('{', r#"{"sub":"eve","#, 1);
    assert_eq!(check(&KEYS.token(Algorithm::EdDsa, &head, &twice)).unwrap_err(), TokenError::Malformed);
    let twice = head.replacen('{', r#"{"alg":"none","#, 1);
    assert_eq!(check(&KEYS.token(Algorithm::EdDsa, &twice, &claims().to_string())).unwrap_err(), TokenError::Malformed);
    let good = with(&json!({}));
    for broken in
        [format!("{good}="), format!("{good}\n"), format!(" {good}"), format!("{good}.AA"), format!(".{good}")]
    {
        assert_eq!(check(&broken).unwrap_err(), TokenError::Malformed, "{broken}");
    }
}

#[test]
fn t28_other_kinds_of_tokens_and_unknown_extensions_are_refused() {
    for kind in ["logout+jwt", "dpop+jwt", "servanda-call+jwt", "JWE", ""] {
        assert_eq!(check(&with_header(&json!({"typ": kind}))).unwrap_err(), TokenError::Type, "{kind}");
    }
    for kind in ["JWT", "jwt", "at+jwt", "application/at+jwt"] {
        assert!(check(&with_header(&json!({"typ": kind}))).is_ok(), "{kind}");
    }
    assert_eq!(check(&with_header(&json!({"crit": ["exp"]}))).unwrap_err(), TokenError::Critical);
}

#[test]
fn everything_about_a_token_is_bounded() {
    let huge = with(&json!({"x": "x".repeat(TOKEN_BYTES_MAX)}));
    assert_eq!(check(&huge).unwrap_err(), TokenError::TooLong);
    let deep = format!("{}{}", r#"{"a":"#.repeat(40), "1") + &"}".repeat(40);
    let deep = claims().to_string().replacen('{', &format!(r#"{{"x":{deep},"#), 1);
    let token = KEYS.token(Algorithm::EdDsa, &header(Algorithm::EdDsa).to_string(), &deep);
    assert_eq!(check(&token).unwrap_err(), TokenError::Malformed);
    let many: Vec<String> = (0..200).map(|number| number.to_string()).collect();
    assert_eq!(
        check(&with(&json!({"scope": many.join(" ")}))).unwrap_err(),
        TokenError::Scopes(InvalidScopeText::TooMany)
    );
    let mut act = json!({"sub": "a"});
    for _ in 0..8 {
        act = json!({"sub": "a", "act": act});
    }
    assert_eq!(check(&with(&json!({"act": act}))).unwrap_err(), TokenError::Actors);
}

#[test]
fn scopes_are_read_in_every_usual_form_and_never_widened() {
    let table = [
        (json!({"scope": null}), Scopes::none()),
        (json!({"scope": null, "scp": "a b"}), Scopes::from_words(["a", "b"]).unwrap()),
        (json!({"scope": null, "scp": ["a", "b"]}), Scopes::from_words(["a", "b"]).unwrap()),
        (json!({"scope": "a b", "scp": ["b", "c"]}), Scopes::from_words(["b"]).unwrap()),
        (json!({"scope": "all *"}), Scopes::from_words(["all", "*"]).unwrap()),
    ];
    for (change, expected) in table {
        assert_eq!(check(&with(&change)).unwrap().rights().scopes, expected, "{change}");
    }
    assert_eq!(check(&with(&json!({"scope": ["a"]}))).unwrap_err(), TokenError::Claim("scope"));
    assert_eq!(check(&with(&json!({"scp": [1]}))).unwrap_err(), TokenError::Claim("scp"));
    let ceiling = Rights { scopes: Scopes::from_words(["billing:read"]).unwrap(), ..Rights::unlimited() };
    let strict = Issuer { rights: ceiling.clone(), ..issuer() };
    let who = UnverifiedToken::read(&with(&json!({}))).unwrap().verify(&strict, &KEYS.set(), NOW).unwrap();
    assert!(who.rights().is_within(&ceiling));
}

#[test]
fn user_and_agents_are_kept_apart() {
    let token = with(&json!({"act": {"sub": "planner", "act": {"sub": "assistant", "iss": "x"}}}));
    let who = check(&token).unwrap();
    assert_eq!(who.principal(), "ada");
    assert_eq!(who.actors().iter().map(crate::Actor::name).collect::<Vec<_>>(), ["planner", "assistant"]);
    assert!(who.actors().iter().all(crate::Actor::is_proven), "the issuer says so");
    for act in [json!("planner"), json!({}), json!({"sub": ""}), json!({"sub": "a", "act": 1})] {
        assert_eq!(check(&with(&json!({"act": act}))).unwrap_err(), TokenError::Claim("act"), "{act}");
    }
}

#[test]
fn tenant_and_principal_come_from_where_it_was_agreed() {
    assert_eq!(check(&with(&json!({"org": null}))).unwrap_err(), TokenError::ConfiguredClaim);
    assert_eq!(check(&with(&json!({"sub": null}))).unwrap_err(), TokenError::Claim("sub"));
    assert_eq!(check(&with(&json!({"sub": 7}))).unwrap_err(), TokenError::Claim("sub"));
    let other =
        Issuer { tenant: TenantSource::Fixed("one".to_owned()), principal_claim: Some("email".to_owned()), ..issuer() };
    let verify = |token: &str| UnverifiedToken::read(token).unwrap().verify(&other, &KEYS.set(), NOW);
    let who = verify(&with(&json!({"email": "ada@acme.test"}))).unwrap();
    assert_eq!((who.tenant(), who.principal()), ("one", "ada@acme.test"));
    assert_eq!(verify(&with(&json!({}))).unwrap_err(), TokenError::ConfiguredClaim);
}

#[test]
fn t12_an_issuer_names_only_its_own_tenants_and_users() {
    let tenants = Some(["acme".to_owned()].into());
    let tenant = TenantSource::Claim { claim: "org".to_owned(), tenants };
    let bound = Issuer { tenant, principal_prefix: "partner:".to_owned(), ..issuer() };
    let verify = |token: &str| UnverifiedToken::read(token).unwrap().verify(&bound, &KEYS.set(), NOW);
    let who = verify(&with(&json!({}))).unwrap();
    assert_eq!((who.tenant(), who.principal()), ("acme", "partner:ada"));
    for other in ["globex", "local", "Acme"] {
        assert_eq!(verify(&with(&json!({"org": other}))).unwrap_err(), TokenError::Tenant, "{other}");
    }
    let empty = verify(&with(&json!({"sub": ""}))).unwrap_err();
    assert_eq!(empty, TokenError::ConfiguredClaim, "a prefix is no name");
}

#[test]
fn t11_a_token_is_revoked_whatever_its_signature_looks_like() {
    let token =
        |claims: &Value| KEYS.token(Algorithm::Es256, &header(Algorithm::Es256).to_string(), &claims.to_string());
    let (one, two) = (token(&claims()), token(&claims()));
    assert_ne!(one, two, "signatures of this algorithm differ");
    assert_eq!(check(&one).unwrap().credential(), check(&two).unwrap().credential());
    let named = check(&with(&json!({"jti": "t-1"}))).unwrap();
    assert_eq!(named.credential(), &credential_of_id(ISSUER, "t-1"));
    assert_eq!(check(&with(&json!({"jti": ""}))).unwrap_err(), TokenError::Claim("jti"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn t28_a_token_with_any_byte_changed_is_refused(at in any::<prop::sample::Index>(), to in any::<u8>()) {
        let token = with(&json!({}));
        let mut bytes = token.clone().into_bytes();
        let at = at.index(bytes.len());
        prop_assume!(bytes[at] != to);
        bytes[at] = to;
        if let Ok(changed) = std::str::from_utf8(&bytes) {
            prop_assert!(check(changed).is_err());
        }
    }

    #[test]
    fn reading_never_panics(text in "[A-Za-z0-9_.=-]{0,200}") {
        let _ = UnverifiedToken::read(&text);
    }
}

#[test]
fn groups_are_what_the_configured_claim_lists() {
    let grouped = Issuer { groups_claim: Some("groups".to_owned()), ..issuer() };
    let verify = |change: &Value| UnverifiedToken::read(&with(change)).unwrap().verify(&grouped, &KEYS.set(), NOW);
    let groups = |change: Value| verify(&change).unwrap().groups().iter().cloned().collect::<Vec<_>>();
    assert_eq!(groups(json!({"groups": ["b", "a", "b"]})), ["a", "b"]);
    assert_eq!(groups(json!({"groups": "a"})), ["a"]);
    assert!(groups(json!({})).is_empty());
    assert!(check(&with(&json!({"groups": ["a"]}))).unwrap().groups().is_empty(), "the claim is not configured");
    let many: Vec<String> = (0..=crate::caller::GROUPS_MAX).map(|number| number.to_string()).collect();
    let elsewhere = json!({"_claim_names": {"groups": "src1"}, "_claim_sources": {"src1": {"endpoint": "https://x"}}});
    assert!(groups(json!({"_claim_names": {"other": "src1"}, "hasgroups": false})).is_empty());
    for change in [
        json!({"groups": 1}),
        json!({"groups": [1]}),
        json!({"groups": [""]}),
        json!({"groups": many}),
        // There are too many for a token, and the token does not list them.
        elsewhere,
        json!({"hasgroups": true}),
    ] {
        assert_eq!(verify(&change).unwrap_err(), TokenError::ConfiguredClaim, "{change}");
    }
}
