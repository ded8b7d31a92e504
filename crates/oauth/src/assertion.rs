//! Assertions that a client signs about itself, to authenticate at a token endpoint (RFC 7523 §2.2).

use std::{fmt, sync::Arc};

use aws_lc_rs::{
    rand::SystemRandom,
    signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, RSA_PKCS1_SHA256, RSA_PSS_SHA256, RsaKeyPair,
    },
};
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use serde_json::json;
use servanda_authority::{Secret, signature::Algorithm};
use servanda_contract::Timestamp;
use zeroize::Zeroizing;

use crate::pkce::random_text;

/// The `client_assertion_type` of such an assertion.
pub const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
/// How long an assertion is valid: as long as a request may take.
const LIFETIME_S: u64 = 60;
const KEY_BYTES_MAX: usize = 16 << 10;

/// The private key of a client.
#[derive(Clone)]
pub struct SigningKey(Arc<Inner>);

struct Inner {
    pair: SigningKeyPair,
    algorithm: Algorithm,
    kid: Option<String>,
}

enum SigningKeyPair {
    P256(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
    Rsa(RsaKeyPair),
}

/// The text is not a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a signing key is a PKCS #8 private key in PEM: P-256 for ES256, Ed25519 for EdDSA, RSA for RS256 and PS256")]
pub struct InvalidSigningKey(());

/// The assertion could not be signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the client's assertion could not be signed")]
pub struct AssertionError(());

impl SigningKey {
    /// Reads a key for one algorithm.
    pub fn read(pem: &Secret, algorithm: Algorithm, kid: Option<String>) -> Result<Self, InvalidSigningKey> {
        let der = der(pem).ok_or(InvalidSigningKey(()))?;
        let pair = match algorithm {
            Algorithm::Es256 => {
                EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der).ok().map(SigningKeyPair::P256)
            }
            Algorithm::EdDsa => Ed25519KeyPair::from_pkcs8(&der).ok().map(SigningKeyPair::Ed25519),
            Algorithm::Rs256 | Algorithm::Ps256 => RsaKeyPair::from_pkcs8(&der).ok().map(SigningKeyPair::Rsa),
        };
        let pair = pair.ok_or(InvalidSigningKey(()))?;
        Ok(Self(Arc::new(Inner { pair, algorithm, kid })))
    }

    /// Its algorithm.
    pub fn algorithm(&self) -> Algorithm {
        self.0.algorithm
    }

    /// An assertion of that client for that server, valid for a minute and for one use.
    pub fn assert(&self, client_id: &str, issuer: &str, now: Timestamp) -> Result<Secret, AssertionError> {
        let mut header = json!({"typ": "JWT", "alg": self.0.algorithm.name()});
        if let (Some(kid), Some(fields)) = (&self.0.kid, header.as_object_mut()) {
            fields.insert("kid".to_owned(), json!(kid));
        }
        let id = random_text().map_err(|_| AssertionError(()))?;
        let issued_s = now.unix_ms() / 1000;
        let claims = json!({
            "iss": client_id,
            "sub": client_id,
            "aud": issuer,
            "jti": id.as_text(),
            "iat": issued_s,
            "exp": issued_s + LIFETIME_S,
        });
        let encoded = |value: &serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", encoded(&header), encoded(&claims));
        let signature = self.sign(signed.as_bytes()).ok_or(AssertionError(()))?;
        Ok(Secret::from(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))))
    }

    fn sign(&self, message: &[u8]) -> Option<Vec<u8>> {
        let random = SystemRandom::new();
        match &self.0.pair {
            SigningKeyPair::P256(pair) => pair.sign(&random, message).ok().map(|signature| signature.as_ref().to_vec()),
            SigningKeyPair::Ed25519(pair) => pair.try_sign(message).ok().map(|signature| signature.as_ref().to_vec()),
            SigningKeyPair::Rsa(pair) => {
                let padding = if self.0.algorithm == Algorithm::Ps256 { &RSA_PSS_SHA256 } else { &RSA_PKCS1_SHA256 };
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(padding, &random, message, &mut signature).ok().map(|()| signature)
            }
        }
    }
}

/// The bytes between the markers of a PEM file.
fn der(pem: &Secret) -> Option<Zeroizing<Vec<u8>>> {
    let text = pem.as_text().filter(|text| text.len() <= KEY_BYTES_MAX)?;
    let (_, rest) = text.split_once("-----BEGIN PRIVATE KEY-----")?;
    let (body, _) = rest.split_once("-----END PRIVATE KEY-----")?;
    let body: Zeroizing<String> =
        Zeroizing::new(body.chars().filter(|character| !character.is_ascii_whitespace()).collect());
    STANDARD.decode(body.as_bytes()).ok().map(Zeroizing::new)
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SigningKey").field("algorithm", &self.0.algorithm).finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use aws_lc_rs::signature::KeyPair as _;
    use jsonwebtoken::{Algorithm as Theirs, DecodingKey, Validation, decode};

    use super::*;

    /// A new key and its public half.
    pub(crate) fn ed25519() -> (Secret, Vec<u8>) {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        let public = Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap().public_key().as_ref().to_vec();
        (pem(document.as_ref()), public)
    }

    fn pem(der: &[u8]) -> Secret {
        let body = STANDARD.encode(der);
        Secret::from(format!("-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n"))
    }

    fn read_by_server(token: &Secret, algorithm: Theirs, key: &DecodingKey) -> serde_json::Value {
        let mut validation = Validation::new(algorithm);
        validation.set_audience(&["https://as.test"]);
        validation.set_issuer(&["client"]);
        validation.validate_exp = false;
        decode(token.as_text().unwrap(), key, &validation).unwrap().claims
    }

    #[test]
    fn another_library_accepts_what_we_sign() {
        let now = Timestamp::from_unix_ms(1_700_000_000_999);
        let (ed, public) = ed25519();
        let ed = SigningKey::read(&ed, Algorithm::EdDsa, Some("k1".to_owned())).unwrap();
        let token = ed.assert("client", "https://as.test", now).unwrap();
        let claims = read_by_server(&token, Theirs::EdDSA, &DecodingKey::from_ed_der(&public));
        assert_eq!((claims["sub"].as_str(), claims["exp"].as_u64()), (Some("client"), Some(1_700_000_060)));
        assert_eq!(jsonwebtoken::decode_header(token.as_text().unwrap()).unwrap().kid.as_deref(), Some("k1"));
        let again = ed.assert("client", "https://as.test", now).unwrap();
        assert_ne!(token.expose(), again.expose(), "each is good once");

        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref()).unwrap();
        let p256 = SigningKey::read(&pem(document.as_ref()), Algorithm::Es256, None).unwrap();
        let token = p256.assert("client", "https://as.test", now).unwrap();
        let point = pair.public_key().as_ref().to_vec();
        let coordinate = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let key = DecodingKey::from_ec_components(&coordinate(&point[1..33]), &coordinate(&point[33..])).unwrap();
        read_by_server(&token, Theirs::ES256, &key);
    }

    #[test]
    fn text_that_is_no_key_of_the_algorithm_is_refused() {
        let (ed, _) = ed25519();
        assert!(SigningKey::read(&ed, Algorithm::Es256, None).is_err());
        assert!(SigningKey::read(&ed, Algorithm::Rs256, None).is_err());
        for text in ["", "nothing", "-----BEGIN PRIVATE KEY-----\n!!\n-----END PRIVATE KEY-----"] {
            assert!(SigningKey::read(&Secret::from(text.to_owned()), Algorithm::EdDsa, None).is_err(), "{text}");
        }
        let key = SigningKey::read(&ed, Algorithm::EdDsa, None).unwrap();
        assert_eq!(format!("{key:?}"), "SigningKey { algorithm: EdDsa, .. }");
    }
}
