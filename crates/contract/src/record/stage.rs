//! The stages of a recorded call, in words: the verdict of each, or why there is none. Commands and pages show the same.

use super::{CallRecord, Decision, Outcome, Verdict};
use crate::{GateName, tool::EffectClass};

/// Up to this, durations are shown in microseconds.
const US_SHOWN_MAX: u64 = 10_000;

/// One stage of a recorded call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallStage {
    /// The stage.
    pub gate: GateName,
    /// How the call stands there.
    pub standing: StageStanding,
    /// The same in a word or a few.
    pub word: &'static str,
    /// What there is to say beside it; may be empty.
    pub detail: String,
    /// How long the stage took, if it judged.
    pub took_us: Option<u64>,
}

/// How a call stands at a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StageStanding {
    /// It went on.
    Passed,
    /// It ended there.
    Ended,
    /// It was sent, and its end is not known from this record.
    Open,
    /// The stage has no verdict.
    Silent,
}

impl CallStage {
    /// Every stage of a call, in order.
    pub fn all(record: &CallRecord) -> Vec<Self> {
        GateName::ALL.into_iter().map(|gate| Self::new(gate, record)).collect()
    }

    /// How long the stage took, in microseconds up to ten thousand, in milliseconds above. None if it did not judge.
    pub fn took(&self) -> Option<String> {
        let in_words = |us: u64| if us > US_SHOWN_MAX { format!("{} ms", us / 1_000) } else { format!("{us} µs") };
        self.took_us.map(in_words)
    }

    /// One stage of a call.
    pub fn new(gate: GateName, record: &CallRecord) -> Self {
        // The state gate judges twice if something was asked in between; the last verdict counts.
        let Some(verdict) = record.verdicts.iter().rfind(|verdict| verdict.gate == gate) else {
            return no_verdict(gate, record);
        };
        let Verdict { decision, took_us, .. } = *verdict;
        let took = Some(took_us);
        let reads = record.contract.as_ref().is_some_and(|contract| contract.effect_class == EffectClass::R);
        let asked = gate.question().to_owned();
        let (standing, word, detail) = match decision {
            Decision::Skipped => (StageStanding::Passed, "skipped", "the answer was there already".to_owned()),
            Decision::Passed if gate == GateName::Fence && reads => {
                (StageStanding::Passed, "passed", "not needed: nothing is changed".to_owned())
            }
            Decision::Passed => (StageStanding::Passed, "passed", asked),
            Decision::Refused => (StageStanding::Ended, gate.ended_word(), asked),
        };
        Self { gate, standing, word, detail, took_us: took }
    }
}

impl GateName {
    /// The word for how a call ended at this stage: refused before it was sent, failed afterwards.
    pub const fn ended_word(self) -> &'static str {
        match self {
            Self::Perform | Self::Observe => "failed",
            _ => "refused",
        }
    }
}

/// A stage without a verdict. A call that was sent has passed the stages before it, perhaps in another process, and may have been performed.
fn no_verdict(gate: GateName, record: &CallRecord) -> CallStage {
    let silent = |word| (StageStanding::Silent, word, String::new());
    let passed_before = || silent("passed when the call was first made");
    let sent_at = record.dispatched_at.filter(|_| record.outcome != Outcome::NotExecuted);
    let (standing, word, detail) = match (sent_at, record.is_late_answer(), gate) {
        (None, ..) => silent("not reached"),
        // The first call's record has the stages; this record is only about the answer.
        (Some(sent_at), true, GateName::Perform) => {
            (StageStanding::Passed, "passed", format!("sent at {sent_at}; answered after the deadline"))
        }
        (Some(_), true, GateName::Observe) => {
            let detail = "the late answer was looked at like any other".to_owned();
            match record.outcome {
                Outcome::Quarantined => (StageStanding::Ended, gate.ended_word(), detail),
                _ => (StageStanding::Passed, "passed", detail),
            }
        }
        (Some(sent_at), false, GateName::Perform) => {
            (StageStanding::Open, "sent", format!("sent at {sent_at}; {}", no_end(record)))
        }
        (Some(_), false, GateName::Observe) => silent("no answer to look at"),
        (Some(_), ..) => passed_before(),
    };
    CallStage { gate, standing, word, detail, took_us: None }
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
