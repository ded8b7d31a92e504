//! Takes the contract's probes before a call is sent and after its end is on record, and compares the two looks with what the contract
//! declares. A tool that declares that it only reads but changed something is quarantined before its caller is answered.
//!
//! `probe_run` takes the probes, from read-only tools through the gates or from the file system; `probes` judges them. A probe that cannot
//! be taken is recorded as such and is never a reason to refuse or fail a call. Deliberately not here: how a quarantine is stored, and
//! calls that were never sent.

mod probe_run;

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use servanda_contract::{CallId, Caller, record::Outcome};
use servanda_gates::{CompiledContract, Permit};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::probe_run::ProbeRun;
use super::Calls;
use crate::{
    clock::within_ms,
    core::Core,
    probes::{
        ProbeComparison, ProbeReport, ProbeResult, ProbeSnapshot, ProbeVerdict, ProbeVerdictInput, Quiescence, compare,
        compare_again, judge, may_have_left,
    },
    quarantine::{GATEWAY, ObservedChange, QuarantineEvent, QuarantineEventKind, UpstreamToolKey},
    world::WorldSnapshot,
};

/// How long all probes of one look may take together.
const LOOK_MS_MAX: u64 = 3_000;
/// The first look may take at most one `SHARE`th of a call's time.
const SHARE: u32 = 4;
/// The pause before the third look: something that changes by itself needs time to do so.
const AGAIN_AFTER_MS: u64 = 200;
/// How long writing the report may take.
const RECORD_MS_MAX: u64 = 5_000;

/// A call whose contract has probes, after the first look.
#[derive(Debug)]
pub(crate) struct ProbedCall {
    call_id: CallId,
    caller: Arc<Caller>,
    contract: Arc<CompiledContract>,
    arguments: Value,
    quiet: Option<Quiescence>,
    before: Vec<ProbeSnapshot>,
}

/// What the probes saw after a call, and the verdict. `again` is empty unless a third look was taken.
#[derive(Debug)]
struct ProbeFindings {
    outcome: Outcome,
    alone: bool,
    verdict: ProbeVerdict,
    found: Vec<ProbeComparison>,
    after: Vec<ProbeSnapshot>,
    again: Vec<ProbeSnapshot>,
}

/// The caller gave up the call during the first look; nothing was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CancelledByCaller;

/// Takes the probes before a call is sent, if its contract has probes and the call is sampled.
pub(crate) async fn look_before(
    calls: &Calls,
    snapshot: &WorldSnapshot,
    permit: &Permit,
    deadline: Instant,
    cancel: &CancellationToken,
) -> Result<Option<Box<ProbedCall>>, CancelledByCaller> {
    if permit.contract().probes().is_empty() {
        return Ok(None);
    }
    Box::pin(first_look(calls, snapshot, permit, deadline, cancel)).await
}

async fn first_look(
    calls: &Calls,
    snapshot: &WorldSnapshot,
    permit: &Permit,
    deadline: Instant,
    cancel: &CancellationToken,
) -> Result<Option<Box<ProbedCall>>, CancelledByCaller> {
    if !permit.contract().probes().is_sampled(permit.call_id()) {
        return Ok(None);
    }
    let mut around = ProbedCall {
        call_id: permit.call_id().clone(),
        caller: permit.proposal().caller.clone(),
        contract: permit.shared_contract(),
        arguments: serde_json::from_slice(permit.arguments().bytes()).unwrap_or_default(),
        quiet: calls.core.mutations.quiet(),
        before: Vec::new(),
    };
    let left = deadline.saturating_duration_since(Instant::now()) / SHARE;
    let until = Instant::now() + left.min(Duration::from_millis(LOOK_MS_MAX));
    let looking = around.probe_run(calls, snapshot);
    let before = tokio::select! {
        biased;
        // A call that is sent without a first look would escape the probes.
        () = cancel.cancelled() => return Err(CancelledByCaller),
        seen = looking.take_all(until) => seen,
    };
    around.before = before;
    Ok(Some(Box::new(around)))
}

impl ProbedCall {
    /// Looks again after the end of the call is on record, judges, and acts on the verdict. When this returns, a tool that broke its
    /// declaration is quarantined.
    pub(crate) async fn end(self, calls: &Calls, snapshot: &WorldSnapshot, outcome: Outcome) {
        if !may_have_left(outcome) {
            return;
        }
        let sight = self.look_again(calls, snapshot, outcome).await;
        let observed = self.report(&calls.core, sight);
        if observed.verdict == ProbeVerdict::Violation {
            self.quarantine_tool(&calls.core, &observed).await;
        }
        log_report(&observed);
        self.store_report(&calls.core, &observed).await;
    }

    async fn look_again(&self, calls: &Calls, snapshot: &WorldSnapshot, outcome: Outcome) -> ProbeFindings {
        let looking = self.probe_run(calls, snapshot);
        let is_still = || self.quiet.is_some_and(|quiet| calls.core.mutations.is_still(quiet));
        let after = looking.take_all(within_ms(LOOK_MS_MAX)).await;
        let alone = is_still();
        let (reads_only, completed) = (self.reads_only(), outcome == Outcome::Completed);
        let mut found: Vec<ProbeComparison> =
            self.before.iter().zip(&after).map(|(one, other)| compare(one, other)).collect();
        let mut verdict = judge(&ProbeVerdictInput { reads_only, completed, alone, found: &found });
        let mut again = Vec::new();
        if verdict == ProbeVerdict::Violation {
            tokio::time::sleep(Duration::from_millis(AGAIN_AFTER_MS)).await;
            again = looking.take_all(within_ms(LOOK_MS_MAX)).await;
            // A change that another call made meanwhile is no sign that something changes by itself.
            if is_still() {
                let looks = found.iter_mut().zip(after.iter().zip(&again));
                looks.for_each(|(found, (after, again))| *found = compare_again(*found, after, again));
            }
            verdict = judge(&ProbeVerdictInput { reads_only, completed, alone, found: &found });
        }
        ProbeFindings { outcome, alone, verdict, found, after, again }
    }

    fn probe_run<'a>(&'a self, calls: &'a Calls, snapshot: &'a WorldSnapshot) -> ProbeRun<'a> {
        ProbeRun { calls, snapshot, probes: self.contract.probes(), arguments: &self.arguments, caller: &self.caller }
    }

    fn reads_only(&self) -> bool {
        !self.contract.contract().effect_class().mutates()
    }

    fn report(&self, core: &Core, sight: ProbeFindings) -> ProbeReport {
        let ProbeFindings { outcome, alone, verdict, found, after, again } = sight;
        let again = again.into_iter().map(Some).chain(std::iter::repeat(None));
        let looks = self.before.iter().cloned().zip(after).zip(again);
        let looked_at = self.contract.probes().iter().zip(found).zip(looks);
        let probes = looked_at.map(|((probe, found), ((before, after), again))| ProbeResult {
            name: probe.name.clone(),
            target: probe.target(),
            found,
            before,
            after,
            again,
        });
        ProbeReport {
            version: ProbeReport::VERSION,
            call_id: self.call_id.to_string(),
            tool: self.contract.contract().identity.name.clone(),
            contract_digest: self.contract.digest(),
            reads_only: self.reads_only(),
            outcome: outcome.name().to_owned(),
            alone,
            sample_percent: self.contract.probes().sample_percent(),
            verdict,
            at_ms: core.clock.now().unix_ms(),
            probes: probes.collect(),
        }
    }

    /// Quarantines the tool: at this gateway at once, at the others soon.
    async fn quarantine_tool(&self, core: &Core, observed: &ProbeReport) {
        let binding = &self.contract.contract().binding;
        let changed = observed.probes.iter().filter(|probe| probe.found == ProbeComparison::Changed);
        let seen = changed.map(|probe| ObservedChange {
            name: probe.name.clone(),
            before: probe.before.clone(),
            after: probe.after.clone(),
        });
        let event = QuarantineEvent {
            at_ms: observed.at_ms,
            by: GATEWAY.to_owned(),
            contract: observed.tool.clone(),
            contract_digest: Some(observed.contract_digest),
            what: QuarantineEventKind::Observed { call_id: observed.call_id.clone(), probes: seen.collect() },
        };
        let tool = UpstreamToolKey { upstream: binding.upstream.clone(), tool: binding.tool.clone() };
        core.quarantine.hold(tool, event).await;
    }

    async fn store_report(&self, core: &Core, observed: &ProbeReport) {
        let call_id = &self.call_id;
        let written = async { core.notebook.write(observed.note(core.clock.now())?).await };
        match tokio::time::timeout(Duration::from_millis(RECORD_MS_MAX), written).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%call_id, %error, "the probe report of a call was not stored"),
            Err(_) => tracing::error!(%call_id, "the ledger is too slow; the probe report of a call may not be stored"),
        }
    }
}

/// Logs the report for the operator. A quarantine has already been logged.
fn log_report(observed: &ProbeReport) {
    let ProbeReport { call_id, tool, verdict, .. } = observed;
    for probe in &observed.probes {
        if let (ProbeSnapshot::NotTaken(why), _) | (_, ProbeSnapshot::NotTaken(why)) = (&probe.before, &probe.after) {
            tracing::warn!(%call_id, tool, probe = probe.name, why, "a probe could not be taken");
        }
    }
    match verdict {
        ProbeVerdict::Inconclusive => {
            let [changed, volatile] =
                [ProbeComparison::Changed, ProbeComparison::Volatile].map(|found| observed.names(found).join(", "));
            tracing::warn!(
                %call_id, tool, changed, volatile,
                "something changed during a call that only reads, and the gateway cannot tell whether this call changed it; see \
                 `servanda explain {call_id}`"
            );
        }
        ProbeVerdict::NoChangeSeen => tracing::warn!(
            %call_id, tool,
            "a call that should change something was completed, and no probe saw a change; see `servanda explain {call_id}`"
        ),
        ProbeVerdict::AsDeclared | ProbeVerdict::Violation | ProbeVerdict::NotJudged => {
            tracing::debug!(%call_id, tool, verdict = verdict.word(), "probes were taken around a call");
        }
    }
}
