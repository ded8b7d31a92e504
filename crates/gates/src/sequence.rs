//! Gates 1 to 10 in their order. Gate 11 is in `budget`, because it draws on what other calls draw on too.

use servanda_contract::{
    GateName, Refusal, TaxonomyClass,
    record::{Decision, PolicyRecord, Verdict},
};

use crate::{
    GateLimits, Mandate, Permit, Resolved, behaviour, bounds, budget::Cleared, confirmation, mandate::Account, parse,
    policy, scope, semantics, state, structure, types,
};

/// Takes a caller's call through gates 1 to 10. The trail has a verdict of each gate that was reached.
pub fn pass_all(
    resolved: Resolved,
    mandate: &Mandate<'_>,
    limits: GateLimits,
    trail: &mut Trail<'_>,
) -> Result<Permit, Box<Refusal>> {
    pass(resolved, &Account::Caller(*mandate), limits, trail)
}

/// Takes a question that the gateway asks on its own account through the gates: no credential, policy or budget is asked, so the tool has
/// to be one that changes nothing.
pub fn pass_question(resolved: Resolved, limits: GateLimits, trail: &mut Trail<'_>) -> Result<Cleared, Box<Refusal>> {
    let contract = resolved.contract.contract();
    if contract.effect_class().mutates() {
        let message = format!("`{}` changes something, so it is not asked", contract.identity.name);
        let hint = "name a tool that only reads".to_owned();
        let (call_id, class) = (resolved.proposal.call_id.clone(), TaxonomyClass::PolicyViolation);
        return Err(Box::new(Refusal::new(call_id, GateName::Behaviour, class, message, hint)));
    }
    pass(resolved, &Account::Gateway, limits, trail).map(Cleared::for_question)
}

pub(crate) fn pass(
    resolved: Resolved,
    account: &Account<'_>,
    limits: GateLimits,
    trail: &mut Trail<'_>,
) -> Result<Permit, Box<Refusal>> {
    let parsed = trail.judge(GateName::Parse, || parse::gate(resolved, limits))?;
    let structured = trail.judge(GateName::Structure, || structure::gate(parsed))?;
    let typed = trail.judge(GateName::Types, || types::gate(structured))?;
    let bounded = trail.judge(GateName::Bounds, || bounds::gate(typed))?;
    let meant = trail.judge(GateName::Semantics, || semantics::gate(bounded))?;
    let fitting = trail.judge(GateName::Behaviour, || behaviour::gate(meant))?;
    let covered = trail.judge(GateName::Scope, || scope::gate(fitting, account))?;
    let mut told = None;
    let sanctioned = trail.judge(GateName::Policy, || policy::gate(covered, account, &mut told));
    trail.policy = told;
    let sanctioned = sanctioned?;
    let in_time = trail.judge(GateName::State, || state::gate(sanctioned))?;
    trail.judge(GateName::Confirmation, || confirmation::gate(in_time))
}

/// Tells how much time has passed; the engine brings the clock.
pub trait Stopwatch: Send + Sync {
    /// Microseconds since some fixed moment.
    fn elapsed_us(&self) -> u64;
}

/// What every stage said about one call, in order.
pub struct Trail<'a> {
    stopwatch: &'a dyn Stopwatch,
    verdicts: Vec<Verdict>,
    policy: Option<PolicyRecord>,
}

impl<'a> Trail<'a> {
    /// An empty trail.
    pub fn new(stopwatch: &'a dyn Stopwatch) -> Self {
        Self { stopwatch, verdicts: Vec::with_capacity(16), policy: None }
    }

    /// Lets one stage judge and notes what it said.
    pub fn judge<T>(
        &mut self,
        gate: GateName,
        stage: impl FnOnce() -> Result<T, Box<Refusal>>,
    ) -> Result<T, Box<Refusal>> {
        let started_us = self.stopwatch.elapsed_us();
        let verdict = stage();
        self.note(gate, verdict.is_ok(), started_us);
        verdict
    }

    /// Notes the verdict of a stage that ran elsewhere and began at `started_us` of this trail's stopwatch.
    pub fn note(&mut self, gate: GateName, passed: bool, started_us: u64) {
        let decision = if passed { Decision::Passed } else { Decision::Refused };
        let took_us = self.stopwatch.elapsed_us().saturating_sub(started_us);
        self.verdicts.push(Verdict { gate, decision, took_us });
    }

    /// Notes that a stage was not needed.
    pub fn skip(&mut self, gate: GateName) {
        self.verdicts.push(Verdict { gate, decision: Decision::Skipped, took_us: 0 });
    }

    /// What the policies said, and others would have; none where they were not asked.
    pub fn take_policy(&mut self) -> Option<PolicyRecord> {
        self.policy.take()
    }

    /// What has been said, at the end.
    pub fn take_verdicts(&mut self) -> Vec<Verdict> {
        std::mem::take(&mut self.verdicts)
    }

    /// What has been said so far.
    pub fn verdicts(&self) -> &[Verdict] {
        &self.verdicts
    }
}

impl std::fmt::Debug for Trail<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Trail").field("verdicts", &self.verdicts).finish_non_exhaustive()
    }
}
