//! Headers, and the kinds of credentials in them.

use super::*;
use crate::{
    signature::Algorithm,
    token::testing::{KEYS, claims, header},
};

#[test]
fn the_kind_is_read_from_the_credential() {
    let token = KEYS.token(Algorithm::EdDsa, &header(Algorithm::EdDsa).to_string(), &claims().to_string());
    let key = format!("svk_00112233445566778899_{}", "A".repeat(43));
    let table = [
        (format!("Bearer {token}"), "Bearer::AccessToken"),
        (format!("bearer  {token}"), "Bearer::AccessToken"),
        (format!("BEARER {key}"), "Bearer::ApiKey"),
        ("Bearer sva1.a.b".to_owned(), "Bearer::AgentCredential"),
    ];
    for (header, expected) in table {
        assert_eq!(format!("{:?}", Bearer::read(&header).unwrap()), expected);
    }
}

#[test]
fn anything_else_is_refused() {
    let long = format!("Bearer {}", "a".repeat(HEADER_BYTES_MAX));
    for header in
        ["", "Bearer", "Bearer ", "Bearer  ", "Basic YTpi", "Bearer a b", "Bearer a\u{e9}", "Bearer\ta", &long]
    {
        assert_eq!(Bearer::read(header).unwrap_err(), AuthenticationError::Header, "{header}");
    }
    assert_eq!(Bearer::read("Bearer svk_x").unwrap_err(), AuthenticationError::ApiKey(KeyError::Malformed));
    let error = Bearer::read("Bearer abc").unwrap_err();
    assert_eq!(error, AuthenticationError::AccessToken(TokenError::Malformed));
}

#[test]
fn a_forger_does_not_learn_how_far_a_credential_came() {
    // A caller that shows no credential at all learns how to send one.
    assert!(AuthenticationError::Header.client_message().contains("`Authorization: Bearer`"));
    let alike = [
        AuthenticationError::UnknownIssuer,
        KeyError::Malformed.into(),
        KeyError::Unknown.into(),
        CapabilityError::Forged.into(),
        CapabilityError::UnknownKey.into(),
        CapabilityError::Depth.into(),
    ];
    assert!(
        alike.iter().all(|error: &AuthenticationError| error.client_message() == "the credential is not valid here")
    );
    let tokens = [TokenError::Signature, TokenError::Issuer, TokenError::Algorithm, TokenError::Tenant];
    assert!(tokens.iter().all(|error| error.client_message() == "the access token is not valid here"));
    assert!(AuthenticationError::KeysUnavailable.is_temporary());
    assert!(!AuthenticationError::from(KeyError::Expired).is_temporary());
}
