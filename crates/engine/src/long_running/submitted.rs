//! Finds long work that continues at its upstream while its follower process is gone, and follows it again.

use std::{sync::Arc, time::Duration};

use servanda_contract::Caller;
use servanda_effects::effect::{Effect, EffectId, EffectState, EffectTarget, EffectWaitReason, owner_silence_ms_max};
use servanda_mcp::{Era, capabilities::TASKS_EXTENSION, fields::method};
use servanda_upstream::{Answer, PerformFailure, RequestOptions, UpstreamRequester};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    LongWorkContext, LongWorkEntry,
    follow::FollowedWork,
    note::{self, SubmittedWork, SubmittedWorkId},
    operation::{self, PolledOperation},
    work::{LongWork, ProgressRecorder},
};
use crate::{
    answers::upstream_failure, client::for_recorded_caller, clock::within_ms, core::Core, internal_call::InternalTool,
    task_shape::task_question, world::WorldSnapshot,
};

/// How many notes are read at once, and how many pages of notes in a round.
const PAGE: u32 = 256;
const PAGES_MAX: usize = 16;
/// How long a server may take to accept a cancellation.
const CANCEL_MS_MAX: u64 = 10_000;

/// Work that this process took over, with what it needs to follow it.
#[derive(Debug)]
pub(crate) struct AdoptedWork {
    pub(crate) effect: Effect,
    submitted: SubmittedWork,
    work: Arc<LongWork>,
    _entered: LongWorkEntry,
}

/// Work that continues at its upstream while no process has asked about it for a while. It is found by its notes, of which there are as
/// many as there is such work. A note whose effect has ended is erased.
pub(crate) async fn unfollowed(long_running: &LongWorkContext) -> Vec<Effect> {
    let core = &long_running.core;
    let mut left = Vec::new();
    let mut after = note::BEFORE_SUBMITTED.to_owned();
    for _ in 0..PAGES_MAX {
        let Ok(page) = note::all_submitted(core, &after, PAGE).await else { break };
        let Some((last, _)) = page.last() else { break };
        after = note::submitted_key(last);
        let here = |id: &EffectId| long_running.works.find(id).is_some();
        for (id, submitted) in page.iter().filter(|(id, submitted)| submitted.is_unfollowed(core) && !here(id)) {
            let Ok(found) = core.effects.find(EffectTarget::Id(id.clone())).await else { continue };
            match found.filter(|effect| effect.state == EffectState::Dispatching && effect.epoch == submitted.epoch) {
                None => note::forget_submitted(core, id).await,
                Some(effect) if core.clock.now().unix_ms() < submitted.until_ms && is_ours(&effect) => {
                    left.push(effect);
                }
                // The work's time is over: recovery treats it as an orphan like any other.
                Some(_) => {}
            }
        }
    }
    left
}

fn is_ours(effect: &Effect) -> bool {
    matches!(&effect.awaits, Some(EffectWaitReason::Task(id)) if id == effect.id.as_str())
}

/// Where the effect's work continues, if it does and its time is not over.
pub(crate) async fn submitted(core: &Core, effect: &Effect) -> Option<SubmittedWork> {
    let submitted = note::submitted(core, &effect.id).await?;
    (submitted.epoch == effect.epoch && core.clock.now().unix_ms() < submitted.until_ms).then_some(submitted)
}

impl SubmittedWork {
    /// Whether the last question is so long ago that its follower must be gone.
    pub(crate) fn is_unfollowed(&self, core: &Core) -> bool {
        core.clock.now().unix_ms().saturating_sub(self.asked_at_ms) > 2 * owner_silence_ms_max()
    }
}

/// Takes over such work; none if all places are taken.
pub(crate) async fn adopt(long_running: &LongWorkContext, effect: Effect) -> Option<AdoptedWork> {
    let core = &long_running.core;
    let submitted = submitted(core, &effect).await.filter(|submitted| submitted.is_unfollowed(core))?;
    let work = LongWork::unattended(&effect.id, CancellationToken::new(), Some(long_running.works.reserve_place()?));
    let submitted = SubmittedWork { asked_at_ms: core.clock.now().unix_ms(), ..submitted };
    note::keep_submitted(core, &effect.id, &submitted).await.ok()?;
    if note::cancellation(core, &effect.id).await.is_some() {
        work.cancel.cancel();
    }
    let entered = long_running.works.enter(&effect.id, &work);
    Some(AdoptedWork { effect, submitted, work, _entered: entered })
}

impl AdoptedWork {
    /// Follows the work until there is the answer that the call would have got.
    pub(crate) async fn follow(
        &self,
        core: &Arc<Core>,
        snapshot: &WorldSnapshot,
        ready: &InternalTool,
        caller: &Arc<Caller>,
    ) -> Result<Answer, PerformFailure> {
        let Self { effect, submitted, work, _entered } = self;
        let left_ms = submitted.until_ms.saturating_sub(core.clock.now().unix_ms());
        let asker = polling_upstream_requester(&submitted.place, for_recorded_caller(caller));
        let delivery =
            |until: Instant| RequestOptions { requester: asker.clone(), ..RequestOptions::for_gateway(until) };
        let followed = FollowedWork {
            progress_recorder: ProgressRecorder {
                core: Arc::clone(core),
                work: Arc::clone(work),
                id: effect.id.clone(),
            },
            member: &ready.member,
            claim: effect.claim(),
            deadline: within_ms(left_ms),
            delivery: &delivery,
        };
        let outcome = match &submitted.place {
            SubmittedWorkId::Task { theirs, modern, poll_ms } => {
                followed.follow_task(theirs, SubmittedWorkId::era(*modern), *poll_ms).await
            }
            SubmittedWorkId::Operation { id } => match operation::poll_plan(&ready.contract) {
                Some(plan) => followed.follow_polled(&PolledOperation { plan, id, snapshot, caller }).await,
                None => Err(PerformFailure::Died { why: "its contract no longer says how to ask about it".to_owned() }),
            },
        };
        outcome.map_err(upstream_failure::after_sending)
    }
}

/// Tells the upstream to cancel work that this process does not follow.
pub(super) async fn cancel_upstream(core: &Arc<Core>, effect: &Effect) {
    let Some(SubmittedWork { place, .. }) = submitted(core, effect).await else { return };
    let Some(member) = core.snapshot().member(&effect.order.upstream).cloned() else { return };
    let until = Instant::now() + Duration::from_millis(CANCEL_MS_MAX);
    let whose = for_recorded_caller(&Caller::named(&effect.key.tenant, &effect.key.principal));
    let delivery =
        RequestOptions { requester: polling_upstream_requester(&place, whose), ..RequestOptions::for_gateway(until) };
    // A contract does not say how to cancel an operation.
    let SubmittedWorkId::Task { theirs, .. } = &place else { return };
    if let Err(error) = member.server.ask(task_question(method::TASKS_CANCEL, theirs), delivery).await {
        tracing::debug!(upstream = %member.id, %error, "the cancellation of a task did not reach its upstream");
    }
}

/// The requester that asks about the work: the original caller, but with the task extension, because the engine itself reads the answers.
fn polling_upstream_requester(place: &SubmittedWorkId, whose: UpstreamRequester) -> UpstreamRequester {
    match place {
        SubmittedWorkId::Task { modern, .. } => {
            let era = SubmittedWorkId::era(*modern);
            let capabilities = match era {
                Era::Modern => whose.capabilities.with_extension(TASKS_EXTENSION),
                Era::Legacy => whose.capabilities,
            };
            // A server of both eras knows a task only in the era in which it was made.
            UpstreamRequester { era, capabilities, ..whose }
        }
        SubmittedWorkId::Operation { .. } => whose,
    }
}
