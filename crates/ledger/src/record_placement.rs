//! Where the record of a call goes, for every store alike: while bytes may be on their way it is kept with its effect, so that
//! one write is enough for both, and when the call has ended it goes to `calls`. Nothing that was on record is lost on the way.

use servanda_contract::{CallRecord, TaxonomyClass, Timestamp, record::Outcome};
use servanda_effects::effect::{Effect, EffectState};

use crate::{LedgerError, job::CallRecordWrite};

/// What a change does to the records of an effect's calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordPlacement {
    /// What is kept with the effect from now on.
    pub(crate) kept: KeptRecordChange,
    /// Whether what was kept with it is of a call that says nothing more: it goes to `calls`.
    pub(crate) displaces: bool,
}

/// What is kept with an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeptRecordChange {
    /// What was.
    Same,
    /// The record that comes with the change.
    New,
    /// Nothing. If a record comes with the change, it goes to `calls`.
    Nothing,
}

/// Says where records go when an effect changes.
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

/// Whether the record of an effect's call may be kept with it: while bytes may be on their way. It is that of the call which
/// claimed it last.
pub(crate) fn keeps_record(effect: &Effect) -> bool {
    effect.state == EffectState::Dispatching
}

/// A record that was kept with an effect, as it goes to `calls`: where the effect says how it ended, so does the record. What
/// nobody knows is left open, because a late answer may still say. It names its effect from now on, which says for how long it is kept.
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
