//! One call at a time per account: no two calls of it are at the upstream at once, between their arrival and their end.
//!
//! The second of two calls is excused if the gateway that sent the first was killed or silent too long in between, or had given
//! up on the first: its time limit was over, its attempt was answered, or the same attempt sent both.

use std::collections::BTreeMap;

use super::{
    Lie, Verdict,
    books::{Books, Call},
    history::{History, Told},
};

/// How much earlier than its limit a gateway may seem to give up.
const LIMIT_MARGIN_MS: u64 = 300;

/// Judges all accounts.
pub fn judge(history: &History, books: &Books, verdict: &mut Verdict) {
    let attempts: BTreeMap<&str, &Told> = history.told.iter().map(|told| (&*told.attempt, told)).collect();
    let keys: BTreeMap<&str, &Told> = history.told.iter().map(|told| (&*told.business, told)).collect();
    for (account, calls) in books.by_account() {
        let mut running: Vec<&Call> = Vec::new();
        for call in calls {
            running.retain(|first| first.ended_ms > call.arrived_ms);
            let is_excused = |first: &&&Call| {
                let gateway = first.gateway.as_deref().unwrap_or_default();
                history.was_silent(gateway, first.arrived_ms, call.arrived_ms)
                    || was_given_up(first, call, &attempts, &keys)
            };
            if let Some(first) = running.iter().find(|first| !is_excused(first)) {
                let key = keys.get(&*call.business).map_or(&*call.business, |told| &*told.key);
                let words = format!(
                    "`{account}`: {} of {:?} is there from {} to {} ms, {} of {:?} comes at {} ms",
                    first.business,
                    first.gateway,
                    first.arrived_ms,
                    first.ended_ms,
                    call.business,
                    call.gateway,
                    call.arrived_ms
                );
                verdict.found(Lie::Overlap, key, words);
            }
            running.push(call);
        }
    }
}

/// Whether the gateway no longer waits for the first call when the second arrives.
fn was_given_up(first: &Call, second: &Call, attempts: &BTreeMap<&str, &Told>, keys: &BTreeMap<&str, &Told>) -> bool {
    if first.attempt.is_some() && first.attempt == second.attempt {
        return true;
    }
    let attempt = first.attempt.as_deref().and_then(|attempt| attempts.get(attempt));
    // Without an attempt the gateway sent it by itself, and waits from then on.
    let limit_ms = keys.get(&*first.business).map_or(0, |told| told.limit_ms);
    let from_ms = attempt.map_or(first.arrived_ms, |told| told.began_ms);
    let over = limit_ms > 0 && from_ms + limit_ms <= second.arrived_ms + LIMIT_MARGIN_MS;
    over || attempt.is_some_and(|told| told.is_refused() && told.ended_ms <= second.arrived_ms)
}
