//! Words for effects: their states, their classes, their keys, and how often they were sent.

use servanda_contract::{Timestamp, legibility, tool::EffectClass};
use servanda_effects::effect::{ClientKey, Effect, EffectState};

use crate::view::Moment;

/// A state in words: the badge, its style, and what it means.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EffectWords {
    /// The words of the badge.
    pub(crate) words: &'static str,
    /// The class of the style sheet.
    pub(crate) style: &'static str,
    /// What it means, as a sentence.
    pub(crate) meaning: &'static str,
}

impl EffectWords {
    /// The state of an effect.
    pub(crate) fn new(effect: &Effect) -> Self {
        let (words, style, meaning) = match effect.state {
            EffectState::Claimed => ("about to be sent", "waiting", "Nothing was sent yet."),
            EffectState::Dispatching => (
                "under way",
                "waiting",
                "It may have been sent. How it ended is not known yet, and it may still end by itself.",
            ),
            EffectState::Completed => ("done", "good", "It happened."),
            EffectState::FailedFinal => ("failed", "quiet", "It failed, and the failure is the answer."),
            EffectState::FailedRetryable => {
                ("did not happen", "quiet", "It did not happen. The same call may be made again.")
            }
            EffectState::OutcomeUnknown if effect.is_from_lost_window() => (
                "outcome unknown",
                "bad",
                "Its key may have been used in a time that the ledger has lost. It is not sent until a person settles it.",
            ),
            EffectState::OutcomeUnknown => (
                "outcome unknown",
                "bad",
                "It was sent, and whether it happened is not known. It is not sent again until a person settles it.",
            ),
            EffectState::Compensated => ("undone", "quiet", "It happened and was then undone."),
            EffectState::Expired => ("expired", "quiet", "The key was used once and is never used again."),
        };
        if effect.conflict.is_some() {
            return Self { words: "in conflict", style: "bad", meaning };
        }
        Self { words, style, meaning }
    }
}

/// What an effect class means for an unknown outcome.
pub(crate) const fn class_in_words(class: EffectClass) -> &'static str {
    match class {
        EffectClass::R => "R: it only reads",
        EffectClass::K => "K: the server recognises our key",
        EffectClass::Q => "Q: a tool of the server can be asked",
        EffectClass::N => "N: the server neither recognises a key nor can be asked",
    }
}

/// The key of an effect.
pub(crate) fn key_in_words(key: &ClientKey) -> String {
    match key {
        ClientKey::Given(key) => format!("“{}”, which the client gave", legibility::one_line(key)),
        ClientKey::Derived(digest) => format!("{}, from the operation or step that the client named", digest.short()),
        ClientKey::Call(_) => "none: the call was an operation of its own".to_owned(),
    }
}

/// How often it was sent.
pub(crate) fn attempts_in_words(effect: &Effect, now: Timestamp) -> String {
    let first = effect.first_dispatched_ms.map(|ms| Moment::new(ms, now));
    match (effect.dispatches, first) {
        (_, Some(first)) if effect.is_from_lost_window() => {
            format!("perhaps, since {}", first.absolute)
        }
        (0, _) | (_, None) => "never".to_owned(),
        (1, Some(first)) => format!("once, {} ({})", first.absolute, first.relative),
        (times, Some(first)) => format!("{times} times, first {} ({})", first.absolute, first.relative),
    }
}
