//! The reader of CBOR, and bytes at random.

use proptest::prelude::*;

use super::{
    super::{
        authenticator_data::AuthenticatorData,
        cbor::{CborItem, first_item, only_item},
        *,
    },
    authenticator::{ATTESTED, Authenticator, CHALLENGE, VERIFIED, attested, party, registration, write},
    encoded,
};

#[test]
fn items_have_one_form() {
    for good in [
        &[0x00][..],
        &[0x17],
        &[0x18, 0x18],
        &[0x19, 0x01, 0x00],
        &[0x1a, 0x00, 0x01, 0x00, 0x00],
        &[0x1b, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00],
        &[0x3b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        &[0x40],
        &[0x61, b'a'],
        &[0x80],
        &[0x82, 0xf4, 0xf6],
        &[0xa1, 0x01, 0xf5],
        &[0xa2, 0x01, 0x00, 0x20, 0x00],
    ] {
        assert!(only_item(good).is_ok(), "{good:02x?}");
    }
    for (what, wrong) in [
        ("nothing", &[][..]),
        ("a long form of a small number", &[0x18, 0x17]),
        ("a long form of a small number", &[0x19, 0x00, 0xff]),
        ("a long form of a small number", &[0x1a, 0x00, 0x00, 0xff, 0xff]),
        ("a long form of a small number", &[0x1b, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]),
        ("a long form of a length", &[0x58, 0x01, 0x00]),
        ("reserved", &[0x1c]),
        ("reserved", &[0x1e]),
        ("an integer without an end", &[0x1f]),
        ("bytes of indefinite length", &[0x5f, 0x41, 0x00, 0xff]),
        ("a text of indefinite length", &[0x7f, 0x61, b'a', 0xff]),
        ("an array of indefinite length", &[0x9f, 0x00, 0xff]),
        ("a map of indefinite length", &[0xbf, 0x01, 0x00, 0xff]),
        ("the end of one", &[0xff]),
        ("a tag", &[0xc0, 0x60]),
        ("a tag", &[0xd8, 0x18, 0x40]),
        ("undefined", &[0xf7]),
        ("a simple value", &[0xf8, 0x20]),
        ("half a float", &[0xf9, 0x3c, 0x00]),
        ("a float", &[0xfb, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0]),
        ("not UTF-8", &[0x61, 0xff]),
        ("a key twice", &[0xa2, 0x01, 0x00, 0x01, 0x00]),
        ("a text twice", &[0xa2, 0x61, b'a', 0x00, 0x61, b'a', 0x01]),
        ("a key that is no name", &[0xa1, 0x80, 0x00]),
        ("a key that is no name", &[0xa1, 0x40, 0x00]),
        ("too short", &[0x42, 0x00]),
        ("too short", &[0x82, 0x00]),
        ("too short", &[0xa1, 0x00]),
        ("more than memory", &[0x5b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
        ("more than memory", &[0x9b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
        ("more than memory", &[0xbb, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
        ("something behind it", &[0x00, 0x00]),
        ("too deep", &[0x81, 0x81, 0x81, 0x81, 0x81, 0x81, 0x81, 0x81, 0x00]),
    ] {
        assert!(only_item(wrong).is_err(), "{what}: {wrong:02x?}");
    }
    let many: Vec<_> = (0..33).map(|name| (write::integer(name), write::integer(0))).collect();
    assert!(only_item(&write::map(&many[..32])).is_ok());
    assert!(only_item(&write::map(&many)).is_err(), "too many members");
    assert_eq!(first_item(&[0x00, 0xff]).unwrap(), (CborItem::Unsigned(0), &[0xff][..]));
    assert!(CborItem::Negative(6).is_integer(-7) && !CborItem::Unsigned(7).is_integer(-7));
    assert!(!CborItem::Negative(u64::MAX).is_integer(-1) && !CborItem::Unsigned(u64::MAX).is_integer(-1));
}

proptest! {
    /// No bytes make the reader panic, and what it accepts it reads to the end.
    #[test]
    fn random_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..200), flags in any::<u8>()) {
        if let Ok((_, rest)) = first_item(&bytes) {
            prop_assert!(bytes.ends_with(rest));
            prop_assert!(only_item(&bytes[..bytes.len() - rest.len()]).is_ok());
        }
        let _ = PasskeyPublicKey::read(&bytes);
        let site = super::authenticator::authenticator_data(flags, 1);
        for data in [bytes.clone(), [&site[..], &bytes].concat(), [&site[..], &[0; 16], &bytes].concat()] {
            let _ = AuthenticatorData::read(&data, party().id());
            let expected = PasskeyExpectation { challenge: &CHALLENGE, party: &party() };
            let _ = registration(&data).verify(&expected);
        }
        let mut registration = registration(&bytes);
        registration.response.attestation_object = encoded(&bytes);
        registration.response.client_data_json = encoded(&bytes);
        let expected = PasskeyExpectation { challenge: &CHALLENGE, party: &party() };
        prop_assert!(registration.verify(&expected).is_err());
    }

    /// A cut or changed registration never panics, and never is about another site or an unverified person.
    #[test]
    fn cut_and_changed_registrations(at in 0_usize..180, change in any::<u8>(), cut in any::<bool>()) {
        let mut data = attested(VERIFIED | ATTESTED, b"credential", &Authenticator::new().cose());
        let at = at % data.len();
        if cut { data.truncate(at); } else { data[at] ^= change; }
        let expected = PasskeyExpectation { challenge: &CHALLENGE, party: &party() };
        let found = registration(&data).verify(&expected);
        prop_assert!(!cut || found.is_err());
        prop_assert!(at >= 32 || change == 0 || cut || found == Err(PasskeyFault::OtherRelyingParty));
    }
}
