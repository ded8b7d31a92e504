//! What follows from what was seen before and after a call. Pure: values in, a verdict out.

use serde::{Deserialize, Serialize};
use servanda_contract::{Digest, record::Outcome};

/// What a probe saw at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Seen {
    /// Something, of which only the digest is kept.
    Digest(Digest),
    /// There was nothing at the place that the probe names.
    Nothing,
    /// It could not be looked, and why.
    NotTaken(String),
}

/// What two looks of one probe tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Found {
    /// The same both times.
    Same,
    /// Something else the second time.
    Changed,
    /// Something else the second time, and again something else the third time, without any call.
    Volatile,
    /// Nothing: one look at least is missing.
    NotCompared,
}

/// What all probes together say about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It did what its contract declares, as far as can be seen.
    AsDeclared,
    /// It says that it only reads, and it changed something.
    Violation,
    /// Something changed, and it cannot be told that it was this call.
    Inconclusive,
    /// It was done, it is declared to change something, and nothing changed.
    NoChangeSeen,
    /// It did not come to its end, or too little was seen: what was seen is on record and says nothing.
    NotJudged,
}

/// One call, as far as the verdict depends on it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case<'a> {
    /// Whether its contract says that it changes nothing.
    pub(crate) reads_only: bool,
    /// Whether it was done, as far as its upstream says.
    pub(crate) completed: bool,
    /// Whether no call that may change something was under way at any moment between the two looks.
    pub(crate) alone: bool,
    pub(crate) found: &'a [Found],
}

/// Whether anything may have left, so that it is worth looking again.
pub(crate) const fn may_have_left(outcome: Outcome) -> bool {
    !matches!(outcome, Outcome::Refused | Outcome::NotExecuted | Outcome::Replayed)
}

/// What two looks tell. That there was nothing at a place both times is no sight of it: the place may not be the right one.
pub(crate) fn compare(before: &Seen, after: &Seen) -> Found {
    match (before, after) {
        (Seen::NotTaken(_), _) | (_, Seen::NotTaken(_)) | (Seen::Nothing, Seen::Nothing) => Found::NotCompared,
        (before, after) if before == after => Found::Same,
        _ => Found::Changed,
    }
}

/// What a third look makes of a change, if nothing but time passed since the second. One that could not be taken excuses
/// nobody: whoever changes things may also see to it that nobody can look.
pub(crate) fn compare_again(found: Found, after: &Seen, again: &Seen) -> Found {
    match (found, compare(after, again)) {
        (Found::Changed, Found::Changed) => Found::Volatile,
        _ => found,
    }
}

/// The verdict. A tool that only reads is held to that however its call ended: one that fails is no excuse for a change.
pub(crate) fn judge(case: &Case<'_>) -> Verdict {
    let any = |wanted: Found| case.found.contains(&wanted);
    match (case.reads_only, any(Found::Changed)) {
        (true, true) if case.alone => Verdict::Violation,
        (true, true) => Verdict::Inconclusive,
        (true, false) if any(Found::Volatile) => Verdict::Inconclusive,
        (true, false) if case.completed && any(Found::Same) => Verdict::AsDeclared,
        (false, true) if case.completed => Verdict::AsDeclared,
        (false, false) if case.completed && case.found.iter().all(|found| *found == Found::Same) => {
            Verdict::NoChangeSeen
        }
        _ => Verdict::NotJudged,
    }
}

impl Verdict {
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

impl Found {
    /// In words.
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
    use Found::{Changed, NotCompared, Same, Volatile};
    use servanda_contract::{Digest, digest::DigestDomain};

    use super::*;

    fn digest(text: &str) -> Seen {
        Seen::Digest(Digest::compute(DigestDomain::Seen, &[text.as_bytes()]))
    }

    #[test]
    fn two_looks_tell_what_they_can() {
        let away = || Seen::NotTaken("away".to_owned());
        let table = [
            (digest("a"), digest("a"), Same),
            (digest("a"), digest("b"), Changed),
            (Seen::Nothing, digest("b"), Changed),
            (digest("a"), Seen::Nothing, Changed),
            (Seen::Nothing, Seen::Nothing, NotCompared),
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
        let away = Seen::NotTaken("away".to_owned());
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
        let table: &[(bool, bool, bool, &[Found], Verdict)] = &[
            (true, true, true, &[Same], Verdict::AsDeclared),
            (true, true, false, &[Same], Verdict::AsDeclared),
            (true, true, true, &[Same, NotCompared], Verdict::AsDeclared),
            (true, true, true, &[Same, Changed], Verdict::Violation),
            (true, true, true, &[NotCompared, Changed], Verdict::Violation),
            (true, true, true, &[Volatile, Changed], Verdict::Violation),
            (true, false, true, &[Changed], Verdict::Violation),
            (true, true, false, &[Changed], Verdict::Inconclusive),
            (true, false, false, &[Changed], Verdict::Inconclusive),
            (true, true, true, &[Volatile], Verdict::Inconclusive),
            (true, true, true, &[Volatile, Same], Verdict::Inconclusive),
            (true, true, true, &[NotCompared], Verdict::NotJudged),
            (true, false, true, &[Same], Verdict::NotJudged),
            (false, true, true, &[Changed, Same], Verdict::AsDeclared),
            (false, true, false, &[Changed], Verdict::AsDeclared),
            (false, true, true, &[Same, Same], Verdict::NoChangeSeen),
            (false, true, false, &[Same], Verdict::NoChangeSeen),
            (false, true, true, &[Same, NotCompared], Verdict::NotJudged),
            (false, false, true, &[Same], Verdict::NotJudged),
            (false, false, true, &[Changed], Verdict::NotJudged),
            (false, true, true, &[NotCompared], Verdict::NotJudged),
        ];
        for (reads_only, completed, alone, found, verdict) in table {
            let case = Case { reads_only: *reads_only, completed: *completed, alone: *alone, found };
            assert_eq!(judge(&case), *verdict, "{case:?}");
        }
    }
}
