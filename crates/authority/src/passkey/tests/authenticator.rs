//! An authenticator for tests: it signs whatever it is told to sign.

use aws_lc_rs::{
    rand::SystemRandom,
    rsa::KeySize,
    signature::{
        ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm,
        KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
    },
};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::{super::*, encoded};

pub(super) const CHALLENGE: [u8; 32] = [7; 32];
pub(super) const ORIGIN: &str = "https://console.example.com";
const ID: &[u8] = b"credential";

/// User present and verified.
pub(super) const VERIFIED: u8 = 0x05;
pub(super) const ATTESTED: u8 = 0x40;

pub(super) fn party() -> RelyingParty {
    RelyingParty::of_origin(ORIGIN).unwrap()
}

/// The parts of CBOR that the tests write.
pub(super) mod write {
    pub(in super::super) fn head(major: u8, argument: usize) -> Vec<u8> {
        let (major, bytes) = (major << 5, u32::try_from(argument).unwrap().to_be_bytes());
        match argument {
            0..=0x17 => vec![major | bytes[3]],
            0x18..=0xff => vec![major | 0x18, bytes[3]],
            0x100..=0xffff => vec![major | 0x19, bytes[2], bytes[3]],
            _ => [&[major | 0x1a][..], &bytes].concat(),
        }
    }

    pub(in super::super) fn integer(number: i64) -> Vec<u8> {
        let length = |number: i64| usize::try_from(number).unwrap();
        if number < 0 { head(1, length(-1 - number)) } else { head(0, length(number)) }
    }

    pub(in super::super) fn bytes(bytes: &[u8]) -> Vec<u8> {
        [head(2, bytes.len()), bytes.to_vec()].concat()
    }

    pub(in super::super) fn text(text: &str) -> Vec<u8> {
        [head(3, text.len()), text.as_bytes().to_vec()].concat()
    }

    pub(in super::super) fn map(members: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
        let members = members.iter().map(|(name, value)| [name.clone(), value.clone()].concat());
        [head(5, members.len()), members.collect::<Vec<_>>().concat()].concat()
    }
}

/// An ECDSA key on P-256 and its passkey.
pub(super) struct Authenticator {
    pkcs8: Vec<u8>,
}

impl Authenticator {
    pub(super) fn new() -> Self {
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &SystemRandom::new()).unwrap();
        Self { pkcs8: pkcs8.as_ref().to_vec() }
    }

    fn pair(&self, algorithm: &'static EcdsaSigningAlgorithm) -> EcdsaKeyPair {
        EcdsaKeyPair::from_pkcs8(algorithm, &self.pkcs8).unwrap()
    }

    /// The two coordinates of the public key.
    pub(super) fn point(&self) -> (Vec<u8>, Vec<u8>) {
        let pair = self.pair(&ECDSA_P256_SHA256_ASN1_SIGNING);
        let point = pair.public_key().as_ref();
        (point[1..33].to_vec(), point[33..].to_vec())
    }

    pub(super) fn cose(&self) -> Vec<u8> {
        let (x, y) = self.point();
        cose(&[
            (1, write::integer(2)),
            (3, write::integer(-7)),
            (-1, write::integer(1)),
            (-2, write::bytes(&x)),
            (-3, write::bytes(&y)),
        ])
    }

    pub(super) fn passkey(&self) -> RegisteredPasskey {
        let challenge = CHALLENGE;
        let expected = PasskeyExpectation { challenge: &challenge, party: &party() };
        registration(&attested(VERIFIED | ATTESTED, ID, &self.cose())).verify(&expected).unwrap()
    }

    pub(super) fn sign(&self, client_data: &str, authenticator_data: &[u8]) -> PasskeyAssertion {
        let message = [authenticator_data, Sha256::digest(client_data.as_bytes()).as_slice()].concat();
        let signature = self.pair(&ECDSA_P256_SHA256_ASN1_SIGNING).sign(&SystemRandom::new(), &message).unwrap();
        assertion(client_data, authenticator_data, signature.as_ref())
    }

    /// The same signature in the form of JWS.
    pub(super) fn sign_as_jws(&self, client_data: &str, authenticator_data: &[u8]) -> PasskeyAssertion {
        let message = [authenticator_data, Sha256::digest(client_data.as_bytes()).as_slice()].concat();
        let signature = self.pair(&ECDSA_P256_SHA256_FIXED_SIGNING).sign(&SystemRandom::new(), &message).unwrap();
        assertion(client_data, authenticator_data, signature.as_ref())
    }
}

fn assertion(client_data: &str, authenticator_data: &[u8], signature: &[u8]) -> PasskeyAssertion {
    let response = PasskeyAssertionResponse {
        client_data_json: encoded(client_data.as_bytes()),
        authenticator_data: encoded(authenticator_data),
        signature: encoded(signature),
    };
    PasskeyAssertion { id: encoded(ID), kind: "public-key".to_owned(), response }
}

pub(super) fn cose(members: &[(i64, Vec<u8>)]) -> Vec<u8> {
    write::map(&members.iter().map(|(name, value)| (write::integer(*name), value.clone())).collect::<Vec<_>>())
}

/// `clientDataJSON` of a ceremony, as it should be.
pub(super) fn client_data(ceremony: &str) -> String {
    json!({ "type": ceremony, "challenge": encoded(&CHALLENGE), "origin": ORIGIN, "crossOrigin": false }).to_string()
}

/// Authenticator data of a signature.
pub(super) fn authenticator_data(flags: u8, count: u32) -> Vec<u8> {
    [Sha256::digest(party().id().as_bytes()).as_slice(), &[flags], &count.to_be_bytes()].concat()
}

/// Authenticator data of a registration.
pub(super) fn attested(flags: u8, id: &[u8], cose: &[u8]) -> Vec<u8> {
    let length = u16::try_from(id.len()).unwrap().to_be_bytes();
    [&authenticator_data(flags, 0)[..], &[0; 16], &length, id, cose].concat()
}

pub(super) fn attestation_object(authenticator_data: &[u8]) -> Vec<u8> {
    write::map(&[
        (write::text("fmt"), write::text("none")),
        (write::text("attStmt"), write::map(&[])),
        (write::text("authData"), write::bytes(authenticator_data)),
    ])
}

pub(super) fn registration(authenticator_data: &[u8]) -> PasskeyRegistration {
    let response = PasskeyAttestationResponse {
        client_data_json: encoded(client_data("webauthn.create").as_bytes()),
        attestation_object: encoded(&attestation_object(authenticator_data)),
        transports: vec!["usb".to_owned(), "\"><script>".to_owned()],
    };
    PasskeyRegistration { id: encoded(ID), kind: "public-key".to_owned(), response }
}

/// A registration whose key is this one.
pub(super) fn registration_of(cose: &[u8]) -> PasskeyRegistration {
    registration(&attested(VERIFIED | ATTESTED, ID, cose))
}

pub(super) fn registration_with_id(id: &[u8], cose: &[u8]) -> PasskeyRegistration {
    PasskeyRegistration { id: encoded(id), ..registration(&attested(VERIFIED | ATTESTED, id, cose)) }
}

/// An RSA key's modulus, and a signature by it.
pub(super) fn rsa(message: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let pair = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
    let mut signature = vec![0; pair.public_modulus_len()];
    pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message, &mut signature).unwrap();
    let modulus = pair.public_key().modulus().big_endian_without_leading_zero().to_vec();
    (modulus, signature)
}
