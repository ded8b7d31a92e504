//! Grants: what people allowed to be done without being asked again, judged by the upstream's own file, by every answer, and by what the
//! gateway lists as uses. The rules, for the calls below a grant's folder, without the one that people approved:
//!
//! 1. At most as many effects as people allowed, and at most as many uses; none of a call beyond the bounds.
//! 2. Every effect, and every answer *done*, has a use of its own; every use is for one call of the grant.
//! 3. A call that began when the grant was taken back has no effect and no use, and no use is written from then on.
//! 4. A call without a use is never told that its end is unknown, and is told at last that it waits for people, with a ticket.
//!
//! Taken for granted: every key is asked for until its answer is final; the grant's line in the history is written before its first call.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{
    Lie, Verdict,
    books::Books,
    history::{Grant, Told},
    ledger::Listing,
};

#[cfg(test)]
mod tests;

/// The uses of one grant: the ids of the effects that were drawn for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Drawn {
    draws: Vec<String>,
    /// Those that were listed when the grant had just been taken back.
    at_revocation: Option<BTreeSet<String>>,
}

/// The calls of one key under a grant.
struct GrantedKey<'a> {
    key: &'a str,
    answers: &'a [&'a Told],
    /// The number of its effects, by the upstream's file.
    effects: usize,
    /// Whether a use was written for it; none if the uses are not listed.
    is_drawn: Option<bool>,
}

/// Reads the uses: a list with `ticket`, `draws` and, if it was taken back, `draws_at_revocation`.
pub fn read(text: &str) -> Result<BTreeMap<String, Drawn>, String> {
    let listing: Value = serde_json::from_str(text).map_err(|error| format!("the uses of grants: {error}"))?;
    let rows = listing.as_array().ok_or("the uses of grants are no list")?;
    let ids = |draws: &Value| {
        let draws = draws.as_array()?;
        Some(draws.iter().map(|draw| draw["effect_id"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>())
    };
    let drawn = |row: &Value| {
        let at_revocation = ids(&row["draws_at_revocation"]).map(|ids| ids.into_iter().collect());
        let drawn = Drawn { draws: ids(&row["draws"])?, at_revocation };
        Some((row["ticket"].as_str()?.to_owned(), drawn))
    };
    rows.iter().map(|row| drawn(row).ok_or_else(|| format!("not the uses of a grant: {row}"))).collect()
}

/// Judges one grant. Uses are judged if they and the effects are listed.
pub fn judge(
    grant: &Grant,
    keys: &BTreeMap<&str, Vec<&Told>>,
    (books, listing, drawn): (&Books, Option<&Listing>, Option<&BTreeMap<String, Drawn>>),
    verdict: &mut Verdict,
) {
    let drawn = listing.zip(drawn.and_then(|drawn| drawn.get(&grant.ticket)));
    let keys: Vec<GrantedKey<'_>> = keys
        .iter()
        .filter_map(|(key, answers)| {
            let business = &answers.first().filter(|told| is_of(grant, &told.business))?.business;
            let is_drawn =
                drawn.map(|(listing, drawn)| listing.get(*key).is_some_and(|listed| drawn.draws.contains(&listed.id)));
            Some(GrantedKey { key, answers, effects: books.effects(business), is_drawn })
        })
        .collect();
    judge_count(grant, books, verdict);
    if let Some((listing, drawn)) = drawn {
        judge_draws(grant, &keys, (listing, drawn), verdict);
    }
    for key in &keys {
        judge_key(grant, key, verdict);
    }
    verdict.counts.grants += 1;
}

fn is_of(grant: &Grant, business: &str) -> bool {
    business.starts_with(&grant.folder) && business != grant.first
}

fn judge_count(grant: &Grant, books: &Books, verdict: &mut Verdict) {
    let businesses = books.businesses().filter(|business| is_of(grant, business));
    let effects: usize = businesses.map(|business| books.effects(business)).sum();
    verdict.counts.granted_effects += effects;
    if effects > grant.uses {
        let words = format!("{effects} effects, and people allowed {}", grant.uses);
        verdict.found(Lie::MoreThanGranted, &grant.ticket, words);
    }
}

fn judge_draws(grant: &Grant, keys: &[GrantedKey<'_>], (listing, drawn): (&Listing, &Drawn), verdict: &mut Verdict) {
    verdict.counts.draws += drawn.draws.len();
    if drawn.draws.len() > grant.uses {
        let words = format!("{} uses are listed, and people allowed {}", drawn.draws.len(), grant.uses);
        verdict.found(Lie::MoreThanGranted, &grant.ticket, words);
    }
    let of_grant: BTreeSet<&str> = keys.iter().filter_map(|key| Some(&*listing.get(key.key)?.id)).collect();
    let mut seen = BTreeSet::new();
    for draw in &drawn.draws {
        let is_second = !seen.insert(draw);
        if is_second || !of_grant.contains(&**draw) {
            let words = if is_second { "is drawn for twice" } else { "is of no call of the grant" };
            verdict.found(Lie::DrawDisagrees, &grant.ticket, format!("the effect {draw} {words}"));
        }
        if drawn.at_revocation.as_ref().is_some_and(|before| !before.contains(draw)) {
            let words = format!("the use for the effect {draw} was not listed when the grant had been taken back");
            verdict.found(Lie::DrawnAfterRevocation, &grant.ticket, words);
        }
    }
}

fn judge_key(grant: &Grant, key: &GrantedKey<'_>, verdict: &mut Verdict) {
    let GrantedKey { key, answers, effects, is_drawn } = *key;
    let is_done = answers.iter().find(|told| told.is_done());
    let began_ms = answers.iter().map(|told| told.began_ms).min().unwrap_or(0);
    if let Some(revoked_ms) = grant.revoked_ms.filter(|revoked_ms| *revoked_ms <= began_ms)
        && (effects > 0 || is_drawn == Some(true))
    {
        let words = format!("it began at {began_ms} ms, and the grant was taken back by {revoked_ms} ms");
        verdict.found(Lie::DrawnAfterRevocation, key, words);
    }
    if let Some(beyond) = answers.iter().find(|told| told.payload > grant.payload_max)
        && (effects > 0 || is_drawn == Some(true))
    {
        verdict.found(Lie::MoreThanGranted, key, format!("{} is beyond {}", beyond.payload, grant.payload_max));
    }
    if is_drawn != Some(false) {
        return;
    }
    if effects > 0 || is_done.is_some() {
        let told = is_done.map_or_else(String::new, |told| told.short());
        verdict.found(Lie::NotDrawn, key, format!("{effects} effects; {told}"));
        return;
    }
    // Whether the store has taken a call of class K is not known when it does not confirm in time; such a call may be sent later.
    let is_unconfirmed =
        |told: &Told| told.class == "k" && told.gate == "fence" && told.code == "DEPENDENCY_UNAVAILABLE";
    let is_unknown = |told: &Told| told.says_unknown() && !is_unconfirmed(told);
    let claims_more = answers.iter().find(|told| is_unknown(told) || told.is_refused() && told.effect == "happened");
    let last = answers.last().filter(|told| !told.is_held());
    if let Some(told) = claims_more.or(last) {
        verdict.found(Lie::NotHeld, key, told.short());
    }
}
