//! A call as long work: clients can ask about it, and the gateway waits for the result of work that the call only submitted.

use std::sync::Arc;

use servanda_gates::Fenced;
use servanda_upstream::{Answer, PerformFailure, RequestOptions};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{context::CallContext, evidence::CallExchange, state::CallPipeline};
use crate::{
    deferred::upstream_tasks,
    long_running::{self, FollowedWork, LongWork, LongWorkEntry, ProgressRecorder, RecordedWork},
    world::UpstreamMember,
};

impl CallPipeline<'_> {
    /// Lets clients ask about long work from now on. Also returns whether the engine has the upstream make a task of it. It does if the
    /// upstream offers tasks and the client is not told of the task.
    pub(super) async fn begin_work(
        &self,
        member: &UpstreamMember,
        fenced: &Fenced,
        deadline: Instant,
        context: &mut CallContext,
    ) -> (Option<LongWorkEntry>, bool) {
        let (Some(work), Some(claim)) = (&self.work, fenced.claim()) else { return (None, false) };
        let upstream_requester = context.requester.upstream_requester();
        let offered = tokio::select! {
            offered = upstream_tasks::task_era(member, &upstream_requester, fenced.upstream_tool(), deadline) => offered,
            () = work.cancel.cancelled() => None,
        };
        let relays = offered.is_some() && work.takes_tasks();
        let submits = offered.is_some_and(|era| work.has_task_made(era)) && !relays;
        if !relays {
            context.task = None;
        }
        (
            Some(work.begin(&self.calls.deferred.long_running.works, RecordedWork { id: claim.id.clone(), relays })),
            submits,
        )
    }

    /// The result of work that the call only submitted, if its contract says how to ask for it; else the answer as it is.
    pub(super) async fn await_submitted(
        &self,
        exchange: &CallExchange,
        answer: Answer,
        cancel: CancellationToken,
    ) -> Result<Answer, PerformFailure> {
        let CallExchange { member, contract, fenced, deadline, .. } = exchange;
        let (Some(plan), Some(claim)) = (long_running::poll_plan(contract), fenced.claim().cloned()) else {
            return Ok(answer);
        };
        let work = self.work.clone().unwrap_or_else(|| LongWork::unattended(&claim.id, cancel, None));
        let followed = FollowedWork {
            progress_recorder: ProgressRecorder { core: Arc::clone(self.core), work, id: claim.id.clone() },
            member,
            claim,
            deadline: *deadline,
            delivery: &RequestOptions::for_gateway,
        };
        let outcome = long_running::follow_operation(&followed, plan, self.snapshot, &self.record.caller, answer).await;
        if fenced.effect_class().mutates() {
            self.core.cache.invalidate(&member.id, &[]);
        }
        outcome
    }

    pub(super) fn progress_recorder(&self, fenced: &Fenced) -> Option<ProgressRecorder> {
        let (work, claim) = (self.work.as_ref()?, fenced.claim()?);
        Some(ProgressRecorder { core: Arc::clone(self.core), work: Arc::clone(work), id: claim.id.clone() })
    }
}
