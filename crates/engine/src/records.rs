//! Putting finished calls on record, settling their effects with the same commit, and telling the operator.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use servanda_contract::{
    CallId, CallRecord, Refusal, TaxonomyClass, ToolContract, record::Outcome, refusal::EffectKnowledge,
};
use servanda_gates::{
    Note,
    effect::{Applied, Change, Claim, EffectState, End, Event, Reply, StoredAnswer, Target},
};

use crate::{
    core::{Core, Held},
    observe::Observed,
    upstream_failure, works,
};

/// How long an answer waits for its record.
const RECORD_MS_MAX: u64 = 5_000;
/// How often the end of an effect is offered to a store that does not take it, how long after the first time, and how long
/// between two times at the most.
const SETTLE_ATTEMPTS_MAX: u32 = 24;
const SETTLE_WAIT_MS: u64 = 250;
const SETTLE_WAIT_MS_MAX: u64 = 5_000;

/// Puts a record down and tells the operator. An answer is never held back for its record: the ledger counts and reports
/// what it could not keep.
pub(crate) async fn put_down(core: &Core, record: CallRecord, durable: bool, quarantine: Option<Bytes>) {
    tell_operator(&record);
    let call_id = record.call_id.clone();
    let notes = core.told(&core.scene()).of_record(&record);
    note_deliveries(core, &call_id, notes).await;
    let kept = core.journal.finished(record, quarantine, durable);
    match tokio::time::timeout(Duration::from_millis(RECORD_MS_MAX), kept).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::error!(%call_id, %error, "the record of a finished call was not kept"),
        Err(_) => {
            tracing::error!(%call_id, "the ledger is too slow; whether a finished call is on record is not known");
        }
    }
}

/// The end of an effect, as it is settled.
#[derive(Debug)]
pub(crate) struct Settling {
    pub(crate) claim: Claim,
    pub(crate) end: End,
    pub(crate) record: CallRecord,
    pub(crate) quarantine: Option<Bytes>,
    /// That this process had it in hand.
    pub(crate) held: Option<Held>,
}

/// What settling came to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settled {
    /// Whether the end is on record.
    pub(crate) on_record: bool,
    /// The state it was settled in; none if it was not, or is another's by now.
    pub(crate) state: Option<EffectState>,
}

/// Settles an effect and puts the record of its call down, both or neither. The answer waits for that, but not for ever: a
/// store that is away gets it when it is back, and until then the effect counts as under way.
pub(crate) async fn settle(core: &Arc<Core>, settling: Settling) -> Settled {
    tell_operator(&settling.record);
    let call_id = settling.record.call_id.clone();
    let inside = Arc::clone(core);
    let settled = core.in_flight.spawn(async move { offer(&inside, settling).await });
    let on_record = tokio::time::timeout(Duration::from_millis(RECORD_MS_MAX), settled).await;
    let settled = match on_record {
        Ok(Ok(settled)) => settled,
        _ => Settled { on_record: false, state: None },
    };
    if !settled.on_record {
        tracing::error!(%call_id, "the end of a call is not on record yet, so its caller is not told that it is done");
    }
    settled
}

/// Writes down whom to tell of an end that is decided, before anybody is answered.
pub(crate) async fn note_deliveries(core: &Core, call_id: &CallId, notes: Vec<Note>) {
    for note in notes {
        let kept = core.notebook.write_first(note);
        match tokio::time::timeout(Duration::from_millis(RECORD_MS_MAX), kept).await {
            Ok(Ok(_)) => core.outbox.wake(),
            Ok(Err(error)) => tracing::error!(%call_id, %error, "a callback will not be told how a call ended"),
            Err(_) => tracing::error!(%call_id, "the ledger is too slow; a callback may not be told how a call ended"),
        }
    }
}

async fn offer(core: &Arc<Core>, settling: Settling) -> Settled {
    let Settling { claim, end, record, quarantine, held } = settling;
    // Made once: an end that is offered again is the same event.
    let notices = core.told(&core.scene()).of_settling(&record);
    let (call_id, effect) = (record.call_id.clone(), claim.id.clone());
    for attempt in 0..SETTLE_ATTEMPTS_MAX {
        let change = Change {
            target: Target::Id(effect.clone()),
            event: Event::Settle(claim.clone(), end.clone()),
            record: Some(record.clone()),
            quarantine: quarantine.clone(),
            notices: notices.clone(),
        };
        match core.effects.apply(change).await {
            Ok(Applied { reply: Reply::Settled, effect }) => {
                if !notices.is_empty() {
                    core.outbox.wake();
                }
                if let Some(effect) = &effect {
                    works::ended(core, effect).await;
                }
                return Settled { on_record: true, state: effect.map(|effect| effect.state) };
            }
            Ok(applied) => {
                // After an error it may have been this very end that was taken.
                if attempt == 0 {
                    tracing::warn!(%call_id, %effect, reply = ?applied.reply, "an answer came too late to settle its effect");
                }
                keep(core, record, quarantine).await;
                return Settled { on_record: true, state: None };
            }
            Err(error) => {
                tracing::error!(%call_id, %effect, %error, attempt, "the end of an effect could not be put on record");
                let wait_ms = (SETTLE_WAIT_MS << attempt.min(16)).min(SETTLE_WAIT_MS_MAX);
                tokio::time::sleep(Duration::from_millis(wait_ms)).await;
            }
        }
    }
    tracing::error!(%call_id, %effect, "the end of an effect is not on record: it will be taken for unknown");
    drop(held);
    keep(core, record, quarantine).await;
    Settled { on_record: false, state: None }
}

/// At least the record, where it can still be kept.
async fn keep(core: &Core, record: CallRecord, quarantine: Option<Bytes>) {
    let call_id = record.call_id.clone();
    if let Err(error) = core.journal.finished(record, quarantine, true).await {
        tracing::error!(%call_id, %error, "the record of a finished call was not kept");
    }
}

/// What an answer that may be passed on means for the effect.
pub(crate) fn end_of(observed: &Observed<'_>, contract: &ToolContract, result: &Bytes) -> End {
    match (&observed.error_text, observed.class) {
        (None, TaxonomyClass::Success) => End::Completed(StoredAnswer::Result(result.clone())),
        (Some(text), _) if upstream_failure::says_not_executed(contract, text) => End::NotExecuted(text.clone()),
        _ => End::Failed(StoredAnswer::Result(result.clone())),
    }
}

/// What a refusal means for the effect.
pub(crate) fn end_of_refusal(refusal: &Refusal) -> End {
    match refusal.effect {
        EffectKnowledge::None => End::NotExecuted(refusal.message.clone()),
        EffectKnowledge::Happened => End::Completed(StoredAnswer::Refusal(Box::new(refusal.clone()))),
        EffectKnowledge::Unknown => End::Unknown(refusal.message.clone()),
    }
}

/// What a person at the gateway should see: one line a call, louder where somebody may have to look.
fn tell_operator(record: &CallRecord) {
    let CallRecord { call_id, tool, outcome, class, .. } = record;
    let class = class.map_or("-", TaxonomyClass::name);
    match outcome {
        Outcome::Unknown | Outcome::Quarantined | Outcome::Dispatching => {
            tracing::warn!(%call_id, %tool, class, "a call ended {}; see `servanda explain {call_id}`", outcome.name());
        }
        _ => tracing::info!(%call_id, %tool, class, "a call ended {}", outcome.name()),
    }
}
