//! Key sets as issuers publish them, and as they must not.

use serde_json::json;

use super::*;
use crate::token::testing::KEYS;

fn read(keys: &[Value]) -> Result<KeySet, KeySetError> {
    KeySet::read(json!({"keys": keys}).to_string().as_bytes())
}

/// The reason why a valid key with this change is ignored.
fn reason(kind: &str, change: &Value) -> UnusedIssuerKeyReason {
    let mut key = KEYS.jwk(kind);
    key.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    let good = KEYS.jwk("p256");
    let set = read(&[good, key]).unwrap();
    assert_eq!(set.keys.len(), 1, "{change}");
    set.left_out()[0].reason
}

#[test]
fn t28_only_what_can_verify_is_used() {
    let short = URL_SAFE_NO_PAD.encode([255; 128]);
    let zero = URL_SAFE_NO_PAD.encode([[0; 1].as_slice(), &[255; 256]].concat());
    let table = [
        ("rsa", json!({"use": "enc"}), UnusedIssuerKeyReason::Kind),
        ("rsa", json!({"key_ops": ["encrypt"]}), UnusedIssuerKeyReason::Kind),
        ("rsa", json!({"alg": "RSA-OAEP"}), UnusedIssuerKeyReason::Kind),
        ("rsa", json!({"alg": "HS256"}), UnusedIssuerKeyReason::Kind),
        ("rsa", json!({"alg": "ES256"}), UnusedIssuerKeyReason::Malformed),
        ("rsa", json!({"n": short}), UnusedIssuerKeyReason::Malformed),
        ("rsa", json!({"n": zero}), UnusedIssuerKeyReason::Malformed),
        ("rsa", json!({"e": "AQ"}), UnusedIssuerKeyReason::Malformed),
        ("rsa", json!({"e": "AQAA"}), UnusedIssuerKeyReason::Malformed),
        ("rsa", json!({"e": "AAEAAQ"}), UnusedIssuerKeyReason::Malformed),
        ("rsa", json!({"e": URL_SAFE_NO_PAD.encode([255; 5])}), UnusedIssuerKeyReason::Malformed),
        ("rsa", json!({"e": 65537}), UnusedIssuerKeyReason::Malformed),
        ("rsa", json!({"d": "AQ"}), UnusedIssuerKeyReason::PrivateHalf),
        ("rsa", json!({"kty": "oct", "k": "AQ"}), UnusedIssuerKeyReason::PrivateHalf),
        ("rsa", json!({"kty": "oct"}), UnusedIssuerKeyReason::Kind),
        ("rsa", json!({"kid": 5}), UnusedIssuerKeyReason::Malformed),
        ("p256", json!({"crv": "P-384"}), UnusedIssuerKeyReason::Kind),
        ("p256", json!({"crv": "secp256k1"}), UnusedIssuerKeyReason::Kind),
        ("p256", json!({"x": "AQ"}), UnusedIssuerKeyReason::Malformed),
        ("ed", json!({"crv": "X25519"}), UnusedIssuerKeyReason::Kind),
        ("ed", json!({"x": format!("{}=", "A".repeat(43))}), UnusedIssuerKeyReason::Malformed),
    ];
    for (kind, change, expected) in table {
        assert_eq!(reason(kind, &change), expected, "{kind} {change}");
    }
}

#[test]
fn t28_a_point_that_is_not_on_the_curve_verifies_nothing() {
    let mut key = KEYS.jwk("p256");
    key["y"] = key["x"].clone();
    let set = read(&[key]).unwrap();
    let signature = KEYS.sign(Algorithm::Es256, b"message");
    assert!(
        set.find(Some("p256"), Algorithm::Es256).unwrap().verify(Algorithm::Es256, b"message", &signature).is_err()
    );
}

#[test]
fn sets_are_read_strictly_and_bounded() {
    let not_json = |error: KeySetError| matches!(error, KeySetError::NotJson(_));
    assert!(not_json(KeySet::read(br#"{"keys":[],"keys":[]}"#).unwrap_err()));
    assert!(not_json(KeySet::read(&vec![b' '; SET_BYTES_MAX + 1]).unwrap_err()));
    for text in ["[]", "{}", r#"{"keys":{}}"#, r#"{"keys":[1]}"#] {
        assert_eq!(KeySet::read(text.as_bytes()).unwrap_err(), KeySetError::Shape, "{text}");
    }
    assert_eq!(read(&vec![json!({}); KEYS_MAX + 1]).unwrap_err(), KeySetError::TooMany);
    assert_eq!(read(&[json!({"kty": "oct"})]).unwrap_err(), KeySetError::Empty);
}
