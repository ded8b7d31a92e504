//! What may be told about a key, by what the upstream's file says. The rules, for everything that changes something:
//!
//! 1. One key has at most one effect, whatever its class.
//! 2. Told *done*: exactly one effect of that payload, which began before the answer ended. Every answer that begins later is
//!    the same result or claims nothing (no answer, or `effect: unknown_before`).
//! 3. Told `effect: none`: no effect of that payload by a call that reached the upstream before this attempt began, and none by
//!    a call that this attempt caused, then or later.
//! 4. Told `effect: happened`: an effect of that payload began before the answer ended.
//! 5. Told `effect: unknown` without having sent anything, while another attempt's call was at the upstream, and that attempt
//!    was answered with its own result by a gateway that was neither killed nor silent too long meanwhile: a false unknown.
//!
//! What is taken for granted: all times are of one monotonic clock; the upstream writes an arrival before anything else and an
//! effect's beginning before its answer; a gateway that passes on an attempt's name passes on the right one.

use super::{
    Lie, Verdict,
    books::{Books, Call},
    history::{History, Told},
};

/// Judges all answers of one key.
pub fn judge(key: &str, answers: &[&Told], history: &History, books: &Books, verdict: &mut Verdict) {
    let Some(first) = answers.first() else { return };
    count(answers, books, verdict);
    let effects = books.effects(&first.business);
    if effects > 1 {
        let shown: Vec<String> = answers.iter().map(|told| told.short()).collect();
        verdict.found(Lie::EffectsMoreThanOne, key, format!("{effects} effects; {}", shown.join(" ")));
    }
    judge_results(key, answers, verdict);
    for told in answers {
        if told.is_done() {
            judge_done(key, told, answers, books, verdict);
        } else if told.says_none() {
            judge_none(key, told, answers, books, verdict);
        } else if told.is_refused() && told.effect == "happened" {
            let happened = effects_of(told, books).any(|(_, began_ms)| began_ms <= told.ended_ms);
            if !happened {
                verdict.found(Lie::ClaimsMore, key, told.short());
            }
        } else if told.says_unknown() {
            judge_unknown(key, told, answers, (history, books), verdict);
        }
    }
}

fn count(answers: &[&Told], books: &Books, verdict: &mut Verdict) {
    let counts = &mut verdict.counts;
    let happened = answers.first().is_some_and(|told| books.effects(&told.business) > 0);
    counts.answers += answers.len();
    counts.done += answers.iter().filter(|told| told.is_done()).count();
    counts.unknown_before += answers.iter().filter(|told| told.effect == "unknown_before").count();
    if answers.iter().any(|told| told.says_unknown()) {
        counts.unknown += 1;
        counts.unknown_happened += usize::from(happened);
    }
    let worded_none = |told: &&&Told| {
        let began_before = || effects_of(told, books).any(|(_, began_ms)| began_ms < told.began_ms);
        told.is_under_way() && told.effect == "none" && began_before()
    };
    counts.conflicts_that_say_none += answers.iter().filter(worded_none).count();
}

/// The calls of this key and payload that had an effect, with when it began.
fn effects_of<'a>(told: &'a Told, books: &'a Books) -> impl Iterator<Item = (&'a Call, u64)> + 'a {
    let calls = books.calls(&told.business).filter(|call| call.payload == told.payload);
    calls.filter_map(|call| call.effect_ms.map(|began_ms| (call, began_ms)))
}

fn judge_results(key: &str, answers: &[&Told], verdict: &mut Verdict) {
    let mut done = answers.iter().filter(|told| told.is_done());
    let Some(first) = done.next() else { return };
    if let Some(other) = done.find(|told| told.digest != first.digest || told.payload != first.payload) {
        verdict.found(Lie::TwoResults, key, format!("{} and {}", first.short(), other.short()));
    }
}

fn judge_done(key: &str, done: &Told, answers: &[&Told], books: &Books, verdict: &mut Verdict) {
    if !effects_of(done, books).any(|(_, began_ms)| began_ms <= done.ended_ms) {
        verdict.found(Lie::DoneWithoutEffect, key, done.short());
    }
    let later = |told: &&&Told| told.began_ms >= done.ended_ms && told.payload == done.payload;
    // `none` and another result have their own rules, so that one answer gives one finding.
    let excused = |told: &Told| told.is_done() || told.claims_nothing() || told.says_none();
    if let Some(other) = answers.iter().filter(later).find(|told| !excused(told)) {
        verdict.found(Lie::DoneThenOther, key, format!("{}, then {}", done.short(), other.short()));
    }
}

fn judge_none(key: &str, none: &Told, answers: &[&Told], books: &Books, verdict: &mut Verdict) {
    let caused = |call: &Call| {
        if let Some(attempt) = &call.attempt {
            return *attempt == none.attempt;
        }
        // The gateway sent it by itself. If every attempt that can have caused it was told that nothing was sent, the answers
        // claim less than happened.
        let led = |told: &&&Told| told.payload == none.payload && told.began_ms <= call.arrived_ms;
        answers.iter().filter(led).all(|told| told.says_none())
    };
    let lied = effects_of(none, books).find(|(call, _)| call.arrived_ms < none.began_ms || caused(call));
    if let Some((call, began_ms)) = lied {
        let words =
            format!("{}; a call arrived at {} ms and its effect began at {began_ms} ms", none.short(), call.arrived_ms);
        verdict.found(Lie::ClaimsLess, key, words);
    }
}

fn judge_unknown(
    key: &str,
    unknown: &Told,
    answers: &[&Told],
    (history, books): (&History, &Books),
    verdict: &mut Verdict,
) {
    let sent = |told: &Told, call: &Call| call.attempt.as_ref().is_some_and(|attempt| *attempt == told.attempt);
    if books.calls(&unknown.business).any(|call| sent(unknown, call)) {
        return;
    }
    let held = |told: &&&Told| {
        let overlaps = told.began_ms <= unknown.ended_ms && told.ended_ms >= unknown.began_ms;
        let was_there =
            || books.calls(&unknown.business).any(|call| sent(told, call) && call.arrived_ms <= unknown.ended_ms);
        let lived = || !history.was_silent(&told.gateway, told.began_ms, told.ended_ms);
        told.is_done() && !told.replayed && told.payload == unknown.payload && overlaps && was_there() && lived()
    };
    if let Some(holder) = answers.iter().find(held) {
        verdict.found(Lie::FalseUnknown, key, format!("{} while {}", unknown.short(), holder.short()));
    }
}
