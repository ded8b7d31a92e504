//! A passkey in software, as a browser and its authenticator would answer. Everything that it says can be changed.

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// A person was present and verified.
const VERIFIED: u8 = 0x05;
const HAS_CREDENTIAL: u8 = 0x40;

#[derive(Debug)]
pub(crate) struct SoftPasskey {
    pair: Ed25519KeyPair,
    /// Its `WebAuthn` id.
    pub(crate) id: Vec<u8>,
    /// The person whom it says it belongs to.
    pub(crate) handle: Option<String>,
    /// The counter of its latest signature.
    pub(crate) count: u32,
    /// What it says about the person.
    pub(crate) flags: u8,
    /// The origin of the page, as the browser says.
    pub(crate) origin: String,
    /// The site, if it is not the one that the page asks for.
    pub(crate) rp_id: Option<String>,
}

impl SoftPasskey {
    pub(crate) fn new(seed: u8) -> Self {
        Self {
            pair: Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap(),
            id: vec![seed; 16],
            handle: None,
            count: 0,
            flags: VERIFIED,
            origin: "http://servanda.localhost:7332".to_owned(),
            rp_id: None,
        }
    }

    /// The public key, as people give it to others.
    pub(crate) fn public_key(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.cose())
    }

    /// The answer to `navigator.credentials.create`.
    pub(crate) fn create(&mut self, asked: &Value) -> String {
        self.handle = asked["user"]["id"].as_str().map(str::to_owned);
        let site = asked["rp"]["id"].as_str().unwrap_or_default();
        let length = u16::try_from(self.id.len()).unwrap().to_be_bytes();
        let head = self.authenticator_data(site, self.flags | HAS_CREDENTIAL);
        let data = [&head[..], &[0; 16], &length, &self.id, &self.cose()].concat();
        let data_length = u8::try_from(data.len()).unwrap();
        let attestation =
            [b"\xa3\x63fmt\x64none\x67attStmt\xa0\x68authData\x58".as_slice(), &[data_length], &data].concat();
        json!({
            "id": URL_SAFE_NO_PAD.encode(&self.id),
            "rawId": URL_SAFE_NO_PAD.encode(&self.id),
            "type": "public-key",
            "clientExtensionResults": {},
            "response": {
                "clientDataJSON": URL_SAFE_NO_PAD.encode(self.client_data("webauthn.create", asked)),
                "attestationObject": URL_SAFE_NO_PAD.encode(attestation),
                "transports": ["internal"],
            },
        })
        .to_string()
    }

    /// The same of an authenticator that does not count.
    pub(crate) fn get_without_counter(&mut self, asked: &Value) -> String {
        self.count = 0;
        self.sign(asked)
    }

    /// The answer to `navigator.credentials.get`.
    pub(crate) fn get(&mut self, asked: &Value) -> String {
        self.count += 1;
        self.sign(asked)
    }

    fn sign(&self, asked: &Value) -> String {
        let site = asked["rpId"].as_str().unwrap_or_default();
        let (data, client_data) = (self.authenticator_data(site, self.flags), self.client_data("webauthn.get", asked));
        let signed = [&data[..], &Sha256::digest(&client_data)].concat();
        json!({
            "id": URL_SAFE_NO_PAD.encode(&self.id),
            "rawId": URL_SAFE_NO_PAD.encode(&self.id),
            "type": "public-key",
            "clientExtensionResults": {},
            "response": {
                "clientDataJSON": URL_SAFE_NO_PAD.encode(client_data),
                "authenticatorData": URL_SAFE_NO_PAD.encode(data),
                "signature": URL_SAFE_NO_PAD.encode(self.pair.sign(&signed)),
                "userHandle": self.handle,
            },
        })
        .to_string()
    }

    fn cose(&self) -> Vec<u8> {
        let head = [0xa4, 0x01, 0x01, 0x03, 0x27, 0x20, 0x06, 0x21, 0x58, 0x20];
        [&head[..], self.pair.public_key().as_ref()].concat()
    }

    fn authenticator_data(&self, site: &str, flags: u8) -> Vec<u8> {
        let site = self.rp_id.as_deref().unwrap_or(site);
        [&Sha256::digest(site)[..], &[flags], &self.count.to_be_bytes()].concat()
    }

    fn client_data(&self, ceremony: &str, asked: &Value) -> String {
        json!({ "type": ceremony, "challenge": asked["challenge"], "origin": self.origin, "crossOrigin": false })
            .to_string()
    }
}
