//! Registrations and signatures that other software made, in `vectors.json`:
//!
//! - Chromium 148 with its virtual authenticator (`WebAuthn.addVirtualAuthenticator` over the `DevTools` protocol), as
//!   `PublicKeyCredential.toJSON()` writes them: ES256 with a `packed` attestation, `EdDSA` and RS256 with none.
//! - python-fido2 1.2.0 and cryptography 44.0.3: a synced passkey without a counter, with outputs of extensions, used below the domain
//!   that it belongs to. The server of python-fido2 accepts it and those of Chromium.
//! - soft-webauthn 0.1.4, which does not verify the person: it has to be refused.

use serde::Deserialize;
use serde_json::Value;

use super::{super::*, decoded, encoded};

const VECTORS: &str = include_str!("../vectors.json");
/// What only soft-webauthn's vector is.
const UNVERIFIED: &str = "soft-webauthn ES256, without user verification";

/// A member of an assertion.
type Member = fn(&mut PasskeyAssertionResponse) -> &mut String;

#[derive(Clone, Deserialize)]
struct Vector {
    name: String,
    rp_id: String,
    origin: String,
    registration: Shown<PasskeyRegistration>,
    assertions: Vec<Shown<PasskeyAssertion>>,
}

#[derive(Clone, Deserialize)]
struct Shown<T> {
    challenge: String,
    credential: T,
}

impl<T> Shown<T> {
    fn challenge(&self) -> [u8; 32] {
        decoded(&self.challenge).try_into().unwrap()
    }
}

impl Vector {
    fn party(&self) -> RelyingParty {
        RelyingParty::new(&self.rp_id, &self.origin).unwrap()
    }

    fn register(&self) -> Result<RegisteredPasskey, PasskeyFault> {
        let (challenge, party) = (self.registration.challenge(), self.party());
        self.registration.credential.verify(&PasskeyExpectation { challenge: &challenge, party: &party })
    }

    fn sign(&self, which: usize, passkey: &RegisteredPasskey) -> Result<VerifiedPasskeyAssertion, PasskeyFault> {
        let (shown, party) = (&self.assertions[which], self.party());
        shown.credential.verify(&PasskeyExpectation { challenge: &shown.challenge(), party: &party }, passkey)
    }
}

fn all() -> Vec<Vector> {
    serde_json::from_str(VECTORS).unwrap()
}

fn good() -> Vec<Vector> {
    all().into_iter().filter(|vector| vector.name != UNVERIFIED).collect()
}

#[test]
fn passkeys_of_others_are_registered_and_sign() {
    let vectors = good();
    assert_eq!(vectors.len(), 4);
    for vector in vectors {
        let name = &vector.name;
        let registered = vector.register().unwrap_or_else(|fault| panic!("{name}: {fault}"));
        assert_eq!(registered.is_backup_eligible, name.contains("synced"), "{name}");
        let stored = serde_json::to_string(&registered).unwrap();
        assert_eq!(serde_json::from_str::<RegisteredPasskey>(&stored).unwrap(), registered, "{name}: {stored}");
        let once = vector.sign(0, &registered).unwrap_or_else(|fault| panic!("{name}: {fault}"));
        let twice = vector.sign(1, once.passkey()).unwrap_or_else(|fault| panic!("{name}: {fault}"));
        if registered.sign_count == 0 {
            vector.sign(0, twice.passkey()).unwrap();
        } else {
            assert!(twice.passkey().sign_count > once.passkey().sign_count, "{name}");
            for which in [0, 1] {
                assert_eq!(
                    vector.sign(which, twice.passkey()),
                    Err(PasskeyFault::Cloned),
                    "{name}: a counter that stands still"
                );
            }
            let without = RegisteredPasskey { sign_count: 0, ..registered.clone() };
            vector.sign(0, &without).unwrap();
        }
        // A record of it can be checked later, whatever the counter is now.
        let (key, challenge, party) = (&registered.public_key, vector.assertions[0].challenge(), vector.party());
        let expected = PasskeyExpectation { challenge: &challenge, party: &party };
        once.response().verify_recorded(key, &expected).unwrap();
    }
}

#[test]
fn a_person_that_was_not_verified_counts_for_nothing() {
    let vector = all().into_iter().find(|vector| vector.name == UNVERIFIED).unwrap();
    assert_eq!(vector.register(), Err(PasskeyFault::NotVerified));
    let key = good()[0].register().unwrap();
    let claimed = RegisteredPasskey { credential_id: vector.assertions[0].credential.id.clone(), ..key };
    assert_eq!(vector.sign(0, &claimed), Err(PasskeyFault::NotVerified));
}

#[test]
fn another_expectation_is_not_met() {
    for vector in good() {
        let registered = vector.register().unwrap();
        let (challenge, party) = (vector.assertions[0].challenge(), vector.party());
        let sign = |challenge: &[u8; 32], party: &RelyingParty| {
            vector.assertions[0].credential.verify(&PasskeyExpectation { challenge, party }, &registered).unwrap_err()
        };
        let mut other = challenge;
        other[31] ^= 1;
        assert_eq!(sign(&other, &party), PasskeyFault::OtherChallenge);
        let elsewhere = RelyingParty::of_origin("https://evil.example").unwrap();
        assert_eq!(sign(&challenge, &elsewhere), PasskeyFault::OtherRelyingParty);
        let other_port = RelyingParty::new(&vector.rp_id, &format!("https://{}:1", vector.rp_id)).unwrap();
        assert_eq!(sign(&challenge, &other_port), PasskeyFault::OtherOrigin);
        let moved = RegisteredPasskey { rp_id: "elsewhere.example".to_owned(), ..registered.clone() };
        let expected = PasskeyExpectation { challenge: &challenge, party: &party };
        assert_eq!(vector.assertions[0].credential.verify(&expected, &moved), Err(PasskeyFault::OtherRelyingParty));
        let another = RegisteredPasskey { credential_id: encoded(b"another"), ..registered.clone() };
        assert_eq!(vector.assertions[0].credential.verify(&expected, &another), Err(PasskeyFault::OtherPasskey));
        let backup = RegisteredPasskey { is_backup_eligible: !registered.is_backup_eligible, ..registered.clone() };
        assert_eq!(vector.assertions[0].credential.verify(&expected, &backup), Err(PasskeyFault::BackupState));
        // The challenge of a registration is no challenge of a signature.
        let response = vector.assertions[0].credential.response.clone();
        let mixed = PasskeyAssertionResponse {
            client_data_json: vector.registration.credential.response.client_data_json.clone(),
            ..response
        };
        let challenge = vector.registration.challenge();
        let expected = PasskeyExpectation { challenge: &challenge, party: &party };
        assert_eq!(mixed.verify_recorded(&registered.public_key, &expected), Err(PasskeyFault::OtherCeremony));
    }
}

/// Every vector under the key of every other.
#[test]
fn a_signature_is_by_one_key() {
    for vector in good() {
        for other in good().into_iter().filter(|other| other.name != vector.name) {
            let (challenge, party) = (vector.assertions[0].challenge(), vector.party());
            let expected = PasskeyExpectation { challenge: &challenge, party: &party };
            let key = other.register().unwrap().public_key;
            let response = &vector.assertions[0].credential.response;
            assert_eq!(response.verify_recorded(&key, &expected), Err(PasskeyFault::Signature), "{}", vector.name);
        }
    }
}

/// Every byte of every member that is signed, changed once.
#[test]
fn a_changed_byte_is_noticed() {
    for vector in good() {
        let registered = vector.register().unwrap();
        let changed = |text: &str, at: usize| {
            let mut bytes = decoded(text);
            bytes[at] ^= 1;
            encoded(&bytes)
        };
        let original = vector.assertions[0].credential.clone();
        let members: [Member; 3] = [
            |response| &mut response.client_data_json,
            |response| &mut response.authenticator_data,
            |response| &mut response.signature,
        ];
        for member in members {
            for at in 0..decoded(member(&mut original.response.clone())).len() {
                let mut vector = vector.clone();
                let text = member(&mut vector.assertions[0].credential.response);
                *text = changed(text, at);
                assert!(vector.sign(0, &registered).is_err(), "{} byte {at}", vector.name);
            }
        }
        for change in [
            |credential: &mut PasskeyAssertion| credential.id.push('A'),
            |credential: &mut PasskeyAssertion| credential.kind = "password".to_owned(),
            |credential: &mut PasskeyAssertion| credential.response.signature.push('='),
            |credential: &mut PasskeyAssertion| credential.response.signature.clear(),
            |credential: &mut PasskeyAssertion| credential.response.authenticator_data.push('A'),
            |credential: &mut PasskeyAssertion| credential.response.client_data_json.push('\n'),
        ] {
            let mut vector = vector.clone();
            change(&mut vector.assertions[0].credential);
            assert!(vector.sign(0, &registered).is_err(), "{}", vector.name);
        }
    }
}

/// A registration is not signed. A change either breaks it or makes another passkey of it, never the same one on another page.
#[test]
fn a_changed_registration_is_refused_or_another_passkey() {
    for vector in good() {
        let registered = vector.register().unwrap();
        let bytes = decoded(&vector.registration.credential.response.attestation_object);
        for at in 0..bytes.len() {
            let mut changed = vector.clone();
            let mut other = bytes.clone();
            other[at] ^= 1;
            changed.registration.credential.response.attestation_object = encoded(&other);
            if let Ok(found) = changed.register() {
                assert_eq!((&found.credential_id, &found.rp_id), (&registered.credential_id, &registered.rp_id));
            }
        }
        for at in 0..bytes.len() {
            let mut cut = vector.clone();
            cut.registration.credential.response.attestation_object = encoded(&bytes[..at]);
            assert_eq!(cut.register(), Err(PasskeyFault::Malformed("attestationObject")), "cut at {at}");
        }
        let mut longer = vector.clone();
        longer.registration.credential.response.attestation_object = encoded(&[&bytes[..], &[0]].concat());
        assert_eq!(longer.register(), Err(PasskeyFault::Malformed("attestationObject")));
    }
}

/// What a browser adds is not looked at; what is missing is found when the JSON is read.
#[test]
fn members_that_browsers_add_do_no_harm() {
    let vector: Vec<Value> = serde_json::from_str(VECTORS).unwrap();
    let credential = &vector[0]["registration"]["credential"];
    assert!(credential["response"].get("publicKey").is_some(), "as a browser writes it");
    for name in ["id", "type", "response"] {
        let mut without = credential.clone();
        without.as_object_mut().unwrap().remove(name);
        assert!(serde_json::from_value::<PasskeyRegistration>(without).is_err(), "{name}");
    }
}
