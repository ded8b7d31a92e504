//! Leaves by what they are about. The end of a call and the states of its effect do not name its caller, tool and trace: its decision did, so
//! that a search remembers the calls, and their tickets, whose decisions it met.
//!
//! Deliberately not here: reading a log.

use std::collections::BTreeSet;

use crate::leaf::{AuditEvent, AuditLeaf, ChangedThing, DecisionLeaf};

/// Calls, and as many tickets, that a search remembers; of more, the newest.
pub const REMEMBERED_MAX: usize = 100_000;

/// Which leaves to find: those that meet every condition that is set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeafQuery {
    /// The call.
    pub call: Option<String>,
    /// The effect.
    pub effect: Option<String>,
    /// The ticket, or the grant that it became.
    pub ticket: Option<String>,
    /// A user, `tenant/user`, or an agent that acts.
    pub caller: Option<String>,
    /// The exposed name as called, or the contract's name.
    pub tool: Option<String>,
    /// The trace.
    pub trace: Option<String>,
    /// The class of a refusal or an end.
    pub class: Option<String>,
    /// Not before this time, in milliseconds since 1970.
    pub since_ms: Option<u64>,
    /// Not after this time.
    pub until_ms: Option<u64>,
}

/// A search through leaves in their order.
#[derive(Debug)]
pub struct LeafSearch {
    query: LeafQuery,
    // Ids begin with the time at which they were made, so that the first are the oldest.
    calls: BTreeSet<String>,
    tickets: BTreeSet<String>,
}

impl LeafQuery {
    /// Whether it asks for nothing in particular.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn asks_for_a_decision(&self) -> bool {
        self.caller.is_some() || self.tool.is_some() || self.trace.is_some()
    }

    fn is_decision(&self, decision: &DecisionLeaf) -> bool {
        let is_caller = |name: &String| {
            decision.caller == *name
                || decision.agents.contains(name)
                || name
                    .split_once('/')
                    .is_some_and(|(tenant, user)| decision.tenant == tenant && decision.caller == user)
        };
        let is_tool = |name: &String| {
            decision.tool == *name || decision.contract.as_ref().is_some_and(|contract| contract.name == *name)
        };
        self.caller.as_ref().is_none_or(is_caller)
            && self.tool.as_ref().is_none_or(is_tool)
            && self.trace.as_ref().is_none_or(|trace| decision.trace == *trace)
    }
}

impl LeafSearch {
    /// Begins a search.
    pub const fn new(query: LeafQuery) -> Self {
        Self { query, calls: BTreeSet::new(), tickets: BTreeSet::new() }
    }

    /// Whether the next leaf is one of those.
    pub fn is_found(&mut self, leaf: &AuditLeaf) -> bool {
        let event = &leaf.event;
        let is_of_decision = !self.query.asks_for_a_decision() || self.follows(event);
        let Self { query, .. } = self;
        let is = |wanted: &Option<String>, found: Option<&str>| {
            wanted.as_ref().is_none_or(|wanted| found == Some(wanted.as_str()))
        };
        is_of_decision
            && is(&query.call, event.call())
            && is(&query.effect, effect(event))
            && is(&query.ticket, ticket(event))
            && query.class.as_ref().is_none_or(|class| classes(event).contains(&Some(class.as_str())))
            && query.since_ms.is_none_or(|since| leaf.at_ms >= since)
            && query.until_ms.is_none_or(|until| leaf.at_ms <= until)
    }

    /// Whether the leaf has a decision that is asked for, or follows one.
    fn follows(&mut self, event: &AuditEvent) -> bool {
        let (call, ticket) = (event.call(), ticket(event));
        let is_known = |ids: &BTreeSet<String>, id: Option<&str>| id.is_some_and(|id| ids.contains(id));
        let is_one = match decision(event) {
            Some(decision) => self.query.is_decision(decision),
            None => is_known(&self.calls, call) || is_known(&self.tickets, ticket),
        };
        if is_one {
            remember(&mut self.calls, call);
            remember(&mut self.tickets, ticket);
        }
        is_one
    }
}

fn remember(ids: &mut BTreeSet<String>, id: Option<&str>) {
    ids.extend(id.map(str::to_owned));
    while ids.len() > REMEMBERED_MAX {
        ids.pop_first();
    }
}

fn decision(event: &AuditEvent) -> Option<&DecisionLeaf> {
    match event {
        AuditEvent::Decision(decision) => Some(decision),
        AuditEvent::Call(call) => Some(&call.decision),
        _ => None,
    }
}

fn effect(event: &AuditEvent) -> Option<&str> {
    match event {
        AuditEvent::Outcome(outcome) => outcome.effect.as_deref(),
        AuditEvent::Call(call) => call.outcome.effect.as_deref(),
        AuditEvent::Effect(effect) => Some(&effect.effect),
        AuditEvent::Change(change) if change.thing == ChangedThing::Settlement => Some(&change.id),
        _ => None,
    }
}

fn ticket(event: &AuditEvent) -> Option<&str> {
    match event {
        AuditEvent::Ticket(ticket) => Some(&ticket.ticket),
        AuditEvent::Approval(approval) => Some(&approval.ticket),
        AuditEvent::Change(change) if matches!(change.thing, ChangedThing::Grant | ChangedThing::Warrant) => {
            Some(&change.id)
        }
        _ => decision(event).and_then(|decision| decision.ticket.as_deref()),
    }
}

fn classes(event: &AuditEvent) -> [Option<&str>; 2] {
    let ended = match event {
        AuditEvent::Outcome(outcome) => outcome.class.as_deref(),
        AuditEvent::Call(call) => call.outcome.class.as_deref(),
        _ => None,
    };
    [decision(event).and_then(|decision| decision.class.as_deref()), ended]
}
