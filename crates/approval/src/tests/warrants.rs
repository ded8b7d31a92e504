//! What a warrant is worth: every changed member is noticed, and every fault has its name.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use servanda_authority::attestation::{AttestationKey, AttestationPublicKey};
use servanda_contract::{CallerActor, json, tool::ApprovalPattern};

use super::samples::{START_MS, USE_MS, approved_by, approver, decision, demanding, digest, key, opened, request};
use crate::{
    ApprovalDecision, ApprovalVerdict, DecisionFault, SignedDecision, Ticket, TicketId, TicketState, Warrant,
    WarrantExpectation, WarrantFault,
};

fn keys() -> Vec<AttestationPublicKey> {
    vec![key(7).public().clone(), key(1).public().clone()]
}

fn dual() -> Ticket {
    approved_by(demanding(ApprovalPattern::Dual, 2), &["bob", "eve"])
}

fn issue(ticket: &Ticket) -> Warrant {
    Warrant::issue(ticket, &key(1)).unwrap().unwrap()
}

fn expected(ticket: &Ticket) -> WarrantExpectation<'_> {
    let subject = &ticket.subject;
    WarrantExpectation {
        ticket: &ticket.id,
        trace_id: &subject.trace_id,
        tenant: &subject.tenant,
        principal: &subject.principal,
        actors: &subject.actors,
        tool: &subject.contract,
        version: &subject.contract_version,
        contract_digest: &subject.contract_digest,
        payload: &subject.payload,
        now_ms: START_MS + 2_000,
    }
}

/// What a warrant says.
fn claims(warrant: &Warrant) -> Value {
    let payload = warrant.as_str().strip_prefix("svw1.").unwrap().split_once('.').unwrap().0;
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).unwrap()).unwrap()
}

/// A warrant that says this, signed by a key.
fn signed_by(claims: &Value, key: &AttestationKey) -> Warrant {
    let payload = json::canonicalize(claims).unwrap();
    let signature = key.sign("servanda/warrant/v1", payload.bytes()).unwrap();
    Warrant::from(format!("svw1.{}.{signature}", URL_SAFE_NO_PAD.encode(payload.bytes())))
}

#[test]
fn a_warrant_of_an_approved_ticket_is_verified() {
    let ticket = dual();
    let warrant = issue(&ticket);
    assert_eq!(warrant, issue(&ticket), "the same on every gateway");
    let verified = warrant.verify(&keys(), &expected(&ticket)).unwrap();
    assert_eq!((verified.ticket(), verified.payload()), (&ticket.id, &ticket.subject.payload));
    assert_eq!(*verified.digest(), warrant.digest());
    let said = warrant.check(&keys()).unwrap();
    assert_eq!((said.quorum, said.approvers.len(), said.expires_at_ms), (2, 2, START_MS + 1_000 + USE_MS));
    assert_eq!(signed_by(&claims(&warrant), &key(1)), warrant, "the test signs as the gateway does");
}

#[test]
fn only_an_approved_ticket_has_a_warrant() {
    let approved = dual();
    for state in TicketState::ALL {
        let ticket = Ticket { state, ..approved.clone() };
        let has_one = matches!(state, TicketState::Approved | TicketState::Consumed);
        assert_eq!(Warrant::issue(&ticket, &key(1)).unwrap().is_some(), has_one, "{state:?}");
    }
    assert!(Warrant::issue(&Ticket { use_by: None, ..approved }, &key(1)).unwrap().is_none());
}

/// Every member, changed without the key: the signature does not fit.
#[test]
fn every_changed_member_is_noticed() {
    let warrant = issue(&dual());
    let said = claims(&warrant);
    let signature = warrant.as_str().rsplit('.').next().unwrap();
    let mut places = Vec::new();
    leaves(&said, &mut String::new(), &mut places);
    assert!(places.len() > 35, "{places:?}");
    for place in places {
        let mut changed = said.clone();
        let leaf = changed.pointer_mut(&place).unwrap();
        *leaf = match &*leaf {
            Value::String(text) if text.starts_with("sha256:") => json!(digest("another").to_string()),
            Value::String(text) => json!(format!("{text}x")),
            Value::Number(number) => json!(number.as_u64().unwrap() + 1),
            Value::Bool(is) => json!(!is),
            other => panic!("{other}"),
        };
        let payload = URL_SAFE_NO_PAD.encode(json::canonicalize(&changed).unwrap().bytes());
        let forged = Warrant::from(format!("svw1.{payload}.{signature}"));
        let fault = forged.check(&keys()).unwrap_err();
        // Some words are no longer claims at all.
        assert!(matches!(fault, WarrantFault::Signature | WarrantFault::Malformed), "{place}: {fault}");
        let readable = serde_json::from_value::<crate::WarrantClaims>(changed).is_ok();
        assert_eq!(fault == WarrantFault::Signature, readable, "{place}");
    }
}

fn leaves(value: &Value, at: &mut String, found: &mut Vec<String>) {
    let mut inside = |name: &str, value: &Value| {
        let length = at.len();
        at.push('/');
        at.push_str(name);
        leaves(value, at, found);
        at.truncate(length);
    };
    match value {
        Value::Object(members) => members.iter().for_each(|(name, member)| inside(name, member)),
        Value::Array(items) => items.iter().enumerate().for_each(|(index, item)| inside(&index.to_string(), item)),
        Value::Null => {}
        _ => found.push(at.clone()),
    }
}

#[test]
fn texts_that_are_no_warrant_are_refused() {
    let text = issue(&dual()).as_str().to_owned();
    let (payload, signature) = text.strip_prefix("svw1.").unwrap().split_once('.').unwrap();
    let malformed = [
        String::new(),
        "svw1.".to_owned(),
        "svw1..".to_owned(),
        format!("svw2.{payload}.{signature}"),
        format!("svw1.{payload}"),
        format!("svw1.{payload}=.{signature}"),
        format!("svw1.{}.{signature}", URL_SAFE_NO_PAD.encode("{}")),
        format!("svw1.{}.{signature}", URL_SAFE_NO_PAD.encode("not json")),
    ];
    for text in malformed {
        assert_eq!(Warrant::from(text.clone()).check(&keys()), Err(WarrantFault::Malformed), "{text}");
    }
    let bad_signatures = [format!("svw1.{payload}."), format!("svw1.{payload}.AAAA"), format!("{text}.{signature}")];
    for text in bad_signatures {
        assert_eq!(Warrant::from(text.clone()).check(&keys()), Err(WarrantFault::Signature), "{text}");
    }
    // Signed, with members in another order: what was signed is not what is read.
    let said = URL_SAFE_NO_PAD.decode(payload).unwrap();
    let spaced = [b" ".as_slice(), &said].concat();
    let signature = key(1).sign("servanda/warrant/v1", &spaced).unwrap();
    let loose = Warrant::from(format!("svw1.{}.{signature}", URL_SAFE_NO_PAD.encode(spaced)));
    assert_eq!(loose.check(&keys()), Err(WarrantFault::Malformed));
}

#[test]
fn a_foreign_key_signs_nothing() {
    let ticket = dual();
    let foreign = Warrant::issue(&ticket, &key(9)).unwrap().unwrap();
    assert_eq!(foreign.check(&keys()), Err(WarrantFault::Signature));
    assert_eq!(issue(&ticket).check(&[]), Err(WarrantFault::Signature));
    assert_eq!(issue(&ticket).check(&keys()[..1]), Err(WarrantFault::Signature));
    // It names our key, and another signed it.
    let forged = signed_by(&claims(&issue(&ticket)), &key(9));
    assert_eq!(forged.check(&keys()), Err(WarrantFault::Signature));
    // A signature of another domain.
    let said = json::canonicalize(&claims(&issue(&ticket))).unwrap();
    let signature = key(1).sign("servanda/approval-decision/v1", said.bytes()).unwrap();
    let forged = Warrant::from(format!("svw1.{}.{signature}", URL_SAFE_NO_PAD.encode(said.bytes())));
    assert_eq!(forged.check(&keys()), Err(WarrantFault::Signature));
}

#[test]
fn a_warrant_is_for_one_call() {
    let ticket = dual();
    let warrant = issue(&ticket);
    let (other_digest, other_id) = (digest("another"), TicketId::from("apr_9".to_owned()));
    let claimed = [CallerActor { name: "bot".to_owned(), proven: false }];
    let right = expected(&ticket);
    let table = [
        (WarrantExpectation { payload: &other_digest, ..right }, WarrantFault::OtherCall("other arguments")),
        (WarrantExpectation { tenant: "umbrella", ..right }, WarrantFault::OtherCall("another caller")),
        (WarrantExpectation { principal: "bob", ..right }, WarrantFault::OtherCall("another caller")),
        (WarrantExpectation { actors: &[], ..right }, WarrantFault::OtherCall("another agent")),
        (WarrantExpectation { actors: &claimed, ..right }, WarrantFault::OtherCall("another agent")),
        (WarrantExpectation { tool: "bank.take", ..right }, WarrantFault::OtherCall("another tool")),
        (WarrantExpectation { version: "1.2.1", ..right }, WarrantFault::OtherCall("another version of the tool")),
        (WarrantExpectation { contract_digest: &other_digest, ..right }, WarrantFault::OtherCall("another contract")),
        (WarrantExpectation { ticket: &other_id, ..right }, WarrantFault::Detached),
        (WarrantExpectation { trace_id: "another", ..right }, WarrantFault::Detached),
        (WarrantExpectation { now_ms: START_MS + 1_000 + USE_MS, ..right }, WarrantFault::Expired),
        (WarrantExpectation { now_ms: u64::MAX, ..right }, WarrantFault::Expired),
    ];
    for (expectation, fault) in table {
        assert_eq!(warrant.verify(&keys(), &expectation), Err(fault));
    }
    let last = WarrantExpectation { now_ms: START_MS + 999 + USE_MS, ..right };
    assert!(warrant.verify(&keys(), &last).is_ok());
}

/// Signed by the right key, and still worth nothing.
#[test]
fn the_decisions_in_it_have_to_approve() {
    let ticket = dual();
    let said = claims(&issue(&ticket));
    let with = |member: &str, value: Value| {
        let mut said = said.clone();
        said[member] = value;
        signed_by(&said, &key(1))
    };
    let statement = |change: fn(&mut ApprovalDecision), seed: u8| {
        let mut decision = decision(&ticket, &approver("eve"), ApprovalVerdict::Approve);
        change(&mut decision);
        serde_json::to_value(decision.sign(None, &key(seed)).unwrap()).unwrap()
    };
    let bob = said["approvers"][0].clone();
    let beside_bob = |other: Value| with("approvers", json!([bob, other]));
    let unsigned = {
        let mut decision = statement(|_| {}, 1);
        decision["decision"]["reason"] = json!("added afterwards");
        decision
    };
    let table = [
        (with("approvers", json!([])), WarrantFault::Approvers, "nobody"),
        (with("approvers", json!([bob])), WarrantFault::Approvers, "too few"),
        (beside_bob(bob.clone()), WarrantFault::Approvers, "the same person twice"),
        (
            beside_bob(statement(|decision| decision.approver = "bob".to_owned(), 1)),
            WarrantFault::Approvers,
            "the same person again",
        ),
        (
            beside_bob(statement(|decision| decision.verdict = ApprovalVerdict::Deny, 1)),
            WarrantFault::Approvers,
            "a denial",
        ),
        (
            beside_bob(statement(|decision| decision.payload_hash = digest("x"), 1)),
            WarrantFault::Approvers,
            "another payload",
        ),
        (
            beside_bob(statement(|decision| decision.ticket = TicketId::from("apr_9".to_owned()), 1)),
            WarrantFault::Approvers,
            "another ticket",
        ),
        (
            beside_bob(statement(|decision| decision.tenant = "umbrella".to_owned(), 1)),
            WarrantFault::Approvers,
            "another tenant",
        ),
        (beside_bob(statement(|_| {}, 9)), WarrantFault::Decision(DecisionFault::Signature), "a foreign key"),
        (beside_bob(unsigned), WarrantFault::Decision(DecisionFault::Signature), "changed after it was signed"),
        (with("presence", json!("fresh")), WarrantFault::Approvers, "not present enough"),
        (with("quorum", json!(3)), WarrantFault::Approvers, "more were needed"),
        (with("quorum", json!(0)), WarrantFault::NotApproved, "nobody was needed"),
        (with("approval_scope", json!("session")), WarrantFault::NotApproved, "more than one execution"),
        (with("decision", json!("denied")), WarrantFault::NotApproved, "not approved"),
    ];
    for (warrant, fault, what) in table {
        assert_eq!(warrant.check(&keys()).unwrap_err(), fault, "{what}");
    }
    assert!(beside_bob(statement(|_| {}, 1)).check(&keys()).is_ok(), "the table changes one thing at a time");
}

#[test]
fn a_decision_is_worth_its_signature() {
    let ticket = opened(request());
    let said = || decision(&ticket, &approver("bob"), ApprovalVerdict::Approve);
    let signed = said().sign(None, &key(1)).unwrap();
    assert_eq!(signed.verify(&keys()), Ok(()));
    assert_eq!(signed.verify(&keys()[..1]), Err(DecisionFault::Signature));
    let changed: [fn(&mut SignedDecision); 9] = [
        |signed| signed.decision.verdict = ApprovalVerdict::Deny,
        |signed| signed.decision.approver.push('x'),
        |signed| signed.decision.tenant.push('x'),
        |signed| signed.decision.payload_hash = digest("x"),
        |signed| signed.decision.at_ms += 1,
        |signed| signed.decision.break_glass = true,
        |signed| signed.decision.reason = Some("because".to_owned()),
        |signed| signed.signature.push('A'),
        |signed| signed.key_id = key(7).public().key_id(),
    ];
    for (number, change) in changed.into_iter().enumerate() {
        let mut forged = signed.clone();
        change(&mut forged);
        assert_eq!(forged.verify(&keys()), Err(DecisionFault::Signature), "{number}");
    }
    // A passkey signs ticket, payload, verdict and person, so that no challenge fits two decisions.
    let challenges = [
        said(),
        ApprovalDecision { verdict: ApprovalVerdict::Deny, ..said() },
        ApprovalDecision { approver: "eve".to_owned(), ..said() },
        ApprovalDecision { tenant: "acmeb".to_owned(), approver: "ob".to_owned(), ..said() },
        ApprovalDecision { payload_hash: digest("x"), ..said() },
        ApprovalDecision { ticket: TicketId::from("apr_9".to_owned()), ..said() },
    ];
    let distinct: std::collections::BTreeSet<_> = challenges.iter().map(ApprovalDecision::passkey_challenge).collect();
    assert_eq!(distinct.len(), challenges.len());
}
