//! The state of long work, as far as its principal may know it: the effect, the last progress, and the end. Another principal's work is
//! treated as if it did not exist.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use servanda_contract::{
    CallId, GateName, Observation, Refusal, TaxonomyClass, Timestamp,
    observation::{ObservationContext, Verification},
    refusal::EffectKnowledge,
    taxonomy::NextAction,
};
use servanda_effects::effect::{Effect, EffectId, EffectReply, EffectState, EffectTarget, StoredAnswer};
use servanda_gates::CompiledContract;
use servanda_mcp::envelope::to_json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{LongWorkContext, WorkProgress, note};
use crate::{
    answers::{existing_effect, observe, refusals, tool_result},
    call_visibility::PastCall,
    client::{Requester, ToolResult},
    core::Core,
    world::{RESULT_TOOL, WorldSnapshot},
};

/// How often the engine checks whether another process's work has ended.
const LOOK_MS: u64 = 500;
/// The longest handle that is looked up.
const HANDLE_CHARS_MAX: usize = 128;
/// The limits of the time after which a caller should ask again.
const RETRY_AFTER_MS: (u64, u64) = (500, 5_000);

/// Long work in its present state.
#[derive(Debug)]
pub(crate) struct LongWorkView {
    pub(crate) effect: Effect,
    /// The id by which its client knows it as a task; none if that is the handle.
    pub(crate) task_id: Option<String>,
    pub(crate) progress: Option<WorkProgress>,
    /// Whether a cancellation was requested.
    pub(crate) cancel_asked: bool,
}

/// The end of long work.
#[derive(Debug)]
pub(super) enum LongWorkEnd {
    /// A result that keeps the contract.
    Result(Bytes),
    /// There is no result, or none that may be passed on.
    Refused(Box<Refusal>),
}

/// The work with this handle, if the requester may see it.
pub(crate) async fn view_for(core: &Core, requester: &Requester, handle: &str) -> Option<LongWorkView> {
    if handle.chars().count() > HANDLE_CHARS_MAX {
        return None;
    }
    let seen = view_by_id(core, &EffectId::from(handle.to_owned())).await?;
    let Effect { key, order, .. } = &seen.effect;
    let (owner, touches) = (seen.effect.caller(), seen.effect.touches());
    let snapshot = core.snapshot();
    let contract = snapshot.contract(&order.exposed_tool, &key.tool);
    let program_class = contract.and_then(|contract| contract.program_class(&order.arguments));
    let (exposed_tool, contract) = (&order.exposed_tool, &key.tool);
    let past = PastCall { owner: &owner, exposed_tool, contract, touches: &touches, program_class };
    past.is_visible_to(requester, &snapshot, core.clock.now()).then_some(seen)
}

/// The work with this handle, without checking whose it is.
pub(super) async fn view_by_id(core: &Core, id: &EffectId) -> Option<LongWorkView> {
    let effect = core.effects.find(EffectTarget::Id(id.clone())).await.ok()??;
    // Progress of an earlier attempt under the same key says nothing about this one.
    let since_ms = effect.first_dispatched_ms.unwrap_or(effect.created_ms);
    let progress = note::progress(core, id).await.filter(|said| said.at_ms >= since_ms);
    let cancel_asked = note::cancellation(core, id).await.is_some_and(|asked| asked.at_ms >= since_ms);
    Some(LongWorkView { effect, task_id: None, progress, cancel_asked })
}

/// The same, once the work has ended or the requester stops waiting.
pub(crate) async fn await_end(
    long_running: &LongWorkContext,
    requester: &Requester,
    handle: &str,
    until: Instant,
    cancel: &CancellationToken,
) -> Option<LongWorkView> {
    loop {
        let mut ended = std::pin::pin!(long_running.works.ended.notified());
        // This comes before the look, so that no end is missed in between.
        ended.as_mut().enable();
        let seen = view_for(&long_running.core, requester, handle).await?;
        if seen.is_ended() || Instant::now() >= until || cancel.is_cancelled() {
            return Some(seen);
        }
        tokio::select! {
            () = ended => {}
            () = tokio::time::sleep_until(until.min(Instant::now() + Duration::from_millis(LOOK_MS))) => {}
            () = cancel.cancelled() => {}
        }
    }
}

impl LongWorkView {
    /// The id by which its client knows it as a task.
    pub(super) fn task_id(&self) -> &str {
        self.task_id.as_deref().unwrap_or(self.effect.id.as_str())
    }

    /// Whether the work has ended, with a known or an unknown outcome.
    pub(crate) fn is_ended(&self) -> bool {
        !matches!(self.effect.state, EffectState::Claimed | EffectState::Dispatching)
    }

    /// Whether the work was cancelled before anything was done.
    pub(super) fn is_cancelled(&self) -> bool {
        self.cancel_asked && self.effect.state == EffectState::FailedRetryable
    }

    /// The present version of the work's contract: a result that is passed on today must keep today's promises.
    pub(crate) fn contract(&self, snapshot: &WorldSnapshot) -> Option<Arc<CompiledContract>> {
        snapshot.contract(&self.effect.order.exposed_tool, &self.effect.key.tool)
    }

    /// The end of the work; none while it is under way.
    pub(super) fn end(&self, snapshot: &WorldSnapshot) -> Option<LongWorkEnd> {
        let effect = &self.effect;
        let call_id = &effect.call_id;
        let refused = |reply: &EffectReply| {
            LongWorkEnd::Refused(Box::new(existing_effect::refusal(call_id, reply, Some(effect))))
        };
        Some(match effect.state {
            EffectState::Claimed | EffectState::Dispatching => return None,
            EffectState::Completed | EffectState::FailedFinal | EffectState::Compensated => self.answered(snapshot),
            EffectState::FailedRetryable => LongWorkEnd::Refused(Box::new(never_ran(call_id, self))),
            EffectState::OutcomeUnknown => refused(&EffectReply::Unknown),
            EffectState::Expired => refused(&EffectReply::KeyExpired),
        })
    }

    fn answered(&self, snapshot: &WorldSnapshot) -> LongWorkEnd {
        let Effect { id, call_id, class, answer, .. } = &self.effect;
        let gone = |known: &str| LongWorkEnd::Refused(Box::new(existing_effect::answer_gone(call_id, known, id)));
        let Some(contract) = self.contract(snapshot) else {
            return gone("the contract of its tool is gone");
        };
        let result = match answer {
            Some(StoredAnswer::Result(result)) => result.clone(),
            Some(StoredAnswer::Refusal(refusal)) => return LongWorkEnd::Refused(refusal.clone()),
            Some(StoredAnswer::Known(known)) if contract.output().is_none() => known_result(known),
            Some(StoredAnswer::Known(known)) => return gone(known),
            None => return gone("it was not stored"),
        };
        match observe::observe(&contract, &result) {
            Ok(_) => LongWorkEnd::Result(result),
            Err(broken) => {
                let refusal = refusals::quarantined(call_id, *class, broken).with_handle(id.as_str());
                LongWorkEnd::Refused(Box::new(refusal))
            }
        }
    }

    /// The facts for an observation of the work.
    pub(super) fn occasion<'a>(&'a self, trace_id: &'a str) -> ObservationContext<'a> {
        let effect = &self.effect;
        ObservationContext {
            tool: &effect.key.tool,
            version: &effect.order.contract_version,
            call_id: &effect.call_id,
            received_at: Timestamp::from_unix_ms(effect.created_ms),
            finished_at: Timestamp::from_unix_ms(effect.changed_ms),
            trace_id,
            attempt_number: effect.dispatches.max(1),
            grant: None,
            idempotency_hit: false,
        }
    }
}

/// The result of work that was done but whose own answer is gone.
pub(crate) fn known_result(known: &str) -> Bytes {
    let text = format!("It was done before. {known}");
    Bytes::from(format!(r#"{{"content":[{{"type":"text","text":{}}}]}}"#, to_json(&text)))
}

/// The refusal for work that is under way: its progress, and how to ask for it.
pub(crate) fn under_way(call_id: &CallId, seen: &LongWorkView) -> Refusal {
    let Effect { id, key, order, class, created_ms, .. } = &seen.effect;
    let progress = seen.progress.as_ref().map(|said| format!(" ({})", said.in_words())).unwrap_or_default();
    let cancelled = if seen.cancel_asked { "; a cancellation was asked for" } else { "" };
    let again = if key.client_key.can_come_again() { ", or repeat it with the same key" } else { "" };
    let mut refusal = Refusal::new(
        call_id.clone(),
        GateName::Perform,
        TaxonomyClass::IdempotencyConflict,
        format!("it still goes on{progress}{cancelled}"),
        format!("call `{RESULT_TOOL}` with this handle{again}"),
    );
    refusal.retryable = key.client_key.can_come_again();
    refusal.next_action = NextAction::AskLater;
    refusal.effect = if class.mutates() { EffectKnowledge::Unknown } else { EffectKnowledge::None };
    let (least, most) = RETRY_AFTER_MS;
    let took_ms = seen.effect.changed_ms.saturating_sub(*created_ms);
    refusal.retry_after_ms = Some((order.timeout_ms / 60).max(took_ms / 2).clamp(least, most));
    refusal.handle = Some(id.to_string());
    refusal
}

/// The refusal for work that provably did nothing.
pub(crate) fn never_ran(call_id: &CallId, seen: &LongWorkView) -> Refusal {
    let reason = seen.effect.reason.as_deref().unwrap_or("nothing more is known");
    let (message, hint) = if seen.is_cancelled() {
        (format!("it was cancelled before anything was done: {reason}"), "make the call again if it is still wanted")
    } else {
        (format!("it was not done: {reason}"), "make the same call again if it is still wanted")
    };
    let mut refusal = Refusal::new(
        call_id.clone(),
        GateName::Perform,
        TaxonomyClass::DependencyUnavailable,
        message,
        hint.to_owned(),
    )
    .with_handle(seen.effect.id.as_str());
    refusal.next_action = NextAction::RetryAfterDelay;
    refusal
}

/// The answer to a caller that no longer waits.
pub(super) fn handover_result(seen: &LongWorkView, trace_id: &str) -> ToolResult {
    let refusal = under_way(&seen.effect.call_id, seen);
    let observation = Observation::from_refusal(&seen.occasion(trace_id), &refusal, Verification::none());
    tool_result::from_refusal(refusal, observation)
}
