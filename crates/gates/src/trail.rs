//! The verdict of every stage about one call, in order, and how long each took.
//!
//! Deliberately not here: the clock, which the engine provides, and the order of the gates (`sequence`).

use servanda_contract::{
    GateName, Refusal,
    record::{Decision, PolicyRecord, Verdict},
};

/// Measures time; the engine provides the clock.
pub trait Stopwatch: Send + Sync {
    /// Microseconds since some fixed moment.
    fn elapsed_us(&self) -> u64;
}

/// The verdict of every stage about one call, in order.
pub struct Trail<'a> {
    stopwatch: &'a dyn Stopwatch,
    verdicts: Vec<Verdict>,
    policy: Option<PolicyRecord>,
    /// When the latest of the stages that follow each other without a pause ended, or the first of them began.
    lap_us: u64,
}

impl<'a> Trail<'a> {
    /// An empty trail.
    pub fn new(stopwatch: &'a dyn Stopwatch) -> Self {
        Self { stopwatch, verdicts: Vec::with_capacity(16), policy: None, lap_us: 0 }
    }

    /// Lets one stage judge, and records its verdict.
    pub fn judge<T>(
        &mut self,
        gate: GateName,
        stage: impl FnOnce() -> Result<T, Box<Refusal>>,
    ) -> Result<T, Box<Refusal>> {
        self.begin_laps();
        self.judge_next(gate, stage)
    }

    /// Marks the moment at which the first of several stages begins.
    pub(crate) fn begin_laps(&mut self) {
        self.lap_us = self.stopwatch.elapsed_us();
    }

    /// The same as [`Trail::judge`] for a stage that begins when the stage before it ends: the clock is read once for both.
    pub(crate) fn judge_next<T>(
        &mut self,
        gate: GateName,
        stage: impl FnOnce() -> Result<T, Box<Refusal>>,
    ) -> Result<T, Box<Refusal>> {
        let verdict = stage();
        self.note_next(gate, verdict.is_ok());
        verdict
    }

    /// Records the verdict of a stage that began when the stage before it ended.
    pub(crate) fn note_next(&mut self, gate: GateName, passed: bool) {
        self.note(gate, passed, self.lap_us);
    }

    /// Records the verdict of a stage that ran elsewhere and began at `started_us` of this trail's stopwatch.
    pub fn note(&mut self, gate: GateName, passed: bool, started_us: u64) {
        let decision = if passed { Decision::Passed } else { Decision::Refused };
        self.lap_us = self.stopwatch.elapsed_us();
        let took_us = self.lap_us.saturating_sub(started_us);
        self.verdicts.push(Verdict { gate, decision, took_us });
    }

    /// Records what the policies said; none if they were not asked.
    pub(crate) fn note_policy(&mut self, told: Option<PolicyRecord>) {
        self.policy = told;
    }

    /// Records that a stage was not needed.
    pub fn skip(&mut self, gate: GateName) {
        self.verdicts.push(Verdict { gate, decision: Decision::Skipped, took_us: 0 });
    }

    /// What the policies said, and what policies that are tried out would have said; none if they were not
    /// asked.
    pub fn take_policy(&mut self) -> Option<PolicyRecord> {
        self.policy.take()
    }

    /// Takes the verdicts, at the end.
    pub fn take_verdicts(&mut self) -> Vec<Verdict> {
        std::mem::take(&mut self.verdicts)
    }

    /// The verdicts so far.
    pub fn verdicts(&self) -> &[Verdict] {
        &self.verdicts
    }
}

impl std::fmt::Debug for Trail<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Trail").field("verdicts", &self.verdicts).finish_non_exhaustive()
    }
}
