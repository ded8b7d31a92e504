//! An issuer for tests: a key of each kind, its key set, and tokens with any header and claims.

use std::sync::LazyLock;

use aws_lc_rs::{
    encoding::AsDer as _,
    rand::SystemRandom,
    rsa::KeySize,
    signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RSA_PSS_SHA256,
        RsaKeyPair,
    },
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use super::{Issuer, TenantSource};
use crate::{jwks::KeySet, rights::Rights, signature::Algorithm, testing::NOW};

pub(crate) const AUDIENCE: &str = "https://gateway.test/mcp";
pub(crate) const ISSUER: &str = "https://issuer.test";

pub(crate) static KEYS: LazyLock<TestIssuerKeyPairs> = LazyLock::new(TestIssuerKeyPairs::new);

pub(crate) struct TestIssuerKeyPairs {
    /// These take a while to generate, so only the tests that need one do.
    pub(crate) rsa: LazyLock<RsaKeyPair>,
    pub(crate) p256: EcdsaKeyPair,
    pub(crate) ed25519: Ed25519KeyPair,
}

impl TestIssuerKeyPairs {
    fn new() -> Self {
        Self {
            rsa: LazyLock::new(|| RsaKeyPair::generate(KeySize::Rsa2048).unwrap()),
            p256: EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap(),
            ed25519: Ed25519KeyPair::generate().unwrap(),
        }
    }

    pub(crate) fn jwk(&self, kind: &str) -> Value {
        let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        match kind {
            "rsa" => {
                let (modulus, exponent) = self.rsa_parts();
                json!({"kty": "RSA", "kid": "rsa", "use": "sig", "n": encode(&modulus), "e": encode(&exponent)})
            }
            "p256" => {
                let point = self.p256.public_key().as_ref();
                json!({"kty": "EC", "crv": "P-256", "kid": "p256", "x": encode(&point[1..33]), "y": encode(&point[33..])})
            }
            _ => {
                let key = encode(self.ed25519.public_key().as_ref());
                json!({"kty": "OKP", "crv": "Ed25519", "kid": "ed", "alg": "EdDSA", "x": key})
            }
        }
    }

    /// Parses `SEQUENCE { INTEGER, INTEGER }`, whose lengths are fixed for 2048 bits and 65537.
    pub(crate) fn rsa_parts(&self) -> (Vec<u8>, Vec<u8>) {
        let der = self.rsa.public_key().as_ref();
        assert_eq!((&der[..9], &der[265..267]), (&[0x30, 0x82, 1, 10, 2, 0x82, 1, 1, 0][..], &[2, 3][..]));
        (der[9..265].to_vec(), der[267..].to_vec())
    }

    pub(crate) fn set(&self) -> KeySet {
        set_of(&[self.jwk("p256"), self.jwk("ed")])
    }

    pub(crate) fn set_with_rsa(&self) -> KeySet {
        set_of(&[self.jwk("rsa"), self.jwk("p256"), self.jwk("ed")])
    }

    pub(crate) fn sign(&self, algorithm: Algorithm, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match algorithm {
            Algorithm::EdDsa => self.ed25519.sign(message).as_ref().to_vec(),
            Algorithm::Es256 => self.p256.sign(&random, message).unwrap().as_ref().to_vec(),
            Algorithm::Rs256 | Algorithm::Ps256 => {
                let padding: &dyn aws_lc_rs::signature::RsaEncoding =
                    if algorithm == Algorithm::Rs256 { &RSA_PKCS1_SHA256 } else { &RSA_PSS_SHA256 };
                let mut signature = vec![0; self.rsa.public_modulus_len()];
                self.rsa.sign(padding, &random, message, &mut signature).unwrap();
                signature
            }
        }
    }

    /// A token with this exact text.
    pub(crate) fn token(&self, algorithm: Algorithm, header: &str, claims: &str) -> String {
        let signed = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
        let signature = self.sign(algorithm, signed.as_bytes());
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    /// The private keys in the form that the independent library reads.
    pub(crate) fn der(&self, algorithm: Algorithm) -> Vec<u8> {
        match algorithm {
            Algorithm::EdDsa => self.ed25519.to_pkcs8().unwrap().as_ref().to_vec(),
            Algorithm::Es256 => self.p256.to_pkcs8v1().unwrap().as_ref().to_vec(),
            Algorithm::Rs256 | Algorithm::Ps256 => self.rsa.as_der().unwrap().as_ref().to_vec(),
        }
    }
}

pub(crate) fn set_of(keys: &[Value]) -> KeySet {
    KeySet::read(json!({"keys": keys}).to_string().as_bytes()).unwrap()
}

pub(crate) fn header(algorithm: Algorithm) -> Value {
    let kid = match algorithm {
        Algorithm::Rs256 | Algorithm::Ps256 => "rsa",
        Algorithm::Es256 => "p256",
        Algorithm::EdDsa => "ed",
    };
    json!({"alg": algorithm.name(), "kid": kid, "typ": "at+jwt"})
}

/// Valid claims.
pub(crate) fn claims() -> Value {
    json!({
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "ada",
        "exp": NOW.unix_ms() / 1000 + 3600,
        "nbf": NOW.unix_ms() / 1000,
        "scope": "billing:read billing:write",
        "org": "acme",
    })
}

pub(crate) fn issuer() -> Issuer {
    Issuer {
        issuer: ISSUER.to_owned(),
        audience: AUDIENCE.to_owned(),
        algorithms: vec![Algorithm::Rs256, Algorithm::Ps256, Algorithm::Es256, Algorithm::EdDsa],
        tenant: TenantSource::Claim { claim: "org".to_owned(), tenants: None },
        principal_claim: None,
        principal_prefix: String::new(),
        groups_claim: None,
        rights: Rights::unlimited(),
        leeway_ms: 30_000,
    }
}
