//! Ceremonies that are wrong in one way, with signatures that are right.

use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::{
    super::*,
    authenticator::{
        ATTESTED, Authenticator, CHALLENGE, ORIGIN, VERIFIED, attested, authenticator_data, client_data, cose, party,
        registration, registration_of, registration_with_id, rsa, write,
    },
    encoded,
};
use crate::signature::{Algorithm, PublicKey};

const GET: &str = "webauthn.get";

fn verify(assertion: &PasskeyAssertion, passkey: &RegisteredPasskey) -> Result<(), PasskeyFault> {
    let expected = PasskeyExpectation { challenge: &CHALLENGE, party: &party() };
    assertion.verify(&expected, passkey).map(|_| ())
}

fn register(registration: &PasskeyRegistration) -> Result<RegisteredPasskey, PasskeyFault> {
    registration.verify(&PasskeyExpectation { challenge: &CHALLENGE, party: &party() })
}

#[test]
fn flags_and_counters() {
    let authenticator = Authenticator::new();
    let passkey = authenticator.passkey();
    assert_eq!(passkey.transports, ["usb"], "only names are remembered");
    for (flags, count, stored, wanted) in [
        (VERIFIED, 0, 0, Ok(())),
        (VERIFIED, 1, 0, Ok(())),
        (VERIFIED, 6, 5, Ok(())),
        (VERIFIED, u32::MAX, u32::MAX - 1, Ok(())),
        // Bits that are reserved for later.
        (VERIFIED | 0x22, 1, 0, Ok(())),
        (VERIFIED, 5, 5, Err(PasskeyFault::Cloned)),
        (VERIFIED, 4, 5, Err(PasskeyFault::Cloned)),
        (VERIFIED, 0, 5, Err(PasskeyFault::Cloned)),
        (0x04, 1, 0, Err(PasskeyFault::NotPresent)),
        (0x01, 1, 0, Err(PasskeyFault::NotVerified)),
        (0x00, 1, 0, Err(PasskeyFault::NotPresent)),
        (VERIFIED | 0x10, 1, 0, Err(PasskeyFault::BackupState)),
        (VERIFIED | 0x08, 1, 0, Err(PasskeyFault::BackupState)),
        // What the flags announce is missing.
        (VERIFIED | ATTESTED, 1, 0, Err(PasskeyFault::Malformed("authenticatorData"))),
        (VERIFIED | 0x80, 1, 0, Err(PasskeyFault::Malformed("authenticatorData"))),
    ] {
        let passkey = RegisteredPasskey { sign_count: stored, ..passkey.clone() };
        let assertion = authenticator.sign(&client_data(GET), &authenticator_data(flags, count));
        assert_eq!(verify(&assertion, &passkey), wanted, "flags {flags:#x}, {count} after {stored}");
    }
}

#[test]
fn authenticator_data_has_nothing_behind_it() {
    let authenticator = Authenticator::new();
    let passkey = authenticator.passkey();
    let with = |flags: u8, more: &[u8]| {
        let bytes = [&authenticator_data(flags, 1)[..], more].concat();
        verify(&authenticator.sign(&client_data(GET), &bytes), &passkey)
    };
    let malformed = Err(PasskeyFault::Malformed("authenticatorData"));
    let extensions = write::map(&[(write::text("uvm"), write::integer(2))]);
    assert_eq!(with(VERIFIED | 0x80, &extensions), Ok(()));
    assert_eq!(with(VERIFIED, &[0]), malformed);
    assert_eq!(with(VERIFIED | 0x80, &[&extensions[..], &[0]].concat()), malformed);
    assert_eq!(with(VERIFIED | 0x80, &write::integer(1)), malformed);
    for length in 0..37 {
        let cut = authenticator.sign(&client_data(GET), &authenticator_data(VERIFIED, 1)[..length]);
        assert_eq!(verify(&cut, &passkey), malformed, "{length}");
    }
    // A new passkey has no place in a signature.
    let new =
        authenticator.sign(&client_data(GET), &attested(VERIFIED | ATTESTED, b"credential", &authenticator.cose()));
    assert_eq!(verify(&new, &passkey), malformed);
}

#[test]
fn another_site() {
    let authenticator = Authenticator::new();
    let passkey = authenticator.passkey();
    let mut data = authenticator_data(VERIFIED, 1);
    data[0] ^= 1;
    assert_eq!(verify(&authenticator.sign(&client_data(GET), &data), &passkey), Err(PasskeyFault::OtherRelyingParty));
}

#[test]
fn what_the_browser_says() {
    let authenticator = Authenticator::new();
    let passkey = authenticator.passkey();
    let challenge = encoded(&CHALLENGE);
    let malformed = Err(PasskeyFault::Malformed("clientDataJSON"));
    let rows = [
        (json!({ "type": GET, "challenge": challenge, "origin": ORIGIN }), Ok(())),
        (json!({ "type": GET, "challenge": challenge, "origin": ORIGIN, "later": [{ "x": 1 }] }), Ok(())),
        (
            json!({ "type": "webauthn.create", "challenge": challenge, "origin": ORIGIN }),
            Err(PasskeyFault::OtherCeremony),
        ),
        (json!({ "type": "payment.get", "challenge": challenge, "origin": ORIGIN }), Err(PasskeyFault::OtherCeremony)),
        (
            json!({ "type": GET, "challenge": format!("{challenge}="), "origin": ORIGIN }),
            Err(PasskeyFault::OtherChallenge),
        ),
        (
            json!({ "type": GET, "challenge": encoded(&CHALLENGE[..31]), "origin": ORIGIN }),
            Err(PasskeyFault::OtherChallenge),
        ),
        (json!({ "type": GET, "challenge": "", "origin": ORIGIN }), Err(PasskeyFault::OtherChallenge)),
        (
            json!({ "type": GET, "challenge": challenge, "origin": format!("{ORIGIN}/") }),
            Err(PasskeyFault::OtherOrigin),
        ),
        (
            json!({ "type": GET, "challenge": challenge, "origin": format!("{ORIGIN}:443") }),
            Err(PasskeyFault::OtherOrigin),
        ),
        (
            json!({ "type": GET, "challenge": challenge, "origin": "https://evil.example" }),
            Err(PasskeyFault::OtherOrigin),
        ),
        (
            json!({ "type": GET, "challenge": challenge, "origin": ORIGIN, "crossOrigin": true }),
            Err(PasskeyFault::Embedded),
        ),
        (
            json!({ "type": GET, "challenge": challenge, "origin": ORIGIN, "crossOrigin": "no" }),
            Err(PasskeyFault::Embedded),
        ),
        (
            json!({ "type": GET, "challenge": challenge, "origin": ORIGIN, "topOrigin": ORIGIN }),
            Err(PasskeyFault::Embedded),
        ),
        (json!({ "challenge": challenge, "origin": ORIGIN }), malformed),
        (json!({ "type": GET, "origin": ORIGIN }), malformed),
        (json!({ "type": GET, "challenge": challenge }), malformed),
        (json!({ "type": GET, "challenge": [7], "origin": ORIGIN }), malformed),
        (json!([GET]), malformed),
    ];
    let data = authenticator_data(VERIFIED, 1);
    for (said, wanted) in rows {
        assert_eq!(verify(&authenticator.sign(&said.to_string(), &data), &passkey), wanted, "{said}");
    }
    for text in [
        format!("{{\"type\":\"{GET}\",\"type\":\"{GET}\",\"challenge\":\"{challenge}\",\"origin\":\"{ORIGIN}\"}}"),
        format!("{} ", "x".repeat(10)),
        String::new(),
        format!("{}{{}}", client_data(GET)),
        format!("{{\"pad\":\"{}\",{}", "x".repeat(5000), &client_data(GET)[1..]),
    ] {
        assert_eq!(verify(&authenticator.sign(&text, &data), &passkey), malformed, "{text}");
    }
}

/// An ECDSA signature has two forms. Neither is taken for the other, here or in tokens.
#[test]
fn each_form_of_a_signature_has_its_place() {
    let authenticator = Authenticator::new();
    let (passkey, data) = (authenticator.passkey(), authenticator_data(VERIFIED, 1));
    let jws = authenticator.sign_as_jws(&client_data(GET), &data);
    assert_eq!(verify(&jws, &passkey), Err(PasskeyFault::Signature));
    let (x, y) = authenticator.point();
    let key = PublicKey::p256(&x, &y).unwrap();
    let message = [&data[..], Sha256::digest(client_data(GET)).as_slice()].concat();
    let of = |assertion: &PasskeyAssertion| super::decoded(&assertion.response.signature);
    let asn1 = authenticator.sign(&client_data(GET), &data);
    assert!(key.verify(Algorithm::Es256, &message, &of(&jws)).is_ok());
    assert!(key.verify(Algorithm::Es256, &message, &of(&asn1)).is_err(), "JWS has one form");
}

#[test]
fn keys_that_are_not_accepted() {
    let authenticator = Authenticator::new();
    let (x, y) = authenticator.point();
    let [x, y] = [x, y].map(|number| write::bytes(&number));
    let int = write::integer;
    let ec = |kind: i64, algorithm: i64, curve: i64| {
        vec![(1, int(kind)), (3, int(algorithm)), (-1, int(curve)), (-2, x.clone()), (-3, y.clone())]
    };
    let okp = |algorithm: i64, curve: i64, key: &[u8]| {
        vec![(1, int(1)), (3, int(algorithm)), (-1, int(curve)), (-2, write::bytes(key))]
    };
    let rsa_key = |algorithm: i64, modulus: &[u8], exponent: &[u8]| {
        vec![(1, int(3)), (3, int(algorithm)), (-1, write::bytes(modulus)), (-2, write::bytes(exponent))]
    };
    let (modulus, _) = rsa(b"");
    let e = [1, 0, 1];
    assert!(register(&registration_of(&cose(&ec(2, -7, 1)))).is_ok());
    assert!(register(&registration_of(&cose(&rsa_key(-257, &modulus, &e)))).is_ok());
    let mut small = modulus.clone();
    small[0] = 0x7f;
    let more = [ec(2, -7, 1), vec![(2, write::bytes(b"kid"))]].concat();
    let without = ec(2, -7, 1)[..4].to_vec();
    let swapped = [ec(2, -7, 1)[..3].to_vec(), vec![(-2, y.clone()), (-3, x.clone())]].concat();
    let compressed = [ec(2, -7, 1)[..4].to_vec(), vec![(-3, vec![0xf5])]].concat();
    let short = [ec(2, -7, 1)[..4].to_vec(), vec![(-3, write::bytes(&[1; 31]))]].concat();
    let empty: Vec<(i64, Vec<u8>)> = Vec::new();
    let reordered: Vec<(i64, Vec<u8>)> = ec(2, -7, 1).into_iter().rev().collect();
    for (what, key) in [
        ("P-384's algorithm", ec(2, -35, 1)),
        ("P-384", ec(2, -7, 2)),
        ("secp256k1", ec(2, -47, 8)),
        ("ES256 on Ed25519", ec(2, -7, 6)),
        ("no algorithm", ec(2, 0, 1)),
        ("a symmetric key", ec(4, -7, 1)),
        ("HS256", ec(2, 5, 1)),
        ("a member that WebAuthn does not have", more),
        ("a member is missing", without),
        ("not on the curve", swapped),
        ("a compressed point", compressed),
        ("a short coordinate", short),
        ("nothing", empty),
        ("another order", reordered),
        ("Ed448", okp(-8, 7, &[1; 32])),
        ("X25519", okp(-8, 4, &[1; 32])),
        ("ES256 for an OKP key", okp(-7, 6, &[1; 32])),
        ("31 bytes of Ed25519", okp(-8, 6, &[1; 31])),
        ("2047 bits", rsa_key(-257, &small, &e)),
        ("1024 bits", rsa_key(-257, &modulus[..128], &e)),
        ("a modulus with a zero in front", rsa_key(-257, &[&[0], &modulus[..]].concat(), &e)),
        ("exponent 1", rsa_key(-257, &modulus, &[1])),
        ("an even exponent", rsa_key(-257, &modulus, &[2])),
        ("RS1", rsa_key(-65535, &modulus, &e)),
        ("PS256", rsa_key(-37, &modulus, &e)),
        ("more than 8192 bits", rsa_key(-257, &[0xff; 1025], &e)),
    ] {
        assert_eq!(register(&registration_of(&cose(&key))), Err(PasskeyFault::Key), "{what}");
    }
}

#[test]
fn ids_of_passkeys() {
    let cose = Authenticator::new().cose();
    let malformed = Err(PasskeyFault::Malformed("authenticatorData"));
    assert!(register(&registration_with_id(&[1], &cose)).is_ok());
    assert!(register(&registration_with_id(&[1; 1023], &cose)).is_ok());
    assert_eq!(register(&registration_with_id(&[1; 1024], &cose)), malformed);
    assert_eq!(register(&registration_with_id(&[], &cose)), malformed);
    let other = PasskeyRegistration { id: encoded(b"other"), ..registration_of(&cose) };
    assert_eq!(register(&other), Err(PasskeyFault::OtherPasskey));
    let password = PasskeyRegistration { kind: "password".to_owned(), ..registration_of(&cose) };
    assert_eq!(register(&password), Err(PasskeyFault::Malformed("type")));
    let without_key = registration(&authenticator_data(VERIFIED, 0));
    assert_eq!(register(&without_key), malformed);
    for flags in [ATTESTED, ATTESTED | 1, ATTESTED | 4] {
        assert!(register(&registration(&attested(flags, b"credential", &cose))).is_err(), "{flags}");
    }
}

#[test]
fn attestation_objects() {
    let data = attested(VERIFIED | ATTESTED, b"credential", &Authenticator::new().cose());
    let member = |name: &str, value: Vec<u8>| (write::text(name), value);
    let statement = write::map(&[member("sig", write::bytes(b"x"))]);
    let given = |members: &[(Vec<u8>, Vec<u8>)]| {
        let mut registration = registration(&data);
        registration.response.attestation_object = encoded(&write::map(members));
        register(&registration)
    };
    let (format, none) = (member("fmt", write::text("none")), member("attStmt", write::map(&[])));
    let data_member = member("authData", write::bytes(&data));
    assert!(given(&[data_member.clone(), none.clone(), format.clone()]).is_ok(), "in any order");
    let packed = [member("fmt", write::text("packed")), member("attStmt", statement.clone()), data_member.clone()];
    assert!(given(&packed).is_ok(), "a statement is not believed, and does no harm");
    let malformed = Err(PasskeyFault::Malformed("attestationObject"));
    for wrong in [
        &[format.clone(), member("attStmt", statement), data_member.clone()][..],
        &[format.clone(), none.clone()],
        &[format.clone(), none.clone(), data_member.clone(), member("more", write::integer(1))],
        &[format.clone(), format.clone(), none.clone(), data_member.clone()],
        &[member("fmt", write::integer(1)), none.clone(), data_member.clone()],
        &[format.clone(), member("attStmt", write::bytes(b"")), data_member],
        &[format, none, member("authData", write::text("x"))],
    ] {
        assert_eq!(given(wrong), malformed);
    }
}

#[test]
fn relying_parties() {
    for (origin, id) in [
        ("https://console.example.com", "console.example.com"),
        ("https://console.example.com", "example.com"),
        ("https://console.example.com:8443", "console.example.com"),
        ("http://localhost:8080", "localhost"),
        ("http://console.localhost", "console.localhost"),
        ("https://intranet", "intranet"),
    ] {
        assert!(RelyingParty::new(id, origin).is_ok(), "{id} {origin}");
    }
    for (origin, id) in [
        ("https://console.example.com", "com"),
        ("https://console.example.com", "other.com"),
        ("https://console.example.com", "ole.example.com"),
        ("https://console.example.com", ".example.com"),
        ("https://console.example.com", ""),
        ("https://example.com", "console.example.com"),
        ("https://example.com/", "example.com"),
        ("https://example.com/x", "example.com"),
        ("https://EXAMPLE.com", "EXAMPLE.com"),
        ("https://user@example.com", "example.com"),
        ("https://example.com:", "example.com"),
        ("https://example.com:0443", "example.com"),
        ("https://example.com:99999", "example.com"),
        ("http://example.com", "example.com"),
        ("http://127.0.0.1:8080", "127.0.0.1"),
        ("https://[::1]", "[::1]"),
        ("https://10.0.0.1", "10.0.0.1"),
        ("ftp://example.com", "example.com"),
        ("null", "null"),
        ("", ""),
    ] {
        assert!(RelyingParty::new(id, origin).is_err(), "{id} {origin}");
    }
}

/// What the person does next is never empty.
#[test]
fn every_fault_says_what_to_do() {
    for fault in [
        PasskeyFault::Malformed("x"),
        PasskeyFault::OtherCeremony,
        PasskeyFault::OtherChallenge,
        PasskeyFault::OtherOrigin,
        PasskeyFault::Embedded,
        PasskeyFault::OtherRelyingParty,
        PasskeyFault::NotPresent,
        PasskeyFault::NotVerified,
        PasskeyFault::BackupState,
        PasskeyFault::Key,
        PasskeyFault::OtherPasskey,
        PasskeyFault::Signature,
        PasskeyFault::Cloned,
    ] {
        assert!(!fault.next_step().is_empty() && !fault.to_string().contains('\n'), "{fault}");
    }
}
