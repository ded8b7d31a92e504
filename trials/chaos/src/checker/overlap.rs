//! One at a time on an account: no two calls of it are at the upstream at once, between their arrival and their end.
//!
//! Excused is the second of two calls where the gateway that sent the first was killed or silent too long in between, or had
//! waited for it as long as the tool's time limit lets it.

use std::collections::BTreeMap;

use super::{
    Lie, Verdict,
    books::{Books, Call},
    history::History,
};

/// How much earlier than its limit a gateway may give up: the limit counts from before the call is sent.
const LIMIT_MARGIN_MS: u64 = 300;

/// Judges all accounts.
pub fn judge(history: &History, books: &Books, verdict: &mut Verdict) {
    let limits: BTreeMap<&str, u64> = history.told.iter().map(|told| (&*told.business, told.limit_ms)).collect();
    let keys: BTreeMap<&str, &str> = history.told.iter().map(|told| (&*told.business, &*told.key)).collect();
    for (account, calls) in books.by_account() {
        let mut running: Vec<&Call> = Vec::new();
        for call in calls {
            running.retain(|first| first.ended_ms > call.arrived_ms);
            let limit_ms = |first: &Call| limits.get(&*first.business).copied().filter(|limit| *limit > 0);
            if let Some(first) = running.iter().find(|first| !is_excused(history, first, call, limit_ms(first))) {
                let key = keys.get(&*call.business).copied().unwrap_or(&call.business);
                let words = format!(
                    "`{account}`: {} of {:?} is there from {} to {} ms, {} of {:?} comes at {} ms",
                    first.business, first.gateway, first.arrived_ms, first.ended_ms, call.business, call.gateway, call.arrived_ms
                );
                verdict.found(Lie::Overlap, key, words);
            }
            running.push(call);
        }
    }
}

fn is_excused(history: &History, first: &Call, second: &Call, limit_ms: Option<u64>) -> bool {
    let waited_ms = second.arrived_ms.saturating_sub(first.arrived_ms);
    let gave_up = limit_ms.is_some_and(|limit_ms| waited_ms + LIMIT_MARGIN_MS >= limit_ms);
    let gateway = first.gateway.as_deref().unwrap_or_default();
    gave_up || history.was_silent(gateway, first.arrived_ms, second.arrived_ms)
}
