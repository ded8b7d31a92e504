//! The verdict on a call, from what the probes saw before and after it. Pure: values in, a verdict out.

use serde::{Deserialize, Serialize};
use servanda_contract::{Digest, record::Outcome};

/// What a probe saw at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeSnapshot {
    /// Something was there; only its digest is kept.
    Digest(Digest),
    /// There was nothing at the place that the probe names.
    Nothing,
    /// The look could not be taken, and why.
    NotTaken(String),
}

/// What two looks of one probe tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeComparison {
    /// The same both times.
    Same,
    /// Different the second time.
    Changed,
    /// Different the second time, and different again the third time, without any call.
    Volatile,
    /// Nothing, because at least one look is missing.
    NotCompared,
}

/// What all probes together say about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeVerdict {
    /// The call did what its contract declares, as far as the probes can see.
    AsDeclared,
    /// The contract says that the tool only reads, and it changed something.
    Violation,
    /// Something changed, and the gateway cannot tell whether this call changed it.
    Inconclusive,
    /// The call was completed and is declared to change something, and nothing changed.
    NoChangeSeen,
    /// The call did not come to its end, or too little was seen: what was seen is on record and says nothing.
    NotJudged,
}

/// One call, as far as the verdict depends on it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProbeVerdictInput<'a> {
    /// Whether the contract says that the tool changes nothing.
    pub(crate) reads_only: bool,
    /// Whether the call was completed, as far as its upstream says.
    pub(crate) completed: bool,
    /// Whether no call that may change something was running at any moment between the two looks.
    pub(crate) alone: bool,
    pub(crate) found: &'a [ProbeComparison],
}

/// Whether anything may have left, so that a second look is worth taking.
pub(crate) const fn may_have_left(outcome: Outcome) -> bool {
    !matches!(outcome, Outcome::Refused | Outcome::NotExecuted | Outcome::Replayed | Outcome::Previewed)
}

/// Compares two looks. If both saw nothing at a place, they tell nothing: the place may not be the right one.
pub(crate) fn compare(before: &ProbeSnapshot, after: &ProbeSnapshot) -> ProbeComparison {
    match (before, after) {
        (ProbeSnapshot::NotTaken(_), _)
        | (_, ProbeSnapshot::NotTaken(_))
        | (ProbeSnapshot::Nothing, ProbeSnapshot::Nothing) => ProbeComparison::NotCompared,
        (before, after) if before == after => ProbeComparison::Same,
        _ => ProbeComparison::Changed,
    }
}

/// Corrects a change by a third look, if nothing but time passed since the second. A third look that could not be taken excuses no tool,
/// because a tool that changes things may also prevent the look.
pub(crate) fn compare_again(found: ProbeComparison, after: &ProbeSnapshot, again: &ProbeSnapshot) -> ProbeComparison {
    match (found, compare(after, again)) {
        (ProbeComparison::Changed, ProbeComparison::Changed) => ProbeComparison::Volatile,
        _ => found,
    }
}

/// The verdict. A tool that only reads must change nothing, however its call ended: a failure does not excuse a change.
pub(crate) fn judge(case: &ProbeVerdictInput<'_>) -> ProbeVerdict {
    let any = |wanted: ProbeComparison| case.found.contains(&wanted);
    match (case.reads_only, any(ProbeComparison::Changed)) {
        (true, true) if case.alone => ProbeVerdict::Violation,
        (true, true) => ProbeVerdict::Inconclusive,
        (true, false) if any(ProbeComparison::Volatile) => ProbeVerdict::Inconclusive,
        (true, false) if case.completed && any(ProbeComparison::Same) => ProbeVerdict::AsDeclared,
        (false, true) if case.completed => ProbeVerdict::AsDeclared,
        (false, false) if case.completed && case.found.iter().all(|found| *found == ProbeComparison::Same) => {
            ProbeVerdict::NoChangeSeen
        }
        _ => ProbeVerdict::NotJudged,
    }
}

impl ProbeVerdict {
    /// One word for tables and JSON.
    pub const fn word(self) -> &'static str {
        match self {
            Self::AsDeclared => "as_declared",
            Self::Violation => "violation",
            Self::Inconclusive => "inconclusive",
            Self::NoChangeSeen => "no_change_seen",
            Self::NotJudged => "not_judged",
        }
    }
}

impl ProbeComparison {
    /// The comparison in words.
    pub const fn in_words(self) -> &'static str {
        match self {
            Self::Same => "the same",
            Self::Changed => "changed",
            Self::Volatile => "changes without any call",
            Self::NotCompared => "not compared",
        }
    }
}

#[cfg(test)]
mod tests {
    use ProbeComparison::{Changed, NotCompared, Same, Volatile};
    use servanda_contract::{Digest, digest::DigestDomain};

    use super::*;

    fn digest(text: &str) -> ProbeSnapshot {
        ProbeSnapshot::Digest(Digest::compute(DigestDomain::Seen, &[text.as_bytes()]))
    }

    #[test]
    fn two_looks_tell_what_they_can() {
        let away = || ProbeSnapshot::NotTaken("away".to_owned());
        let table = [
            (digest("a"), digest("a"), Same),
            (digest("a"), digest("b"), Changed),
            (ProbeSnapshot::Nothing, digest("b"), Changed),
            (digest("a"), ProbeSnapshot::Nothing, Changed),
            (ProbeSnapshot::Nothing, ProbeSnapshot::Nothing, NotCompared),
            (away(), digest("a"), NotCompared),
            (digest("a"), away(), NotCompared),
            (away(), away(), NotCompared),
        ];
        for (before, after, found) in table {
            assert_eq!(compare(&before, &after), found, "{before:?} {after:?}");
        }
    }

    #[test]
    fn a_third_look_shows_what_changes_by_itself_and_excuses_nothing_else() {
        let away = ProbeSnapshot::NotTaken("away".to_owned());
        let table = [
            (Changed, digest("c"), Volatile),
            (Changed, digest("b"), Changed),
            (Changed, away, Changed),
            (Same, digest("c"), Same),
            (NotCompared, digest("c"), NotCompared),
        ];
        for (found, again, settled) in table {
            assert_eq!(compare_again(found, &digest("b"), &again), settled, "{found:?} {again:?}");
        }
    }

    /// Every row: only reads, done, alone, what the probes found, the verdict.
    #[test]
    fn the_table_of_verdicts() {
        let table: &[(bool, bool, bool, &[ProbeComparison], ProbeVerdict)] = &[
            (true, true, true, &[Same], ProbeVerdict::AsDeclared),
            (true, true, false, &[Same], ProbeVerdict::AsDeclared),
            (true, true, true, &[Same, NotCompared], ProbeVerdict::AsDeclared),
            (true, true, true, &[Same, Changed], ProbeVerdict::Violation),
            (true, true, true, &[NotCompared, Changed], ProbeVerdict::Violation),
            (true, true, true, &[Volatile, Changed], ProbeVerdict::Violation),
            (true, false, true, &[Changed], ProbeVerdict::Violation),
            (true, true, false, &[Changed], ProbeVerdict::Inconclusive),
            (true, false, false, &[Changed], ProbeVerdict::Inconclusive),
            (true, true, true, &[Volatile], ProbeVerdict::Inconclusive),
            (true, true, true, &[Volatile, Same], ProbeVerdict::Inconclusive),
            (true, true, true, &[NotCompared], ProbeVerdict::NotJudged),
            (true, false, true, &[Same], ProbeVerdict::NotJudged),
            (false, true, true, &[Changed, Same], ProbeVerdict::AsDeclared),
            (false, true, false, &[Changed], ProbeVerdict::AsDeclared),
            (false, true, true, &[Same, Same], ProbeVerdict::NoChangeSeen),
            (false, true, false, &[Same], ProbeVerdict::NoChangeSeen),
            (false, true, true, &[Same, NotCompared], ProbeVerdict::NotJudged),
            (false, false, true, &[Same], ProbeVerdict::NotJudged),
            (false, false, true, &[Changed], ProbeVerdict::NotJudged),
            (false, true, true, &[NotCompared], ProbeVerdict::NotJudged),
        ];
        for (reads_only, completed, alone, found, verdict) in table {
            let case = ProbeVerdictInput { reads_only: *reads_only, completed: *completed, alone: *alone, found };
            assert_eq!(judge(&case), *verdict, "{case:?}");
        }
    }
}
