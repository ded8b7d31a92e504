//! The bytes of leaves, and commitments.

use proptest::prelude::*;
use servanda_audit::leaf::{
    ApprovalLeaf, AuditEvent, AuditLeaf, CallLeaf, ChangeLeaf, ChangedThing, Commitment, DecisionLeaf, EffectLeaf,
    LEAF_VERSION, LeafContract, LeafEffectState, LeafFormFault, LeafMutation, LeafStatus, LeafTicketState, LeafVerdict,
    OutcomeLeaf, TicketLeaf,
};

pub(crate) const SALT: [u8; 32] = [9; 32];

pub(crate) fn decision(call: &str, verdict: LeafVerdict) -> DecisionLeaf {
    DecisionLeaf {
        call: call.to_owned(),
        trace: "4bf92f3577b34da6a3ce929d0e0e4736".to_owned(),
        tenant: "acme".to_owned(),
        caller: "ana@example.org".to_owned(),
        agents: vec!["planner".to_owned()],
        tool: "mail__send".to_owned(),
        contract: Some(LeafContract {
            name: "mail.send".to_owned(),
            version: "1.2.0".to_owned(),
            digest: format!("sha256:{}", "ab".repeat(32)),
        }),
        operation: Some("send".to_owned()),
        input: Commitment::new(&SALT, br#"{"to":"bo@example.org"}"#),
        mutation: Some(LeafMutation::WriteIrreversible),
        verdict,
        gate: None,
        class: None,
        ticket: None,
        policies: Some(format!("sha256:{}", "cd".repeat(32))),
    }
}

pub(crate) fn outcome(call: &str, status: LeafStatus) -> OutcomeLeaf {
    OutcomeLeaf {
        call: call.to_owned(),
        outcome: "completed".to_owned(),
        status: Some(status),
        class: None,
        took_ms: 41,
        output: Some(Commitment::new(&SALT, b"sent")),
        output_bytes: Some(4),
        side_effects: vec!["outbox".to_owned()],
        effect: Some("e1".to_owned()),
    }
}

pub(crate) fn leaf(event: AuditEvent) -> AuditLeaf {
    AuditLeaf { v: LEAF_VERSION, at_ms: 1_790_000_000_000, event }
}

pub(crate) fn one_of_each() -> Vec<AuditLeaf> {
    let ticket = TicketLeaf {
        ticket: "t1".to_owned(),
        to: LeafTicketState::Pending,
        call: Some("c1".to_owned()),
        payload: Some(Commitment::new(&SALT, b"payload")),
        quorum: Some(2),
        warrant: None,
    };
    let refused = DecisionLeaf {
        gate: Some("policy".to_owned()),
        class: Some("POLICY_VIOLATION".to_owned()),
        agents: Vec::new(),
        contract: None,
        operation: None,
        mutation: None,
        policies: None,
        ..decision("c2", LeafVerdict::Deny)
    };
    let approval = ApprovalLeaf {
        ticket: "t1".to_owned(),
        by: "bo@example.org".to_owned(),
        approves: true,
        payload: Commitment::new(&SALT, b"payload"),
        statement: Commitment::new(&SALT, b"statement"),
    };
    let change = ChangeLeaf {
        thing: ChangedThing::Contract,
        id: "mail.send".to_owned(),
        change: "admitted".to_owned(),
        by: "ops@example.org".to_owned(),
        call: None,
        digest: Some(format!("sha256:{}", "ab".repeat(32))),
    };
    let effect =
        EffectLeaf { effect: "e1".to_owned(), call: "c1".to_owned(), epoch: 1, to: LeafEffectState::Dispatching };
    vec![
        leaf(AuditEvent::Decision(Box::new(decision("c1", LeafVerdict::Allow)))),
        leaf(AuditEvent::Decision(Box::new(refused))),
        leaf(AuditEvent::Outcome(Box::new(outcome("c1", LeafStatus::Success)))),
        leaf(AuditEvent::Effect(effect)),
        leaf(AuditEvent::Call(Box::new(CallLeaf {
            decision: decision("c3", LeafVerdict::Allow),
            outcome: OutcomeLeaf { effect: None, status: None, ..outcome("c3", LeafStatus::Success) },
        }))),
        leaf(AuditEvent::Ticket(ticket)),
        leaf(AuditEvent::Approval(approval)),
        leaf(AuditEvent::Change(change)),
    ]
}

/// A leaf is in logs for years: its bytes do not change. After a change of the shape: `INSTA_UPDATE=always`, and a new version.
#[test]
fn the_bytes_of_every_kind_of_leaf() {
    let lines =
        one_of_each().iter().map(|leaf| String::from_utf8(leaf.to_bytes().unwrap()).unwrap()).collect::<Vec<_>>();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn leaves_are_spelled_as_rfc_8785_spells_them() {
    let mut strange = decision("c\u{1}\u{7f}\u{2028}\u{1f600}\"\\/\u{8}\u{c}\n\r\t", LeafVerdict::Allow);
    strange.tool = "\u{20ac}\u{fb33}".to_owned();
    let mut leaves = one_of_each();
    leaves.push(leaf(AuditEvent::Decision(Box::new(strange))));
    for leaf in leaves {
        let bytes = leaf.to_bytes().unwrap();
        assert_eq!(bytes, serde_json_canonicalizer::to_vec(&leaf).unwrap(), "the other implementation");
        assert_eq!(AuditLeaf::from_bytes(&bytes).unwrap(), leaf);
    }
}

#[test]
fn other_spellings_of_a_leaf_are_refused() {
    let bytes = one_of_each()[3].to_bytes().unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let refused = |text: &str| AuditLeaf::from_bytes(text.as_bytes()).unwrap_err();
    let spelling = [
        text.replace(':', ": "),
        format!("{text}\n"),
        text.replace("\"v\":1", "\"v\":1 "),
        text.replace("dispatching", "dispatchin\\u0067"),
        text.replacen("\"at_ms\":1790000000000,", "", 1).replace("\"v\":1", "\"v\":1,\"at_ms\":1790000000000"),
    ];
    for text in spelling {
        assert!(matches!(refused(&text), LeafFormFault::Spelling), "{text}");
    }
    let shapes = [
        text.replace("\"v\":1", "\"v\":1,\"w\":1"),
        text.replace("\"epoch\":1", "\"epoch\":1,\"epoch\":1"),
        text.replace("\"epoch\":1", "\"epoch\":1,\"more\":1"),
        text.replace("\"epoch\":1", "\"epoch\":1.0"),
        text.replace("\"epoch\":1", "\"epoch\":-1"),
        text.replace("dispatching", "sent"),
        text.replace("\"effect\":{", "\"effects\":{"),
        text.replace('}', ""),
        String::new(),
    ];
    for text in shapes {
        assert!(matches!(refused(&text), LeafFormFault::Shape(_)), "{text}");
    }
    assert!(matches!(refused(&text.replace("\"v\":1", "\"v\":2")), LeafFormFault::Version(2)));
    let null = String::from_utf8(one_of_each()[7].to_bytes().unwrap())
        .unwrap()
        .replace("\"change\":\"admitted\"", "\"call\":null,\"change\":\"admitted\"");
    assert!(matches!(refused(&null), LeafFormFault::Spelling), "an absent member has one spelling: {null}");
}

#[test]
fn leaves_have_limits() {
    let with = |change: &dyn Fn(&mut DecisionLeaf)| {
        let mut changed = decision("c1", LeafVerdict::Allow);
        change(&mut changed);
        leaf(AuditEvent::Decision(Box::new(changed))).to_bytes()
    };
    let text = "x".repeat(2_048);
    assert!(with(&|leaf| leaf.tool.clone_from(&text)).is_ok());
    assert!(matches!(with(&|leaf| leaf.tool = format!("{text}x")), Err(LeafFormFault::Limit)));
    assert!(with(&|leaf| leaf.agents = vec!["a".to_owned(); 64]).is_ok());
    assert!(matches!(with(&|leaf| leaf.agents = vec!["a".to_owned(); 65]), Err(LeafFormFault::Limit)));
    assert!(matches!(with(&|leaf| leaf.agents = vec![text.clone(); 40]), Err(LeafFormFault::Size { .. })));
    let late = AuditLeaf { at_ms: 1 << 53, ..one_of_each().remove(0) };
    assert!(matches!(late.to_bytes(), Err(LeafFormFault::Limit)));
    let bytes = vec![b' '; 65_536];
    assert!(matches!(AuditLeaf::from_bytes(&bytes), Err(LeafFormFault::Size { bytes: 65_536 })));
}

#[test]
fn a_commitment_is_opened_by_its_salt_and_its_content_alone() {
    let commitment = Commitment::new(&SALT, b"content");
    assert!(commitment.is_opened_by(&SALT, b"content"));
    assert!(!commitment.is_opened_by(&SALT, b"content "));
    assert!(!commitment.is_opened_by(&[8; 32], b"content"));
    let text = commitment.to_string();
    assert_eq!(text.parse(), Ok(commitment));
    for wrong in [
        text.to_uppercase(),
        format!("{text}0"),
        text[..text.len() - 1].to_owned(),
        text.replace("salted-", ""),
        text.replacen(&text[14..16], "+1", 1),
    ] {
        assert!(wrong.parse::<Commitment>().is_err(), "{wrong}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), at: prop::sample::Index, kind in 0_usize..8) {
        let _ = AuditLeaf::from_bytes(&bytes);
        let mut changed = one_of_each()[kind].to_bytes().unwrap();
        let at = at.index(changed.len());
        changed[at] = bytes.first().copied().unwrap_or_default();
        if let Ok(leaf) = AuditLeaf::from_bytes(&changed) {
            prop_assert_eq!(leaf.to_bytes().unwrap(), changed);
        }
    }
}
