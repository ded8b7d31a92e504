//! What was observed around a call: the contract's probes are taken before it is sent and after its end is on record, and the
//! two looks are held against what the contract declares. A tool that says it only reads and changed something is held back
//! before its caller is answered.
//!
//! The pure part is `verdict`; `look` takes the looks, by way of read-only tools and the gates, or of the file system. A look
//! that cannot be taken is on record as such and never a reason to refuse or fail a call. Deliberately not here: how a
//! quarantine is kept, and calls that were never sent.

mod look;
mod mutations;
mod note;
mod path;
#[cfg(test)]
mod tests;
mod verdict;

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use servanda_contract::{CallId, Caller, record::Outcome};
use servanda_gates::{CompiledContract, Permit};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::{
    look::Looking,
    mutations::Quiet,
    verdict::{Case, compare, compare_again, judge, may_have_left},
};
pub(crate) use self::{look::Lookout, mutations::Mutation};
pub use self::{
    note::{Observed, Probed},
    verdict::{Found, Seen, Verdict},
};
use crate::{
    core::{Core, within_ms},
    quarantine::{self, Event, SeenChange, ToolKey, What},
    scene::Scene,
};

/// How long all probes of a look may take together.
const LOOK_MS_MAX: u64 = 3_000;
/// Which part of a call's time the first look may take at the most.
const SHARE: u32 = 4;
/// How long it is waited before the third look: what changes by itself has to have time for it.
const AGAIN_AFTER_MS: u64 = 200;
/// How long what was seen may take to be on record.
const RECORD_MS_MAX: u64 = 5_000;

/// A call around which it is looked, after the first look.
#[derive(Debug)]
pub(crate) struct Around {
    call_id: CallId,
    caller: Caller,
    contract: Arc<CompiledContract>,
    arguments: Value,
    quiet: Option<Quiet>,
    before: Vec<Seen>,
}

/// A call that its caller gave up while it was looked; nothing was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GivenUp;

/// Looks before a call is sent, if its contract has probes and the call is one of those that are looked at.
pub(crate) async fn look_before(
    core: &Core,
    scene: &Scene,
    permit: &Permit,
    deadline: Instant,
    cancel: &CancellationToken,
) -> Result<Option<Box<Around>>, GivenUp> {
    if permit.contract().probes().is_empty() {
        return Ok(None);
    }
    Box::pin(first_look(core, scene, permit, deadline, cancel)).await
}

async fn first_look(
    core: &Core,
    scene: &Scene,
    permit: &Permit,
    deadline: Instant,
    cancel: &CancellationToken,
) -> Result<Option<Box<Around>>, GivenUp> {
    if !permit.contract().probes().choose(permit.call_id()) {
        return Ok(None);
    }
    let mut around = Around {
        call_id: permit.call_id().clone(),
        caller: permit.proposal().caller.clone(),
        contract: permit.shared_contract(),
        arguments: serde_json::from_slice(permit.arguments().bytes()).unwrap_or_default(),
        quiet: core.lookout.mutations.quiet(),
        before: Vec::new(),
    };
    let left = deadline.saturating_duration_since(Instant::now()) / SHARE;
    let until = Instant::now() + left.min(Duration::from_millis(LOOK_MS_MAX));
    let looking = around.looking(core, scene);
    let before = tokio::select! {
        biased;
        // Sent without a look, a call would escape it.
        () = cancel.cancelled() => return Err(GivenUp),
        seen = looking.all(until) => seen,
    };
    around.before = before;
    Ok(Some(Box::new(around)))
}

impl Around {
    /// Looks again after a call whose end is on record, judges, and acts on it. When this returns, a tool that lied is held
    /// back.
    pub(crate) async fn end(self, core: &Core, scene: &Scene, outcome: Outcome) {
        if !may_have_left(outcome) {
            return;
        }
        let looking = self.looking(core, scene);
        let after = looking.all(within_ms(LOOK_MS_MAX)).await;
        let alone = self.quiet.is_some_and(|quiet| core.lookout.mutations.is_still(quiet));
        let mut found: Vec<Found> =
            self.before.iter().zip(&after).map(|(before, after)| compare(before, after)).collect();
        let reads_only = !self.contract.contract().effect_class().mutates();
        let verdict =
            |found: &[Found]| judge(&Case { reads_only, completed: outcome == Outcome::Completed, alone, found });
        let mut again = Vec::new();
        if verdict(&found) == Verdict::Violation {
            tokio::time::sleep(Duration::from_millis(AGAIN_AFTER_MS)).await;
            let seen = looking.all(within_ms(LOOK_MS_MAX)).await;
            // What another call changed meanwhile is no sign that it changes by itself.
            if self.quiet.is_some_and(|quiet| core.lookout.mutations.is_still(quiet)) {
                let looks = after.iter().zip(&seen);
                found = found
                    .iter()
                    .zip(looks)
                    .map(|(found, (after, again))| compare_again(*found, after, again))
                    .collect();
            }
            again = seen;
        }
        let verdict = verdict(&found);
        let observed = self.observed(core, outcome, alone, verdict, &found, after, again);
        if verdict == Verdict::Violation {
            self.accuse(core, &observed).await;
        }
        tell(&observed);
        self.put_down(core, &observed).await;
    }

    fn looking<'a>(&'a self, core: &'a Core, scene: &'a Scene) -> Looking<'a> {
        Looking { core, scene, probes: self.contract.probes(), arguments: &self.arguments, caller: &self.caller }
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one record, made in one place")]
    fn observed(
        &self,
        core: &Core,
        outcome: Outcome,
        alone: bool,
        verdict: Verdict,
        found: &[Found],
        after: Vec<Seen>,
        again: Vec<Seen>,
    ) -> Observed {
        let contract = self.contract.contract();
        let again = again.into_iter().map(Some).chain(std::iter::repeat(None));
        let looks = self.before.iter().cloned().zip(after).zip(again);
        let probes = self.contract.probes().iter().zip(found).zip(looks);
        let probed = probes.map(|((probe, found), ((before, after), again))| Probed {
            name: probe.name.clone(),
            target: probe.target(),
            found: *found,
            before,
            after,
            again,
        });
        Observed {
            version: Observed::VERSION,
            call_id: self.call_id.to_string(),
            tool: contract.identity.name.clone(),
            contract_digest: self.contract.digest(),
            reads_only: !contract.effect_class().mutates(),
            outcome: outcome.name().to_owned(),
            alone,
            sample_percent: self.contract.probes().sample_percent(),
            verdict,
            at_ms: core.clock.now().unix_ms(),
            probes: probed.collect(),
        }
    }

    /// Holds the tool back, here at once and everywhere soon.
    async fn accuse(&self, core: &Core, observed: &Observed) {
        let binding = &self.contract.contract().binding;
        let changed = observed.probes.iter().filter(|probe| probe.found == Found::Changed);
        let seen = changed.map(|probe| SeenChange {
            name: probe.name.clone(),
            before: probe.before.clone(),
            after: probe.after.clone(),
        });
        let event = Event {
            at_ms: observed.at_ms,
            by: quarantine::GATEWAY.to_owned(),
            contract: observed.tool.clone(),
            contract_digest: Some(observed.contract_digest),
            what: What::Observed { call_id: observed.call_id.clone(), probes: seen.collect() },
        };
        let tool = ToolKey { upstream: binding.upstream.clone(), tool: binding.tool.clone() };
        quarantine::hold(core, tool, event).await;
    }

    async fn put_down(&self, core: &Core, observed: &Observed) {
        let call_id = &self.call_id;
        let written = async { core.notebook.write(observed.note(core.clock.now())?).await };
        match tokio::time::timeout(Duration::from_millis(RECORD_MS_MAX), written).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%call_id, %error, "what was seen around a call was not kept"),
            Err(_) => tracing::error!(%call_id, "the ledger is too slow; what was seen around a call may not be kept"),
        }
    }
}

/// Tells the operator. That a tool is held back has been told by then.
fn tell(observed: &Observed) {
    let Observed { call_id, tool, verdict, .. } = observed;
    for probe in &observed.probes {
        let looks = [Some(&probe.before), Some(&probe.after)].into_iter().flatten();
        for why in looks.filter_map(|seen| if let Seen::NotTaken(why) = seen { Some(why) } else { None }).take(1) {
            tracing::warn!(%call_id, tool, probe = probe.name, why, "a probe could not be taken");
        }
    }
    match verdict {
        Verdict::Inconclusive => {
            let volatile = observed.names(Found::Volatile);
            let (changed, volatile) = (observed.names(Found::Changed).join(", "), volatile.join(", "));
            tracing::warn!(
                %call_id, tool, changed, volatile,
                "something changed around a call that only reads, and it cannot be told that it was this call; see \
                 `servanda explain {call_id}`"
            );
        }
        Verdict::NoChangeSeen => tracing::warn!(
            %call_id, tool,
            "a call was done that should change something, and no probe saw a change; see `servanda explain {call_id}`"
        ),
        Verdict::AsDeclared | Verdict::Violation | Verdict::NotJudged => {
            tracing::debug!(%call_id, tool, verdict = verdict.word(), "it was looked around a call");
        }
    }
}
