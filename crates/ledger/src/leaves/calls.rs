//! The leaves of calls, from their records.

use servanda_audit::leaf::{
    AuditEvent, CallLeaf, DecisionLeaf, LeafContract, LeafMutation, LeafSalts, LeafStatus, LeafVerdict, OutcomeLeaf,
    SaltedThing,
};
use servanda_contract::{CallRecord, Digest, TaxonomyClass, digest::DigestDomain, record::Outcome, tool::EffectClass};

use super::{DecisionTold, text};

/// Agents that a leaf names.
const AGENTS_MAX: usize = 15;

/// When it happened.
pub(super) fn at_ms(record: &CallRecord) -> u64 {
    let latest = record.finished_at.or(record.dispatched_at);
    latest.unwrap_or(record.received_at).unix_ms()
}

/// The decision about a call that is dispatched.
pub(super) fn decided(record: &CallRecord, salts: &LeafSalts) -> AuditEvent {
    AuditEvent::Decision(Box::new(decision(record, salts)))
}

/// The end of a call.
pub(super) fn ended(record: &CallRecord, told: DecisionTold, salts: &LeafSalts) -> AuditEvent {
    if told == DecisionTold::Before {
        return AuditEvent::Outcome(Box::new(outcome(record, salts)));
    }
    let mut decision = decision(record, salts);
    // An approval is used when an effect is dispatched. A call without one that was allowed only opened the ticket: it proposed a plan.
    if decision.verdict == LeafVerdict::Allow && record.effect_id.is_none() {
        decision.ticket = None;
    }
    AuditEvent::Call(Box::new(CallLeaf { decision, outcome: outcome(record, salts) }))
}

fn decision(record: &CallRecord, salts: &LeafSalts) -> DecisionLeaf {
    let contract = record.contract.as_deref();
    let verdict = verdict(record);
    let of_refusal = record.refusal.as_ref().filter(|_| verdict != LeafVerdict::Allow);
    DecisionLeaf {
        agents: agents(record),
        call: record.call_id.to_string(),
        caller: text(&record.caller.principal),
        class: of_refusal.map(|refusal| refusal.error_code.name().to_owned()),
        contract: contract.map(|contract| LeafContract {
            digest: contract.digest.to_string(),
            name: text(&contract.name),
            version: text(&contract.version),
        }),
        gate: of_refusal.map(|refusal| refusal.gate.to_string()),
        input: commit(record, &record.arguments_digest, salts),
        mutation: contract.filter(|contract| contract.effect_class == EffectClass::R).map(|_| LeafMutation::Read),
        operation: contract.map(|contract| text(&contract.upstream_tool)),
        policies: None,
        tenant: text(&record.caller.tenant),
        ticket: record.ticket_id.as_deref().map(text),
        tool: text(&record.tool),
        trace: text(&record.trace_id),
        verdict,
    }
}

fn outcome(record: &CallRecord, salts: &LeafSalts) -> OutcomeLeaf {
    let took_ms = record.finished_at.map_or(0, |at| at.unix_ms().saturating_sub(record.received_at.unix_ms()));
    OutcomeLeaf {
        call: record.call_id.to_string(),
        class: record.class.map(|class| class.name().to_owned()),
        effect: record.effect_id.as_deref().map(text),
        outcome: record.outcome.name().to_owned(),
        output: record.answer_digest.as_ref().map(|digest| commit(record, digest, salts)),
        output_bytes: None,
        side_effects: Vec::new(),
        status: status(record),
        took_ms,
    }
}

/// The agents, the acting one first. If there are very many, the last one stands for the rest.
fn agents(record: &CallRecord) -> Vec<String> {
    let actors = &record.caller.actors;
    let named = actors.iter().take(AGENTS_MAX).map(|actor| text(&actor.name));
    let rest: Vec<&[u8]> = actors.iter().skip(AGENTS_MAX).map(|actor| actor.name.as_bytes()).collect();
    let rest = (!rest.is_empty()).then(|| Digest::compute(DigestDomain::LeafText, &rest).to_string());
    named.chain(rest).collect()
}

/// A commitment to the digest of something that the call has: whoever has the content computes the digest.
fn commit(record: &CallRecord, digest: &Digest, salts: &LeafSalts) -> servanda_audit::Commitment {
    salts.commit(SaltedThing::Call, record.call_id.as_str(), digest.as_bytes())
}

fn verdict(record: &CallRecord) -> LeafVerdict {
    let is_held = record.class == Some(TaxonomyClass::ConfirmationMissing) && record.ticket_id.is_some();
    match (record.outcome, record.class) {
        (Outcome::Refused | Outcome::Previewed, _) if is_held => LeafVerdict::RequiresApproval,
        (Outcome::Previewed, Some(TaxonomyClass::Success)) => LeafVerdict::Allow,
        (Outcome::Refused | Outcome::Previewed, _) => LeafVerdict::Deny,
        _ => LeafVerdict::Allow,
    }
}

/// How the call ended; none while it may still end in another way.
fn status(record: &CallRecord) -> Option<LeafStatus> {
    match (record.outcome, record.class?) {
        (Outcome::Dispatching | Outcome::TaskCreated | Outcome::InputRequired, _) => None,
        (_, TaxonomyClass::Success) => Some(LeafStatus::Success),
        (_, TaxonomyClass::Timeout) | (Outcome::Unknown, _) => Some(LeafStatus::Timeout),
        _ => Some(LeafStatus::Error),
    }
}
