//! The gates in their order. This file answers "where can a call be refused?": here, at the fence, by the upstream, or
//! because the answer breaks the contract, and nowhere else.

use servanda_contract::{
    GateName, Refusal,
    record::{Decision, PolicyRecord, Verdict},
};

use crate::{
    GateLimits, Mandate, Permit, Resolved, behaviour, bounds, confirmation, parse, policy, scope, semantics, state,
    structure, types,
};

/// Takes a resolved call through every gate but the last, which draws on what others draw on too: [`crate::budget::Charge`]. The trail has a verdict of each gate that was reached.
pub fn pass_all(
    resolved: Resolved,
    mandate: &Mandate<'_>,
    limits: GateLimits,
    trail: &mut Trail<'_>,
) -> Result<Permit, Box<Refusal>> {
    let parsed = trail.judge(GateName::Parse, || parse::gate(resolved, limits))?;
    let structured = trail.judge(GateName::Structure, || structure::gate(parsed))?;
    let typed = trail.judge(GateName::Types, || types::gate(structured))?;
    let bounded = trail.judge(GateName::Bounds, || bounds::gate(typed))?;
    let meant = trail.judge(GateName::Semantics, || semantics::gate(bounded))?;
    let fitting = trail.judge(GateName::Behaviour, || behaviour::gate(meant))?;
    let covered = trail.judge(GateName::Scope, || scope::gate(fitting, mandate))?;
    let mut told = None;
    let sanctioned = trail.judge(GateName::Policy, || policy::gate(covered, mandate, &mut told));
    trail.policy = told;
    let sanctioned = sanctioned?;
    let in_time = trail.judge(GateName::State, || state::gate(sanctioned))?;
    trail.judge(GateName::Confirmation, || confirmation::gate(in_time, mandate))
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
