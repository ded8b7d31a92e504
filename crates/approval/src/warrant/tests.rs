//! Passkeys in warrants: a decision that says a passkey signed it counts only if one did, over this very decision.

use aws_lc_rs::{
    digest::{SHA256, digest},
    signature::{Ed25519KeyPair, KeyPair as _},
};
use serde_json::json;
use servanda_authority::{
    Secret,
    attestation::ATTESTATION_SEED_BYTES,
    passkey::{
        PasskeyAssertion, PasskeyAssertionResponse, PasskeyExpectation, PasskeyFault, RegisteredPasskey, RelyingParty,
    },
};

use super::*;
use crate::{
    ApprovalDecision, DecisionFault, KnownPasskey, KnownPasskeyFault, PasskeyAssertionRecord, PasskeyRecordFault,
};

const ORIGIN: &str = "https://console.example.com";
const TICKET: &str = "apr_1";

fn attestation_key() -> AttestationKey {
    AttestationKey::from_seed(&Secret::new([7; ATTESTATION_SEED_BYTES])).unwrap()
}

fn payload() -> Digest {
    Digest::compute(DigestDomain::Proposal, &[b"pay"])
}

/// A person's passkey.
struct Passkey(Ed25519KeyPair);

impl Passkey {
    fn new(seed: u8) -> Self {
        Self(Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap())
    }

    fn registered(&self) -> RegisteredPasskey {
        let head = [0xa4, 0x01, 0x01, 0x03, 0x27, 0x20, 0x06, 0x21, 0x58, 0x20];
        let cose = URL_SAFE_NO_PAD.encode([&head[..], self.0.public_key().as_ref()].concat());
        RegisteredPasskey {
            credential_id: "AAAA".to_owned(),
            public_key: cose.try_into().unwrap(),
            sign_count: 0,
            rp_id: "console.example.com".to_owned(),
            is_backup_eligible: false,
            transports: Vec::new(),
        }
    }

    fn sign_with(&self, challenge: &Digest, flags: u8) -> PasskeyAssertionRecord {
        let challenge_text = URL_SAFE_NO_PAD.encode(challenge.as_bytes());
        let client_data = json!({ "type": "webauthn.get", "challenge": challenge_text, "origin": ORIGIN }).to_string();
        let site = digest(&SHA256, b"console.example.com");
        let data = [site.as_ref(), &[flags], &[0; 4]].concat();
        let signed = [&data[..], digest(&SHA256, client_data.as_bytes()).as_ref()].concat();
        PasskeyAssertionRecord {
            credential_id: "AAAA".to_owned(),
            public_key: self.registered().public_key.into(),
            authenticator_data: URL_SAFE_NO_PAD.encode(data),
            client_data_json: URL_SAFE_NO_PAD.encode(client_data),
            signature: URL_SAFE_NO_PAD.encode(self.0.sign(&signed)),
            rp_id: "console.example.com".to_owned(),
            origin: ORIGIN.to_owned(),
        }
    }

    /// A signature by a person who was present and verified.
    fn sign(&self, decision: &ApprovalDecision) -> PasskeyAssertionRecord {
        self.sign_with(&decision.passkey_challenge(), 0x05)
    }
}

fn decision(approver: &str, presence: Presence) -> ApprovalDecision {
    ApprovalDecision {
        ticket: TICKET.to_owned().into(),
        payload_hash: payload(),
        verdict: ApprovalVerdict::Approve,
        tenant: "acme".to_owned(),
        approver: approver.to_owned(),
        groups: ["finance".to_owned()].into(),
        presence,
        credential: "console".to_owned(),
        at_ms: 1,
        reason: None,
        break_glass: false,
    }
}

/// A warrant that the gateway signed, whatever the decisions in it are worth.
fn warrant(presence: Presence, approvers: Vec<SignedDecision>) -> Warrant {
    let key = attestation_key();
    let claims = WarrantClaims {
        approval_id: TICKET.to_owned().into(),
        trace_id: "trace".to_owned(),
        tenant: "acme".to_owned(),
        principal: "alice".to_owned(),
        actors: Vec::new(),
        tool_name: "bank.pay".to_owned(),
        tool_version: "1.0.0".to_owned(),
        contract_digest: Digest::compute(DigestDomain::Contract, &[b"contract"]),
        payload_hash: payload(),
        pattern: ApprovalPattern::Operator,
        quorum: u8::try_from(approvers.len()).unwrap(),
        presence,
        approvers,
        approved_at_ms: 1,
        expires_at_ms: 2,
        approval_scope: SINGLE_EXECUTION.to_owned(),
        decision: APPROVED.to_owned(),
        key_id: key.public().key_id(),
    };
    let payload = canonical(&claims).unwrap();
    let signature = key.sign(DOMAIN, &payload).unwrap();
    Warrant(format!("{PREFIX}{}.{signature}", URL_SAFE_NO_PAD.encode(payload)))
}

fn signed(decision: ApprovalDecision, passkey: Option<PasskeyAssertionRecord>) -> SignedDecision {
    decision.sign(passkey, &attestation_key()).unwrap()
}

fn check(presence: Presence, approvers: Vec<SignedDecision>) -> Result<(), WarrantFault> {
    warrant(presence, approvers).check(&[attestation_key().public().clone()]).map(|_| ())
}

fn by_passkey(fault: PasskeyFault) -> WarrantFault {
    WarrantFault::Decision(DecisionFault::Passkey(PasskeyRecordFault::Passkey(fault)))
}

#[test]
fn a_decision_with_a_passkey_needs_its_signature() {
    let (passkey, with) = (Passkey::new(1), decision("bob", Presence::Passkey));
    let right = passkey.sign(&with);
    assert_eq!(check(Presence::Passkey, vec![signed(with.clone(), Some(right.clone()))]), Ok(()));
    let none = signed(with.clone(), None);
    assert_eq!(none.verify(&[attestation_key().public().clone()]), Err(DecisionFault::NoPasskey));
    let missing = WarrantFault::Decision(DecisionFault::NoPasskey);
    assert_eq!(check(Presence::Passkey, vec![none.clone()]), Err(missing));
    assert_eq!(check(Presence::Session, vec![none]), Err(missing), "it says that a passkey signed it");
    let fresh = signed(decision("bob", Presence::Fresh), None);
    assert_eq!(check(Presence::Fresh, vec![fresh.clone()]), Ok(()));
    assert_eq!(check(Presence::Passkey, vec![fresh]), Err(WarrantFault::Approvers));
}

/// The gateway signs each of these decisions, so only the passkey's signature makes the difference.
#[test]
fn a_passkey_signs_one_decision() {
    let (passkey, wanted) = (Passkey::new(1), decision("bob", Presence::Passkey));
    let others = [
        ApprovalDecision { ticket: "apr_2".to_owned().into(), ..wanted.clone() },
        ApprovalDecision { payload_hash: Digest::compute(DigestDomain::Proposal, &[b"pay more"]), ..wanted.clone() },
        ApprovalDecision { verdict: ApprovalVerdict::Deny, ..wanted.clone() },
        ApprovalDecision { tenant: "rival".to_owned(), ..wanted.clone() },
        ApprovalDecision { approver: "carol".to_owned(), ..wanted.clone() },
    ];
    for other in others {
        let record = passkey.sign(&other);
        assert_eq!(record.verify(&other.passkey_challenge()), Ok(()));
        assert_eq!(
            check(Presence::Passkey, vec![signed(wanted.clone(), Some(record))]),
            Err(by_passkey(PasskeyFault::OtherChallenge)),
            "{other:?}"
        );
    }
}

#[test]
fn a_changed_record_is_noticed() {
    let (passkey, wanted) = (Passkey::new(1), decision("bob", Presence::Passkey));
    let (right, challenge) = (passkey.sign(&wanted), wanted.passkey_challenge());
    let other = Passkey::new(2).sign(&wanted);
    let with = |fault: PasskeyFault| Err(PasskeyRecordFault::Passkey(fault));
    let rows = [
        (
            PasskeyAssertionRecord { public_key: other.public_key.clone(), ..right.clone() },
            with(PasskeyFault::Signature),
        ),
        (PasskeyAssertionRecord { signature: other.signature, ..right.clone() }, with(PasskeyFault::Signature)),
        (
            PasskeyAssertionRecord { rp_id: "example.com".to_owned(), ..right.clone() },
            with(PasskeyFault::OtherRelyingParty),
        ),
        (PasskeyAssertionRecord { public_key: "AAAA".to_owned(), ..right.clone() }, with(PasskeyFault::Key)),
        (PasskeyAssertionRecord { signature: String::new(), ..right.clone() }, with(PasskeyFault::Signature)),
        (passkey.sign_with(&challenge, 0x01), with(PasskeyFault::NotVerified)),
        (passkey.sign_with(&challenge, 0x04), with(PasskeyFault::NotPresent)),
    ];
    for (record, wanted) in rows {
        assert_eq!(record.verify(&challenge), wanted, "{record:?}");
    }
    let elsewhere = PasskeyAssertionRecord { origin: "https://evil.example".to_owned(), ..right.clone() };
    assert!(matches!(elsewhere.verify(&challenge), Err(PasskeyRecordFault::Party(_))));
    let port = PasskeyAssertionRecord { origin: format!("{ORIGIN}:8443"), ..right.clone() };
    assert_eq!(port.verify(&challenge), with(PasskeyFault::OtherOrigin));
    assert_eq!(right.verify(&payload()), with(PasskeyFault::OtherChallenge));
    // An assertion that nothing demands has to be right all the same.
    let session = decision("bob", Presence::Session);
    let wrong = PasskeyAssertionRecord { signature: "AAAA".to_owned(), ..right.clone() };
    let fault = by_passkey(PasskeyFault::Signature);
    assert_eq!(check(Presence::Session, vec![signed(session.clone(), Some(wrong))]), Err(fault));
    assert_eq!(check(Presence::Session, vec![signed(session, Some(right))]), Ok(()));
}

#[test]
fn two_people_have_two_passkeys() {
    let [bob, carol] = ["bob", "carol"].map(|person| decision(person, Presence::Passkey));
    let sign = |decision: &ApprovalDecision, passkey: &Passkey| signed(decision.clone(), Some(passkey.sign(decision)));
    let (first, second) = (Passkey::new(1), Passkey::new(2));
    assert_eq!(check(Presence::Passkey, vec![sign(&bob, &first), sign(&carol, &second)]), Ok(()));
    assert_eq!(check(Presence::Passkey, vec![sign(&bob, &first), sign(&carol, &first)]), Err(WarrantFault::Approvers));
}

#[test]
fn a_verified_assertion_makes_the_record() {
    let (passkey, wanted) = (Passkey::new(1), decision("bob", Presence::Passkey));
    let record = passkey.sign(&wanted);
    let response = PasskeyAssertionResponse {
        client_data_json: record.client_data_json.clone(),
        authenticator_data: record.authenticator_data.clone(),
        signature: record.signature.clone(),
    };
    let assertion = PasskeyAssertion { id: "AAAA".to_owned(), kind: "public-key".to_owned(), response };
    let (challenge, party) = (wanted.passkey_challenge(), RelyingParty::of_origin(ORIGIN).unwrap());
    let expected = PasskeyExpectation { challenge: challenge.as_bytes(), party: &party };
    let verified = assertion.verify(&expected, &passkey.registered()).unwrap();
    assert_eq!(PasskeyAssertionRecord::from(&verified), record);
}

/// An outsider has the public keys from the people themselves, and so need not believe the gateway which passkey is whose.
#[test]
fn passkeys_are_compared_with_those_that_people_published() {
    let [bob, carol, dave] = ["bob", "carol", "dave"].map(|person| decision(person, Presence::Passkey));
    let (first, second, third) = (Passkey::new(1), Passkey::new(2), Passkey::new(3));
    let published = |who: &str, passkey: &Passkey| {
        let key: String = passkey.registered().public_key.into();
        KnownPasskey::read(&format!("{who}{key}")).unwrap()
    };
    let without = signed(ApprovalDecision { presence: Presence::Session, ..dave }, None);
    let approvers =
        vec![signed(bob.clone(), Some(first.sign(&bob))), signed(carol.clone(), Some(second.sign(&carol))), without];
    let claims = warrant(Presence::Session, approvers).check(&[attestation_key().public().clone()]).unwrap();
    let named = |person: &str| person.to_owned();
    for (known, expected) in [
        (vec![], Err(KnownPasskeyFault::OtherPasskey(named("bob")))),
        (vec![published("", &first), published("", &second)], Ok(())),
        (vec![published("bob=", &first), published("acme/carol=", &second)], Ok(())),
        (vec![published("bob=", &first)], Err(KnownPasskeyFault::OtherPasskey(named("carol")))),
        (vec![published("", &third), published("", &second)], Err(KnownPasskeyFault::OtherPasskey(named("bob")))),
        (
            vec![published("carol=", &first), published("bob=", &second)],
            Err(KnownPasskeyFault::OtherPerson { approver: named("bob"), owner: named("carol") }),
        ),
        (
            vec![published("rival/bob=", &first), published("", &second)],
            Err(KnownPasskeyFault::OtherPerson { approver: named("bob"), owner: named("rival/bob") }),
        ),
        (
            vec![published("", &first), published("", &second), published("dave=", &third)],
            Err(KnownPasskeyFault::Unused("of `dave`".to_owned())),
        ),
    ] {
        assert_eq!(claims.check_passkeys(&known), expected, "{known:?}");
    }
    for wrong in ["", "bob", "bob=", "bob=AAAA", "=pQEC"] {
        assert!(matches!(KnownPasskey::read(wrong), Err(KnownPasskeyFault::NotKey(_))), "{wrong}");
    }
}
