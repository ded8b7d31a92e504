//! Puts finished calls on record, settles their effects in the same commit, and tells the operator.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use servanda_contract::{
    CallId, CallRecord, Refusal, TaxonomyClass, ToolContract,
    record::{CallSummary, Outcome},
    refusal::EffectKnowledge,
};
use servanda_effects::{
    Note,
    effect::{
        self, AppliedChange, Claim, DispatchEnd, Effect, EffectChange, EffectEvent, EffectReply, EffectRules,
        EffectState, EffectTarget, SettlementStatus, StoredAnswer, settlement_status,
    },
};

use crate::{
    answers::{observe::CheckedAnswer, refusals, upstream_failure},
    core::{Core, InFlightEffectGuard},
    long_running,
};

/// The target of the log's lines about calls: each is a whole sentence, for people.
pub const CALL_LINES: &str = "servanda_call";

/// The target of the log's events about decisions: one a call, with fields for programs. No field has an argument, an answer or a credential.
pub const DECISIONS: &str = "servanda_decision";

/// The event about the decision on a call.
macro_rules! tell_decision {
    ($level:ident, $record:ident, $($message:tt)+) => {
        tracing::$level!(
            target: DECISIONS,
            call_id = %$record.call_id,
            trace_id = $record.trace_id,
            tenant = $record.caller.tenant,
            principal = $record.caller.principal,
            tool = $record.tool,
            outcome = $record.outcome.name(),
            class = $record.class.map(TaxonomyClass::name),
            gate = $record.refusal.as_ref().map(|refusal| tracing::field::display(refusal.gate)),
            effect = $record.effect_id.as_deref(),
            ticket = $record.ticket_id.as_deref(),
            took_ms = $record.finished_at.map(|at| at.unix_ms().saturating_sub($record.received_at.unix_ms())),
            $($message)+
        )
    };
}

/// How long an answer waits for its record.
const RECORD_MS_MAX: u64 = 5_000;
/// The end of an effect is offered again to a store that does not answer: the first pause and the longest pause.
const SETTLE_WAIT_MS: u64 = 250;
const SETTLE_WAIT_MS_MAX: u64 = 2_000;

/// Records a call and tells the operator. An answer is never withheld because of its record: the ledger keeps what its store does not take,
/// and refuses calls before it keeps too much (`call/admission.rs`).
pub(crate) async fn write_record(core: &Core, record: CallRecord, durable: bool, quarantine: Option<Bytes>) {
    // Calls that are refused too often leave no record each, but all are measured.
    core.observe(&record);
    // A dry run, too, costs its caller nothing.
    let costs_nothing = matches!(record.outcome, Outcome::Refused | Outcome::Previewed);
    if costs_nothing && !core.refused_calls.count(&record.caller) {
        return;
    }
    tell_operator(&record);
    let call_id = record.call_id.clone();
    let notes = core.callback_notices(&core.snapshot()).for_record(&record);
    note_deliveries(core, &call_id, notes).await;
    let kept = core.journal.record_finished(record, quarantine, durable);
    match tokio::time::timeout(Duration::from_millis(RECORD_MS_MAX), kept).await {
        Ok(Ok(())) => core.outages.record_is_kept(),
        Ok(Err(error)) => core.outages.record_is_late(&call_id, Some(&error)),
        Err(_) => core.outages.record_is_late(&call_id, None),
    }
}

/// The end of an effect, to be settled.
#[derive(Debug)]
pub(crate) struct EffectSettlement {
    pub(crate) claim: Claim,
    pub(crate) end: DispatchEnd,
    pub(crate) record: CallRecord,
    pub(crate) quarantine: Option<Bytes>,
    /// Marks the effect as held by this process.
    pub(crate) held: Option<InFlightEffectGuard>,
}

/// The result of settling an effect.
#[derive(Debug, Clone)]
pub(crate) struct SettlementOutcome {
    /// What may be done with the answer.
    pub(crate) concluded: SettlementStatus,
    /// The effect as the ledger has it; none if the ledger has not said yet.
    pub(crate) effect: Option<Arc<Effect>>,
}

impl SettlementOutcome {
    /// For a call that is not an effect: there is nothing to settle.
    pub(crate) const NOTHING: Self = Self { concluded: SettlementStatus::Accepted, effect: None };
    const NOT_YET: Self = Self { concluded: SettlementStatus::NotYet, effect: None };

    /// The state that the effect was settled in; none if it was not settled, or if the ledger follows another dispatch.
    pub(crate) fn state(&self) -> Option<EffectState> {
        let accepted = self.effect.as_ref().filter(|_| self.concluded == SettlementStatus::Accepted);
        accepted.map(|effect| effect.state)
    }

    /// A refusal as the caller may read it: it claims no less than what the ledger says of the key.
    pub(crate) fn refusal_as_known(&self, mut refusal: Refusal) -> Refusal {
        let effect = self.effect.as_deref();
        match effect::knowledge_to_report(refusal.effect, self.concluded, effect, EffectRules::IN_FORCE) {
            told if told == refusal.effect => {}
            EffectKnowledge::Happened => {
                refusal = refusals::done_by_another(&refusal.call_id);
                refusal.handle = effect.map(|effect| effect.id.to_string());
            }
            _ => refusal.mark_unknown_before(),
        }
        refusal
    }

    /// What is known of the key.
    pub(crate) fn key_knowledge(&self) -> EffectKnowledge {
        effect::knowledge_after_settlement(self.concluded, self.effect.as_deref(), EffectRules::IN_FORCE)
    }
}

/// Settles an effect and records its call, both or neither. The answer waits for that, but not for ever: a store that is unavailable gets
/// the end when it is back, and until then the effect counts as running.
pub(crate) async fn settle(core: &Arc<Core>, settling: EffectSettlement) -> SettlementOutcome {
    core.observe(&settling.record);
    tell_operator(&settling.record);
    let call_id = settling.record.call_id.clone();
    let inside = Arc::clone(core);
    let settled = core.in_flight.spawn(async move { offer_end(&inside, settling).await });
    let on_record = tokio::time::timeout(Duration::from_millis(RECORD_MS_MAX), settled).await;
    let Ok(Ok(settled)) = on_record else {
        core.outages.end_is_late(&call_id);
        return SettlementOutcome::NOT_YET;
    };
    settled
}

/// Records which callbacks to tell of an end that is decided, before the caller is answered.
pub(crate) async fn note_deliveries(core: &Core, call_id: &CallId, notes: Vec<Note>) {
    for note in notes {
        let kept = core.notebook.write_first(note);
        match tokio::time::timeout(Duration::from_millis(RECORD_MS_MAX), kept).await {
            Ok(Ok(_)) => {
                core.outages.notice_is_kept();
                core.outbox.wake();
            }
            Ok(Err(error)) => core.outages.notice_is_lost(call_id, Some(&error)),
            Err(_) => core.outages.notice_is_lost(call_id, None),
        }
    }
}

/// Offers an end to the ledger until the ledger has answered. An end is never dropped, however long the store is unavailable: while this
/// process lives, it holds the effect and knows its end.
async fn offer_end(core: &Arc<Core>, settling: EffectSettlement) -> SettlementOutcome {
    let EffectSettlement { claim, end, record, quarantine, held: _held } = settling;
    // The notices are made once, because an end that is offered again is the same event.
    let notices = core.callback_notices(&core.snapshot()).for_settling(&record);
    let (call_id, effect) = (record.call_id.clone(), claim.id.clone());
    let (mut attempt, mut is_bare) = (0_u32, false);
    loop {
        let change = EffectChange {
            target: EffectTarget::Id(effect.clone()),
            event: EffectEvent::Settle(claim.clone(), end.clone()),
            record: Some(record.clone()).filter(|_| !is_bare),
            quarantine: quarantine.clone().filter(|_| !is_bare),
            notices: notices.clone(),
            consumes: None,
        };
        match core.effects.apply(change).await {
            Ok(AppliedChange { reply, effect }) => {
                core.outages.end_is_kept();
                if !notices.is_empty() {
                    core.outbox.wake();
                }
                let settled =
                    SettlementOutcome { concluded: settlement_status(Some(&reply), EffectRules::IN_FORCE), effect };
                after_settlement(core, &reply, settled.effect.as_deref(), record, quarantine).await;
                return settled;
            }
            // The content is at fault, not the store, and it fails again the next time. The end alone may be accepted.
            Err(error) if error.is_bad_content() && !is_bare => {
                tracing::error!(%call_id, %effect, %error, "the record of a call cannot be stored; its end is recorded without it");
                is_bare = true;
            }
            Err(error) if error.is_bad_content() => {
                tracing::error!(
                    %call_id, %effect, %error,
                    "the end of an effect cannot be put on record, so the effect becomes unknown; see `servanda effects show {effect}`"
                );
                return SettlementOutcome::NOT_YET;
            }
            Err(error) => {
                core.outages.end_is_repeated(&call_id, &error);
                let wait_ms = (SETTLE_WAIT_MS << attempt.min(16)).min(SETTLE_WAIT_MS_MAX);
                tokio::time::sleep(Duration::from_millis(wait_ms)).await;
                attempt = attempt.saturating_add(1);
            }
        }
    }
}

/// What to do once the ledger has answered an end.
async fn after_settlement(
    core: &Arc<Core>,
    reply: &EffectReply,
    effect: Option<&Effect>,
    record: CallRecord,
    quarantine: Option<Bytes>,
) {
    let (call_id, handle) = (record.call_id.clone(), record.effect_id.clone().unwrap_or_default());
    match reply {
        EffectReply::Settled => {}
        // The record was written beside the conflict.
        EffectReply::Contradicted => tracing::error!(
            %call_id, effect = %handle,
            "an answer contradicts what the ledger said about its effect: a person has to look; see `servanda effects show {handle}`"
        ),
        reply => {
            tracing::warn!(%call_id, effect = %handle, ?reply, "the ledger did not accept the end of a call: another dispatch continued its effect");
            keep_record(core, as_the_ledger_says(record, effect), quarantine).await;
            return;
        }
    }
    if let Some(effect) = effect {
        long_running::announce_end(core, effect).await;
    }
}

/// The record of a call whose end the ledger did not accept. It says no more and no less than the ledger.
fn as_the_ledger_says(mut record: CallRecord, effect: Option<&Effect>) -> CallRecord {
    let is_done =
        effect.is_some_and(|effect| matches!(effect.state, EffectState::Completed | EffectState::FailedFinal));
    let may_have_run = effect::knowledge_of_key(effect) != EffectKnowledge::None;
    match &mut record.refusal {
        Some(refusal) if refusal.effect == EffectKnowledge::None && may_have_run => {
            refusal.mark_unknown_before();
            record.outcome = Outcome::Unknown;
        }
        None if !is_done => record.outcome = Outcome::Unknown,
        _ => {}
    }
    record
}

/// Stores at least the record, if that is still possible.
async fn keep_record(core: &Core, record: CallRecord, quarantine: Option<Bytes>) {
    let call_id = record.call_id.clone();
    if let Err(error) = core.journal.record_finished(record, quarantine, true).await {
        core.outages.record_is_late(&call_id, Some(&error));
    }
}

/// What an answer that may be passed on means for the effect.
pub(crate) fn end_of_answer(observed: &CheckedAnswer<'_>, contract: &ToolContract, result: &Bytes) -> DispatchEnd {
    match (&observed.error_text, observed.class) {
        (None, TaxonomyClass::Success) => DispatchEnd::Completed(StoredAnswer::Result(result.clone())),
        (Some(text), _) if upstream_failure::says_not_executed(contract, text) => {
            DispatchEnd::NotExecuted(text.clone())
        }
        _ => DispatchEnd::Failed(StoredAnswer::Result(result.clone())),
    }
}

/// What a refusal means for the effect.
pub(crate) fn end_of_refusal(refusal: &Refusal) -> DispatchEnd {
    match refusal.effect {
        EffectKnowledge::None | EffectKnowledge::UnknownBefore => DispatchEnd::NotExecuted(refusal.message.clone()),
        EffectKnowledge::Happened => DispatchEnd::Completed(StoredAnswer::Refusal(Box::new(refusal.clone()))),
        EffectKnowledge::Unknown => DispatchEnd::Unknown(refusal.message.clone()),
    }
}

/// Logs what a person at the gateway should see: one line per call if the log shows [`CALL_LINES`] (`brief` is for a terminal that is too
/// narrow for it), and one event for programs, which is a warning if a person may have to act. An event that the log does not show is not
/// formatted.
fn tell_operator(record: &CallRecord) {
    tracing::info!(target: CALL_LINES, brief = CallSummary::from_record(record).brief(), "{}", CallSummary::from_record(record));
    match record.outcome {
        Outcome::Unknown | Outcome::Quarantined | Outcome::Dispatching => {
            tell_decision!(
                warn,
                record,
                "a call ended {}; see `servanda explain {}`",
                record.outcome.name(),
                record.call_id
            );
        }
        _ => tell_decision!(info, record, "a call ended {}", record.outcome.name()),
    }
}
