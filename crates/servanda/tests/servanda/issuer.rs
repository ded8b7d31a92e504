//! An authorization server as a gateway sees it: metadata, keys of two kinds, and tokens with any header, claims and signature that a test
//! wants.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::TcpListener,
    sync::LazyLock,
    thread,
};

use aws_lc_rs::{
    rand::SystemRandom,
    rsa::KeySize,
    signature::{Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RSA_PSS_SHA256, RsaEncoding, RsaKeyPair},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use servanda_contract::time::Clock as _;
use servanda_engine::SystemClock;

/// Generated once, because that takes long, and shared by all issuers: their other keys differ.
static RSA: LazyLock<RsaKeyPair> = LazyLock::new(|| RsaKeyPair::generate(KeySize::Rsa2048).unwrap());

/// An issuer that answers on loopback until the test is over.
pub(crate) struct Issuer {
    pub(crate) url: String,
    ed25519: Ed25519KeyPair,
}

impl Issuer {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let issuer = Self { url: url.clone(), ed25519: Ed25519KeyPair::generate().unwrap() };
        let metadata = json!({ "issuer": url, "jwks_uri": format!("{url}/keys") }).to_string();
        let keys = json!({ "keys": [Self::rsa_key(), issuer.ed25519_key()] }).to_string();
        thread::spawn(move || {
            for mut connection in listener.incoming().map_while(Result::ok) {
                let mut lines = BufReader::new(connection.try_clone().unwrap()).lines().map_while(Result::ok);
                let first = lines.next().unwrap_or_default();
                while lines.next().is_some_and(|line| !line.is_empty()) {}
                let (status, body) = match first.split(' ').nth(1) {
                    Some("/.well-known/openid-configuration") => (200, &metadata),
                    Some("/keys") => (200, &keys),
                    _ => (404, &String::new()),
                };
                let length = body.len();
                let head = format!("HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
                let _ = connection.write_all(format!("{head}{body}").as_bytes());
            }
        });
        issuer
    }

    /// Valid claims for that audience, with these changes.
    pub(crate) fn claims(&self, audience: &str, changes: &Value) -> Value {
        let now = SystemClock.now().unix_ms() / 1000;
        let mut claims = json!({ "iss": self.url, "aud": audience, "sub": "ada", "iat": now, "exp": now + 300, "scope": "company:read" });
        claims.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        claims
    }

    /// A valid token for that audience, with these changes to its claims.
    pub(crate) fn token(&self, audience: &str, changes: &Value) -> String {
        let header = json!({ "alg": "RS256", "kid": "rsa", "typ": "at+jwt" });
        self.signed(&header, &self.claims(audience, changes), "RS256")
    }

    /// A token with this header and these claims, signed with the key of that algorithm whatever its header says.
    pub(crate) fn signed(&self, header: &Value, claims: &Value, algorithm: &str) -> String {
        let signed = unsigned(header, claims);
        let signature = if algorithm == "EdDSA" {
            self.ed25519.sign(signed.as_bytes()).as_ref().to_vec()
        } else {
            let padding: &dyn RsaEncoding = if algorithm == "PS256" { &RSA_PSS_SHA256 } else { &RSA_PKCS1_SHA256 };
            let mut signature = vec![0; RSA.public_modulus_len()];
            RSA.sign(padding, &SystemRandom::new(), signed.as_bytes(), &mut signature).unwrap();
            signature
        };
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    /// The published RSA key.
    pub(crate) fn rsa_key() -> Value {
        // SEQUENCE { INTEGER, INTEGER }, whose lengths are fixed for 2048 bits and 65537.
        let der = RSA.public_key().as_ref();
        let (n, e) = (URL_SAFE_NO_PAD.encode(&der[9..265]), URL_SAFE_NO_PAD.encode(&der[267..]));
        json!({ "kty": "RSA", "kid": "rsa", "use": "sig", "n": n, "e": e })
    }

    /// Its DER bytes, which a verifier that confuses algorithms would take for a shared secret.
    pub(crate) fn rsa_der() -> Vec<u8> {
        RSA.public_key().as_ref().to_vec()
    }

    pub(crate) fn ed25519_key(&self) -> Value {
        let x = URL_SAFE_NO_PAD.encode(self.ed25519.public_key().as_ref());
        json!({ "kty": "OKP", "crv": "Ed25519", "kid": "ed", "x": x })
    }

    /// Its entry for `auth.issuers` of a configuration.
    pub(crate) fn config(&self) -> Value {
        json!({ "issuer": self.url, "tenant": "acme", "groups_claim": "groups" })
    }
}

/// A token without its signature.
pub(crate) fn unsigned(header: &Value, claims: &Value) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}", part(header), part(claims))
}
