//! The history checker: judges every answer that a client was given against the upstream's own file.
//!
//! It is pure (texts in, a verdict out), shares no code with the product and assumes nothing about how the product works: it
//! knows no epochs, leases or states. What it takes for granted is listed in `rules.rs`. It reads recorded histories, too:
//! `chaos check --history FILE --books FILE [--ledger LISTING.json]`.

mod books;
mod command;
mod grants;
mod history;
mod ledger;
mod overlap;
mod rules;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, fmt};

pub use command::run;

/// What is wrong with an answer, or with what happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lie {
    /// One key had more than one effect.
    EffectsMoreThanOne,
    /// A client was told success, and the upstream's file has no effect of the call that began before the answer ended.
    DoneWithoutEffect,
    /// A client was told success, and a later answer for the same key says something else.
    DoneThenOther,
    /// A client was told success, and the gateway's own listing has another state.
    DoneAndListedOtherwise,
    /// One key was answered with two different results, or two payloads of one key both succeeded.
    TwoResults,
    /// A client was told "nothing was sent" about a key whose effect happened.
    ClaimsLess,
    /// A client was told "it happened", and it had not.
    ClaimsMore,
    /// A duplicate was told "unknown" while a live gateway held the call and then answered it.
    FalseUnknown,
    /// Two calls that change the same account were at the upstream at once.
    Overlap,
    /// The gateway's listing does not agree with the upstream's file.
    ListingDisagrees,
    /// More calls were performed under a grant than people allowed, or one that the grant does not cover.
    MoreThanGranted,
    /// A call under a grant was performed, or a client was told so, and no use of the grant was written.
    NotDrawn,
    /// A use of a grant was written twice, or for no call of the grant.
    DrawDisagrees,
    /// A call was performed under a grant, or a use was written, after a person had taken the grant back.
    DrawnAfterRevocation,
    /// A call that no use was written for was told something else than that it waits for people.
    NotHeld,
    /// The upstream's file names no attempts, so it is impossible to tell which attempt sent what.
    NotTold,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub lie: Lie,
    pub key: String,
    pub words: String,
}

/// Figures that are counted and are not findings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    pub keys: usize,
    pub answers: usize,
    pub done: usize,
    pub unknown: usize,
    /// Keys that were reported unknown and had happened.
    pub unknown_happened: usize,
    pub unknown_before: usize,
    /// "Under way" answers whose effect word is `none` although the effect had begun.
    pub conflicts_that_say_none: usize,
    pub grants: usize,
    /// Uses of grants that were written, and effects under grants.
    pub draws: usize,
    pub granted_effects: usize,
}

/// What the gateway lists when nothing is running any more, as its commands print it; each is judged if it is given.
#[derive(Debug, Clone, Copy, Default)]
pub struct Listings<'a> {
    /// `servanda effects --json`
    pub effects: Option<&'a str>,
    /// The uses of grants, by ticket: what `servanda grants show --json` prints as `draws`, and what it printed when a person had just
    /// taken the grant back.
    pub grants: Option<&'a str>,
}

/// What the checker found.
#[derive(Debug, Clone, Default)]
pub struct Verdict {
    pub counts: Counts,
    pub findings: Vec<Finding>,
}

/// Judges a history by the upstreams' files and, if given, by the gateway's listings.
pub fn check(history: &str, books: &[&str], listings: Listings<'_>) -> Result<Verdict, String> {
    let history = history::History::read(history)?;
    let books = books::Books::read(books)?;
    let mut verdict = Verdict::default();
    let keys = history.by_key();
    verdict.counts.keys = keys.len();
    for (key, answers) in &keys {
        rules::judge(key, answers, &history, &books, &mut verdict);
    }
    if !books.names_attempts() {
        let words = "no call names the attempt that caused it (`_meta[\"chaos/attempt\"]`), so that false unknowns cannot be found";
        verdict.found(Lie::NotTold, "all", words);
    }
    overlap::judge(&history, &books, &mut verdict);
    let listing = listings.effects.map(ledger::read).transpose()?;
    if let Some(listing) = &listing {
        ledger::judge(&keys, listing, &books, &mut verdict);
    }
    let drawn = listings.grants.map(grants::read).transpose()?;
    for grant in &history.grants {
        grants::judge(grant, &keys, (&books, listing.as_ref(), drawn.as_ref()), &mut verdict);
    }
    Ok(verdict)
}

impl Verdict {
    fn found(&mut self, lie: Lie, key: &str, words: impl Into<String>) {
        self.findings.push(Finding { lie, key: key.to_owned(), words: words.into() });
    }

    /// How many findings there are of these kinds.
    pub fn count(&self, lies: &[Lie]) -> usize {
        self.findings.iter().filter(|finding| lies.contains(&finding.lie)).count()
    }

    /// How many keys were acknowledged and then lost in any way.
    pub fn lost(&self) -> usize {
        let lost = [Lie::DoneWithoutEffect, Lie::DoneThenOther, Lie::DoneAndListedOtherwise];
        let keys = self.findings.iter().filter(|finding| lost.contains(&finding.lie)).map(|finding| &finding.key);
        keys.collect::<std::collections::BTreeSet<_>>().len()
    }

    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }

    /// Some findings of every kind, so that a kind with many does not hide the others.
    pub fn examples(&self, each_max: usize) -> Vec<&Finding> {
        let mut shown = BTreeMap::<Lie, usize>::new();
        self.findings
            .iter()
            .filter(|finding| {
                let count = shown.entry(finding.lie).or_default();
                *count += 1;
                *count <= each_max
            })
            .collect()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { keys, answers, done, unknown, unknown_happened, unknown_before, .. } = &self.counts;
        let Counts { conflicts_that_say_none, grants, draws, granted_effects, .. } = &self.counts;
        write!(
            formatter,
            "{answers} answers of {keys} keys, {done} done | effects > 1: {} | acknowledged and lost: {} | claim less than \
             happened: {} | false unknowns of live calls: {} | claim more: {} | two results: {} | two at once on an \
             account: {} | listing disagrees: {} | unknown: {unknown} ({unknown_happened} had happened), unknown_before: \
             {unknown_before}, under way and worded `none`: {conflicts_that_say_none}",
            self.count(&[Lie::EffectsMoreThanOne]),
            self.lost(),
            self.count(&[Lie::ClaimsLess]),
            self.count(&[Lie::FalseUnknown]),
            self.count(&[Lie::ClaimsMore]),
            self.count(&[Lie::TwoResults]),
            self.count(&[Lie::Overlap]),
            self.count(&[Lie::ListingDisagrees]),
        )?;
        if *grants == 0 {
            return Ok(());
        }
        write!(
            formatter,
            " | {grants} grants, drawn on {draws} times, {granted_effects} effects under them: more than granted: {} | not drawn: {} | \
             draw disagrees: {} | after revocation: {} | not held: {}",
            self.count(&[Lie::MoreThanGranted]),
            self.count(&[Lie::NotDrawn]),
            self.count(&[Lie::DrawDisagrees]),
            self.count(&[Lie::DrawnAfterRevocation]),
            self.count(&[Lie::NotHeld]),
        )
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lie = match self.lie {
            Lie::EffectsMoreThanOne => "more than one effect",
            Lie::DoneWithoutEffect => "told done without an effect",
            Lie::DoneThenOther => "told done, then something else",
            Lie::DoneAndListedOtherwise => "told done, and listed otherwise",
            Lie::TwoResults => "two results",
            Lie::ClaimsLess => "claims less than happened",
            Lie::ClaimsMore => "claims more than happened",
            Lie::FalseUnknown => "false unknown of a live call",
            Lie::Overlap => "two at once on an account",
            Lie::ListingDisagrees => "the listing disagrees",
            Lie::MoreThanGranted => "more than granted",
            Lie::NotDrawn => "performed under a grant without a use of it",
            Lie::DrawDisagrees => "a use of a grant for no call of it",
            Lie::DrawnAfterRevocation => "after the grant was taken back",
            Lie::NotHeld => "beyond the grant and not held",
            Lie::NotTold => "not judged",
        };
        write!(formatter, "{lie}: {}: {}", self.key, self.words)
    }
}
