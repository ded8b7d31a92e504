//! The stages of a call, one line each: the verdict, or why there is none.

use servanda_contract::{
    CallRecord, GateName,
    record::{Decision, Outcome},
    tool::EffectClass,
};

use crate::{
    commands::ended_word,
    screen::{TextStyle, paint},
};

/// Up to this, times are shown in microseconds.
const US_SHOWN_MAX: u64 = 10_000;

/// The line of one stage.
pub(super) fn stage(gate: GateName, record: &CallRecord) -> String {
    let number = gate.number().map_or_else(|| "  ".to_owned(), |number| format!("{number:>2}"));
    let name = format!("{:<13}", gate.to_string());
    // The state gate judges twice if something was asked in between; the last verdict counts.
    let verdict = record.verdicts.iter().rfind(|verdict| verdict.gate == gate);
    let Some(verdict) = verdict else {
        return format!("  {number} {name} {}", no_verdict(gate, record));
    };
    let passed = verdict.decision == Decision::Passed;
    if verdict.decision == Decision::Skipped {
        return format!("  {number} {name} {}  the answer was there already", paint("skipped", TextStyle::Good));
    }
    let word = match ended_word(gate) {
        _ if passed => paint("passed ", TextStyle::Good),
        word => paint(&format!("{:<7}", word.to_uppercase()), TextStyle::Bad),
    };
    let reads = record.contract.as_ref().is_some_and(|contract| contract.effect_class == EffectClass::R);
    if gate == GateName::Fence && passed && reads {
        return format!("  {number} {name} {word}  not needed: nothing is changed");
    }
    format!("  {number} {name} {word}  {} ({})", gate.question(), took(verdict.took_us))
}

/// The text for a stage without a verdict. A call that was sent has passed the stages before it, perhaps in another process, and may have
/// been performed.
fn no_verdict(gate: GateName, record: &CallRecord) -> String {
    let Some(sent_at) = record.dispatched_at.filter(|_| record.outcome != Outcome::NotExecuted) else {
        return paint("not reached", TextStyle::Quiet);
    };
    // The first call's record has the stages; this record is only about the answer.
    if record.is_late_answer() {
        return match gate {
            GateName::Perform => {
                format!("{}  sent at {sent_at}; answered after the deadline", paint("passed ", TextStyle::Good))
            }
            GateName::Observe => {
                format!("{}  the late answer was looked at like any other", late_answer_word(record.outcome))
            }
            _ => paint("passed when the call was first made", TextStyle::Quiet),
        };
    }
    match gate {
        GateName::Perform => format!("{}  sent at {sent_at}; {}", paint("SENT   ", TextStyle::Careful), no_end(record)),
        GateName::Observe => paint("no answer to look at", TextStyle::Quiet),
        _ => paint("passed when the call was first made", TextStyle::Quiet),
    }
}

/// The result of looking at a late answer.
fn late_answer_word(outcome: Outcome) -> String {
    match outcome {
        Outcome::Quarantined => paint(&format!("{:<7}", ended_word(GateName::Observe).to_uppercase()), TextStyle::Bad),
        _ => paint("passed ", TextStyle::Good),
    }
}

/// What is known about the end of a call that was sent and has no verdict for it.
const fn no_end(record: &CallRecord) -> &'static str {
    match record.outcome {
        Outcome::TaskCreated => "the upstream works on it as a task",
        Outcome::InputRequired => "the upstream asked for input",
        Outcome::Dispatching => "no answer is on record yet",
        _ => "no answer is on record",
    }
}

/// Microseconds up to ten thousand, milliseconds above.
fn took(us: u64) -> String {
    if us > US_SHOWN_MAX { format!("{} ms", us / 1_000) } else { format!("{us} µs") }
}
