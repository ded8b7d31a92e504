//! Where the record of a call is stored, for every store alike. While bytes may be on their way, the record is
//! stored with its effect, so that one write is enough for both. When the call has ended, the record moves to
//! `calls`. No record is lost on the way.

use servanda_contract::{CallRecord, TaxonomyClass, Timestamp, record::Outcome};
use servanda_effects::effect::{Effect, EffectState};

use crate::{LedgerError, job::CallRecordWrite};

/// What a change does to the records of an effect's calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordPlacement {
    /// Which record is stored with the effect from now on.
    pub(crate) kept: KeptRecordChange,
    /// Whether the record that was stored with the effect belongs to a call that writes no more: it moves to
    /// `calls`.
    pub(crate) displaces: bool,
}

/// Which record is stored with an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeptRecordChange {
    /// The same as before.
    Same,
    /// The record that comes with the change.
    New,
    /// None. If a record comes with the change, it goes to `calls`.
    Nothing,
}

/// The record that is written with a change. A claim has none: nothing is sent, so that a crash leaves nothing behind that a record would have
/// to explain.
pub(crate) fn written_record<'a>(after: &Effect, recorded: Option<&'a CallRecordWrite>) -> Option<&'a CallRecordWrite> {
    recorded.filter(|_| !after.is_only_claimed())
}

/// Decides where records go when an effect changes.
pub(crate) fn place_record(
    before: Option<&Effect>,
    after: &Effect,
    recorded: Option<&CallRecordWrite>,
) -> RecordPlacement {
    let held = before.filter(|before| keeps_record(before));
    if recorded.is_none() && held.is_some_and(|before| keeps_record(after) && before.call_id == after.call_id) {
        return RecordPlacement { kept: KeptRecordChange::Same, displaces: false };
    }
    let is_open = |recorded: &CallRecordWrite| {
        let record = &recorded.record;
        record.outcome == Outcome::Dispatching && record.call_id == after.call_id && recorded.quarantine.is_none()
    };
    let kept = if keeps_record(after) && recorded.is_some_and(is_open) {
        KeptRecordChange::New
    } else {
        KeptRecordChange::Nothing
    };
    let of_same_call = |before: &Effect| recorded.is_some_and(|recorded| recorded.record.call_id == before.call_id);
    RecordPlacement { kept, displaces: held.is_some_and(|before| !of_same_call(before)) }
}

/// Whether a record may be stored with the effect: while bytes may be on their way. It is the record of the
/// call that claimed the effect last.
pub(crate) fn keeps_record(effect: &Effect) -> bool {
    effect.state == EffectState::Dispatching
}

/// The record that was stored with an effect, as it moves to `calls`. If the effect says how the call ended,
/// the record says the same. An unknown outcome is left open, because a late answer may still settle it. From
/// now on the record names its effect, which decides how long the record is kept.
pub(crate) fn displaced_record(open: CallRecord, after: &Effect) -> Result<CallRecordWrite, LedgerError> {
    let record = CallRecord { effect_id: Some(after.id.to_string()), ..open };
    let (outcome, class) = match after.state {
        EffectState::Completed => (Outcome::Completed, Some(TaxonomyClass::Success)),
        EffectState::FailedFinal => (Outcome::ToolError, None),
        EffectState::FailedRetryable => (Outcome::NotExecuted, None),
        _ => return CallRecordWrite::encode_alone(record),
    };
    let finished_at = Some(Timestamp::from_unix_ms(after.changed_ms));
    CallRecordWrite::encode_alone(CallRecord { outcome, class, finished_at, ..record })
}
