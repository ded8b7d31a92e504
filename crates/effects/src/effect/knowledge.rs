//! What a caller may be told about an effect, according to what the ledger knows about the key. Pure tables;
//! the engine answers by them, and the model checks them together with [`step`](super::step).
//!
//! The law: no answer claims less than what earlier dispatches of the key may have done, and nothing is
//! reported as done that the ledger does not have as done.

use servanda_contract::{refusal::EffectKnowledge, tool::EffectClass};

use super::{Effect, EffectReply, EffectRule, EffectRules, EffectState};

/// What an owner may do with an answer after offering it to the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SettlementStatus {
    /// The ledger has stored this very end: the answer may be passed on.
    Accepted,
    /// The ledger has another end, or none yet: only what the ledger says may be passed on.
    Disagrees,
    /// The ledger has not replied yet: the answer waits.
    NotYet,
}

/// What to do with an answer, given the ledger's reply to its settlement; none if it has not replied.
pub fn settlement_status(reply: Option<&EffectReply>, rules: EffectRules) -> SettlementStatus {
    match reply {
        Some(EffectReply::Settled) => SettlementStatus::Accepted,
        Some(_) if !rules.has(EffectRule::Accepted) => SettlementStatus::Accepted,
        Some(_) => SettlementStatus::Disagrees,
        None => SettlementStatus::NotYet,
    }
}

/// What is known about a key, from its effect; none if there is no effect.
pub fn knowledge_of_key(effect: Option<&Effect>) -> EffectKnowledge {
    let Some(effect) = effect else { return EffectKnowledge::None };
    match effect.state {
        EffectState::Claimed | EffectState::FailedRetryable => EffectKnowledge::None,
        EffectState::FailedFinal if effect.dispatches == 0 => EffectKnowledge::None,
        // A tool that failed may have changed something first.
        EffectState::FailedFinal | EffectState::OutcomeUnknown => EffectKnowledge::Unknown,
        EffectState::Dispatching | EffectState::Expired => EffectKnowledge::UnknownBefore,
        EffectState::Completed | EffectState::Compensated => EffectKnowledge::Happened,
    }
}

/// What is known about a key after the end of an attempt was offered to the ledger. Until the ledger has
/// replied, another process may have gone on with the key.
pub fn knowledge_after_settlement(
    concluded: SettlementStatus,
    effect: Option<&Effect>,
    rules: EffectRules,
) -> EffectKnowledge {
    match concluded {
        SettlementStatus::NotYet => knowledge_of_unread_key(true, rules),
        SettlementStatus::Accepted | SettlementStatus::Disagrees => knowledge_of_key(effect),
    }
}

/// What is known about a key that could not be read, for a call that sent nothing. A key that no client can use
/// again is new.
pub fn knowledge_of_unread_key(can_come_again: bool, rules: EffectRules) -> EffectKnowledge {
    if can_come_again && rules.has(EffectRule::UnknownBefore) {
        EffectKnowledge::UnknownBefore
    } else {
        EffectKnowledge::None
    }
}

/// What is known about a key after an attempt of which `attempt` is known. An attempt that provably did nothing
/// does not undo what an earlier dispatch may have done.
pub fn knowledge_after_attempt(attempt: EffectKnowledge, was_sent_before: bool, rules: EffectRules) -> EffectKnowledge {
    match attempt {
        EffectKnowledge::None if was_sent_before && rules.has(EffectRule::WholeKey) => EffectKnowledge::Unknown,
        attempt => attempt,
    }
}

/// What to report about an attempt of which `attempt` is known, after it was offered to the ledger. If the
/// ledger says that another dispatch of the key did it, report that; and never deny what another dispatch may
/// have done.
pub fn knowledge_to_report(
    attempt: EffectKnowledge,
    concluded: SettlementStatus,
    effect: Option<&Effect>,
    rules: EffectRules,
) -> EffectKnowledge {
    if !rules.has(EffectRule::WholeKey) {
        return attempt;
    }
    match (attempt, knowledge_after_settlement(concluded, effect, rules)) {
        (EffectKnowledge::None | EffectKnowledge::Unknown, EffectKnowledge::Happened) => EffectKnowledge::Happened,
        (EffectKnowledge::None, EffectKnowledge::None) => EffectKnowledge::None,
        (EffectKnowledge::None, _) => EffectKnowledge::UnknownBefore,
        (attempt, _) => attempt,
    }
}

/// What is known about a call whose effect could not be recorded, as far as the gateway knows. If an effect of
/// class K was recorded after all, recovery finds it and sends the call.
pub fn knowledge_without_mark(class: EffectClass, leaves_doubt: bool, of_key: EffectKnowledge) -> EffectKnowledge {
    match of_key {
        EffectKnowledge::None if class == EffectClass::K && leaves_doubt => EffectKnowledge::Unknown,
        of_key => of_key,
    }
}
