//! What leaves say about records, effects and tickets. A leaf is in logs for years, so what it says must not change silently.

use servanda_approval::{ApprovalVerdict, TicketEvent, TicketId, TicketRequest};
use servanda_audit::{AuditLeaf, leaf::LeafSalts, tile::leaves_of_bundle};
use servanda_contract::{
    CallId, CallRecord, Caller, CallerActor, GateName, Refusal, TaxonomyClass, Timestamp, record::Outcome,
};
use servanda_effects::{
    effect::{
        BeginRequest, Claim, DispatchEnd, Effect, EffectContext, EffectEvent, EffectId, EffectReply, EffectState,
        LedgerNow, Settlement, step,
    },
    ticket_store::TicketTarget,
};

use super::{
    samples::{begin, read_record, record},
    ticket_samples::{approver, decide, request},
};
use crate::{
    leaves::{DecisionTold, EffectStanding, LeafWriter, Leaves},
    ticket_page::TicketPage,
};

fn writer() -> LeafWriter {
    LeafWriter::new(LeafSalts::from_bytes(&[7; 32]).unwrap())
}

fn lines(leaves: &Leaves) -> String {
    let width = u16::try_from(leaves.count).unwrap();
    let line = |leaf: &[u8]| {
        AuditLeaf::from_bytes(leaf).unwrap();
        format!("{}\n", String::from_utf8(leaf.to_vec()).unwrap())
    };
    leaves_of_bundle(&leaves.bytes, width).unwrap().into_iter().map(line).collect()
}

fn refused(call_id: &str, gate: GateName, class: TaxonomyClass) -> CallRecord {
    let refusal = Refusal::new(CallId::from(call_id.to_owned()), gate, class, "no".to_owned(), String::new());
    CallRecord { class: Some(class), refusal: Some(refusal), ..record(call_id, Outcome::Refused, 1) }
}

/// One record of each kind that its leaf tells apart.
fn records() -> Vec<(CallRecord, DecisionTold)> {
    let read = CallRecord { call_id: CallId::from("call_read".to_owned()), ..read_record(1) };
    let held = refused("call_held", GateName::Confirmation, TaxonomyClass::ConfirmationMissing);
    let sent = |outcome, class| CallRecord {
        effect_id: Some("eff_1".to_owned()),
        dispatched_at: Some(Timestamp::from_unix_ms(2)),
        finished_at: Some(Timestamp::from_unix_ms(9)),
        class,
        ..record("call_sent", outcome, 1)
    };
    let actors = (0..17).map(|number| CallerActor { name: format!("agent-{number}"), proven: true }).collect();
    let of_agents = Caller { actors, ..Caller::named("acme", &"a".repeat(300)) };
    vec![
        (read.clone(), DecisionTold::Now),
        (refused("call_refused", GateName::Policy, TaxonomyClass::PolicyViolation), DecisionTold::Now),
        (CallRecord { ticket_id: Some("apr_1".to_owned()), ..held }, DecisionTold::Now),
        (sent(Outcome::Completed, Some(TaxonomyClass::Success)), DecisionTold::Before),
        (sent(Outcome::Unknown, Some(TaxonomyClass::UnknownError)), DecisionTold::Before),
        (sent(Outcome::TaskCreated, None), DecisionTold::Before),
        (sent(Outcome::Replayed, Some(TaxonomyClass::Success)), DecisionTold::Now),
        (CallRecord { caller: of_agents.into(), ..read }, DecisionTold::Now),
    ]
}

/// An effect from its dispatch to a person's settlement.
fn effects() -> Vec<Effect> {
    let around = EffectContext::at(LedgerNow::plain(1_000));
    let request = BeginRequest { id: EffectId::from("eff_1".to_owned()), ..begin("k-1") };
    let begun = step(None, &EffectEvent::Begin(Box::new(request)), &around);
    let EffectReply::Mine(claim): EffectReply = begun.reply else { panic!("not ours") };
    let claim: Claim = claim;
    let begun = begun.change.unwrap();
    let end = EffectEvent::Settle(claim, DispatchEnd::Unknown("the answer never came".to_owned()));
    let unknown = step(Some(&begun), &end, &around).change.unwrap();
    let settlement = Settlement { by: "ada".to_owned(), evidence: "the list".to_owned(), at_ms: 1_000 };
    let settled = Effect { settlement: Some(settlement), state: EffectState::Completed, ..unknown.clone() };
    vec![begun, unknown, settled]
}

/// A ticket that is approved.
fn ticket_leaves(leaves: &mut Leaves) {
    let (mut page, now) = (TicketPage::default(), LedgerNow::plain(1_000));
    let request = TicketRequest { id: TicketId::from("apr_1".to_owned()), ..request("pay") };
    let target = TicketTarget::Key(request.key);
    let ticket = page.apply(&target, &TicketEvent::Request(Box::new(request)), now).ticket.unwrap();
    page.apply(&target, &decide(&ticket, approver("bob"), ApprovalVerdict::Approve), now);
    page.leaf_changes().iter().for_each(|change| writer().ticket(change, leaves).unwrap());
}

#[test]
fn what_leaves_say_is_golden() {
    let (mut leaves, writer) = (Leaves::default(), writer());
    for (record, told) in records() {
        writer.end(&record, told, &mut leaves).unwrap();
    }
    writer.decision(&record("call_sent", Outcome::Dispatching, 1), &mut leaves).unwrap();
    let mut before = None;
    for effect in effects() {
        leaves.effect(before, &effect).unwrap();
        leaves.effect(Some(EffectStanding::of(&effect)), &effect).unwrap();
        before = Some(EffectStanding::of(&effect));
    }
    ticket_leaves(&mut leaves);
    let told = lines(&leaves);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let place = concat!(env!("CARGO_MANIFEST_DIR"), "/src/tests/leaves.golden.txt");
        std::fs::write(place, &told).unwrap();
        return;
    }
    assert_eq!(told, include_str!("leaves.golden.txt"));
}

#[test]
fn a_call_under_way_whose_record_moves_has_no_leaf() {
    let mut leaves = Leaves::default();
    writer().end(&record("call_1", Outcome::Dispatching, 1), DecisionTold::Before, &mut leaves).unwrap();
    assert!(leaves.is_empty());
}

/// The longest names, with characters that are escaped, fit into a leaf.
#[test]
fn no_name_is_too_long_for_a_leaf() {
    let strange = "\u{1}".repeat(256);
    let actors = (0..40).map(|_| CallerActor { name: strange.clone(), proven: false }).collect();
    let caller = Caller { actors, ..Caller::named(&strange, &strange) };
    let long = CallRecord {
        caller: caller.into(),
        tool: strange.clone(),
        trace_id: strange.clone(),
        ticket_id: Some(strange),
        ..read_record(1)
    };
    let mut leaves = Leaves::default();
    writer().end(&long, DecisionTold::Now, &mut leaves).unwrap();
    assert_eq!(leaves.count, 1);
    assert!(leaves.bytes.len() > 20_000, "{}", leaves.bytes.len());
}
