//! Leaves are found by what they are about, also where only the decision before them says it; and what opens their commitments.

use servanda_audit::{
    leaf::{
        ApprovalLeaf, AuditEvent, AuditLeaf, CallLeaf, ChangeLeaf, ChangedThing, Commitment, DecisionLeaf, EffectLeaf,
        LeafEffectState, LeafOpening, LeafSalts, LeafStatus, LeafTicketState, LeafVerdict, OutcomeLeaf, SaltedThing,
        TicketLeaf,
    },
    search::{LeafQuery, LeafSearch, REMEMBERED_MAX},
};
use sha2::{Digest as _, Sha256};

use crate::leaves::{SALT, decision, leaf, outcome};

/// Two calls of two callers, one after an approval, and one that was refused.
fn history() -> Vec<AuditLeaf> {
    let of_bo = |call: &str, verdict| DecisionLeaf {
        caller: "bo".to_owned(),
        agents: Vec::new(),
        tool: "mail__read".to_owned(),
        trace: "0af7651916cd43dd8448eb211c80319c".to_owned(),
        contract: None,
        ..decision(call, verdict)
    };
    let effect = |to| AuditEvent::Effect(EffectLeaf { call: "c1".to_owned(), effect: "e1".to_owned(), epoch: 1, to });
    let ticket = |to, call: Option<&str>| {
        let call = call.map(str::to_owned);
        AuditEvent::Ticket(TicketLeaf { call, payload: None, quorum: None, ticket: "t1".to_owned(), to, warrant: None })
    };
    let approval = AuditEvent::Approval(ApprovalLeaf {
        approves: true,
        by: "eve".to_owned(),
        payload: Commitment::new(&SALT, b"payload"),
        statement: Commitment::new(&SALT, b"statement"),
        ticket: "t1".to_owned(),
    });
    let settled = AuditEvent::Change(ChangeLeaf {
        by: "eve".to_owned(),
        call: Some("c1".to_owned()),
        change: "completed".to_owned(),
        digest: None,
        id: "e1".to_owned(),
        thing: ChangedThing::Settlement,
    });
    let held = CallLeaf {
        decision: DecisionLeaf { ticket: Some("t1".to_owned()), ..decision("c0", LeafVerdict::RequiresApproval) },
        outcome: OutcomeLeaf {
            effect: None,
            class: Some("CONFIRMATION_MISSING".to_owned()),
            ..outcome("c0", LeafStatus::Error)
        },
    };
    let refused = CallLeaf {
        decision: DecisionLeaf { class: Some("POLICY_VIOLATION".to_owned()), ..of_bo("c2", LeafVerdict::Deny) },
        outcome: OutcomeLeaf {
            effect: None,
            class: Some("POLICY_VIOLATION".to_owned()),
            ..outcome("c2", LeafStatus::Error)
        },
    };
    let timed_out = OutcomeLeaf { class: Some("TIMEOUT".to_owned()), ..outcome("c1", LeafStatus::Timeout) };
    let decided = DecisionLeaf { ticket: Some("t1".to_owned()), ..decision("c1", LeafVerdict::Allow) };
    let events = vec![
        ticket(LeafTicketState::Pending, Some("c0")),
        AuditEvent::Call(Box::new(held)),
        approval,
        AuditEvent::Decision(Box::new(decided)),
        effect(LeafEffectState::Dispatching),
        AuditEvent::Call(Box::new(refused)),
        AuditEvent::Outcome(Box::new(timed_out)),
        effect(LeafEffectState::OutcomeUnknown),
        settled,
    ];
    (0..).zip(events).map(|(number, event)| AuditLeaf { at_ms: 1_000 + number, ..leaf(event) }).collect()
}

fn found(query: LeafQuery) -> Vec<usize> {
    let (mut search, history) = (LeafSearch::new(query), history());
    let found = history.iter().enumerate().filter(|(_, leaf)| search.is_found(leaf));
    found.map(|(index, _)| index).collect()
}

#[test]
fn leaves_are_found_by_every_condition() {
    let text = |text: &str| Some(text.to_owned());
    let none = LeafQuery::default();
    let table: [(LeafQuery, &[usize]); 17] = [
        (none.clone(), &[0, 1, 2, 3, 4, 5, 6, 7, 8]),
        (LeafQuery { call: text("c1"), ..none.clone() }, &[3, 4, 6, 7, 8]),
        (LeafQuery { call: text("c2"), ..none.clone() }, &[5]),
        (LeafQuery { call: text("c"), ..none.clone() }, &[]),
        (LeafQuery { effect: text("e1"), ..none.clone() }, &[4, 6, 7, 8]),
        (LeafQuery { ticket: text("t1"), ..none.clone() }, &[0, 1, 2, 3]),
        // The opening of a ticket comes before the decision that opened it.
        (LeafQuery { caller: text("ana@example.org"), ..none.clone() }, &[1, 2, 3, 4, 6, 7, 8]),
        (LeafQuery { caller: text("acme/bo"), ..none.clone() }, &[5]),
        (LeafQuery { caller: text("globex/bo"), ..none.clone() }, &[]),
        (LeafQuery { caller: text("planner"), ..none.clone() }, &[1, 2, 3, 4, 6, 7, 8]),
        (LeafQuery { tool: text("mail.send"), call: text("c1"), ..none.clone() }, &[3, 4, 6, 7, 8]),
        (LeafQuery { tool: text("mail__read"), ..none.clone() }, &[5]),
        (LeafQuery { trace: text("0af7651916cd43dd8448eb211c80319c"), ..none.clone() }, &[5]),
        (LeafQuery { class: text("POLICY_VIOLATION"), ..none.clone() }, &[5]),
        (LeafQuery { class: text("TIMEOUT"), tool: text("mail__send"), ..none.clone() }, &[6]),
        (LeafQuery { class: text("TIMEOUT"), tool: text("mail__read"), ..none.clone() }, &[]),
        (LeafQuery { since_ms: Some(1_003), until_ms: Some(1_005), ..none }, &[3, 4, 5]),
    ];
    for (query, expected) in table {
        assert_eq!(found(query.clone()), expected, "{query:?}");
    }
}

/// So many calls are remembered; the oldest are forgotten, and a search takes no more memory than that.
#[test]
fn what_a_search_remembers_is_bounded() {
    let mut search = LeafSearch::new(LeafQuery { tool: Some("mail__send".to_owned()), ..LeafQuery::default() });
    let id = |number: usize| format!("call_{number:09}");
    for number in 0..=REMEMBERED_MAX {
        let decided = leaf(AuditEvent::Decision(Box::new(decision(&id(number), LeafVerdict::Allow))));
        assert!(search.is_found(&decided));
    }
    let mut ends = |number: usize| {
        search.is_found(&leaf(AuditEvent::Outcome(Box::new(outcome(&id(number), LeafStatus::Success)))))
    };
    assert!(ends(REMEMBERED_MAX) && ends(1));
    assert!(!ends(0), "the oldest was forgotten");
}

/// An outsider opens a commitment with this and nothing else of ours: docs/audit-log.md says how.
#[test]
fn a_commitment_is_opened_by_its_salt_and_digest() {
    let salts = LeafSalts::from_bytes(&[7; 32]).unwrap();
    let (input, output): ([u8; 32], [u8; 32]) = ([1; 32], [2; 32]);
    let commit = |content: &[u8]| salts.commit(SaltedThing::Call, "c1", content);
    let whole = AuditEvent::Call(Box::new(CallLeaf {
        decision: DecisionLeaf { input: commit(&input), ..decision("c1", LeafVerdict::Allow) },
        outcome: OutcomeLeaf { output: Some(commit(&output)), ..outcome("c1", LeafStatus::Success) },
    }));
    let mut opening = LeafOpening::of(&whole, &salts).unwrap();
    assert!(opening.add_digest("input", &input) && opening.add_digest("output", &output));
    assert!(!opening.add_digest("input", &output) && !opening.add_digest("other", &input), "not what was committed to");
    let told = serde_json::to_value(&opening).unwrap();
    assert_eq!(serde_json::from_value::<LeafOpening>(told.clone()).unwrap(), opening);
    let bytes = |hex: &serde_json::Value| -> Vec<u8> {
        let (pairs, _) = hex.as_str().unwrap().as_bytes().as_chunks::<2>();
        pairs.iter().map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
    };
    for opened in told["opens"].as_array().unwrap() {
        let hash = Sha256::new().chain_update(b"servanda/commitment/v1\0").chain_update(bytes(&told["salt"]));
        let hash = hash.chain_update(bytes(&opened["digest"])).finalize();
        let digits = |byte: &u8| [byte >> 4, byte & 15].map(|digit| char::from_digit(digit.into(), 16).unwrap());
        let hex: String = hash.iter().flat_map(digits).collect();
        assert_eq!(opened["commitment"], format!("salted-sha256:{hex}"));
    }
    let another = LeafOpening::of(&AuditEvent::Decision(Box::new(decision("c2", LeafVerdict::Allow))), &salts).unwrap();
    assert_ne!(another.salt, opening.salt, "the salt of a call opens no other call");
    let held = AuditEvent::Change(ChangeLeaf {
        by: "servanda".to_owned(),
        call: Some("c1".to_owned()),
        change: "reserved".to_owned(),
        digest: Some(salts.commit(SaltedThing::BudgetHold, "h1", &input).to_string()),
        id: "h1".to_owned(),
        thing: ChangedThing::Budget,
    });
    assert!(LeafOpening::of(&held, &salts).unwrap().add_digest("digest", &input), "what a budget holds");
    assert!(LeafOpening::of(&history()[8].event, &salts).is_none(), "a settlement has no commitment");
    assert!(LeafOpening::of(&history()[4].event, &salts).is_none(), "an effect has no commitment");
}
