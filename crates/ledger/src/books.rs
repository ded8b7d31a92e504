//! The books of budgets, for every store alike: their stored shape, and a page of them that entries are made on inside a
//! transaction. Reading checks that columns and body say the same.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use servanda_contract::Digest;
use servanda_effects::{
    budget::{Account, Before, Booked, ClosedBy, Entry, Hold, HoldId, Standing, Step, Swept, Verdict, step, verdict},
    effect::EffectState,
};

use crate::{LedgerError, codec::signed};

/// A hold as columns.
#[derive(Debug)]
pub(crate) struct HoldRow<'a> {
    pub(crate) hold_id: &'a str,
    pub(crate) kind: &'static str,
    pub(crate) effect_id: Option<&'a str>,
    pub(crate) stage: &'static str,
    pub(crate) opened_ms: i64,
    pub(crate) expires_ms: Option<i64>,
    pub(crate) body: String,
}

/// A standing as columns.
#[derive(Debug)]
pub(crate) struct StandingRow<'a> {
    pub(crate) account: Digest,
    pub(crate) tenant: &'a str,
    pub(crate) changed_ms: i64,
    pub(crate) expires_ms: Option<i64>,
    pub(crate) body: String,
}

/// What was read of the books, and what came of the entries that were made on it.
#[derive(Debug, Default)]
pub(crate) struct Page {
    holds: BTreeMap<HoldId, Hold>,
    standings: BTreeMap<Digest, Standing>,
    changed_holds: BTreeSet<HoldId>,
    changed_standings: BTreeSet<Digest>,
}

impl Page {
    /// Adds what was read.
    pub(crate) fn read_hold(&mut self, hold: Hold) {
        self.holds.insert(hold.id.clone(), hold);
    }

    /// Adds what was read.
    pub(crate) fn read_standing(&mut self, standing: Standing) {
        self.standings.insert(standing.account.digest(), standing);
    }

    /// The accounts that an entry is about.
    pub(crate) fn accounts<'a>(&'a self, entry: &'a Entry) -> Vec<&'a Account> {
        entry.accounts(self.holds.get(entry.id()))
    }

    /// Makes an entry; entries made later see it.
    pub(crate) fn book(&mut self, entry: &Entry, now_ms: u64) -> Booked {
        let before = Before { hold: self.holds.get(entry.id()), standings: &self.standings };
        let Step { hold, standings, reply } = step(before, entry, now_ms);
        if let Some(hold) = hold {
            self.changed_holds.insert(hold.id.clone());
            self.holds.insert(hold.id.clone(), hold);
        }
        for standing in standings {
            let digest = standing.account.digest();
            self.changed_standings.insert(digest);
            self.standings.insert(digest, standing);
        }
        reply
    }

    /// The holds to write.
    pub(crate) fn changed_holds(&self) -> Result<Vec<HoldRow<'_>>, LedgerError> {
        self.changed_holds.iter().filter_map(|id| self.holds.get(id)).map(HoldRow::of).collect()
    }

    /// The standings to write.
    pub(crate) fn changed_standings(&self) -> Result<Vec<StandingRow<'_>>, LedgerError> {
        self.changed_standings.iter().filter_map(|digest| self.standings.get(digest)).map(StandingRow::of).collect()
    }
}

impl<'a> HoldRow<'a> {
    pub(crate) fn of(hold: &'a Hold) -> Result<Self, LedgerError> {
        Ok(Self {
            hold_id: hold.id.as_str(),
            kind: hold.kind.name(),
            effect_id: hold.effect.as_ref().map(servanda_effects::effect::EffectId::as_str),
            stage: hold.stage.name(),
            opened_ms: signed(hold.opened_ms),
            expires_ms: hold.expires_ms().map(signed),
            body: serde_json::to_string(hold).map_err(|error| unreadable(hold.id.as_str(), error.to_string()))?,
        })
    }
}

impl<'a> StandingRow<'a> {
    pub(crate) fn of(standing: &'a Standing) -> Result<Self, LedgerError> {
        let account = standing.account.digest();
        Ok(Self {
            account,
            tenant: standing.account.scope.tenant(),
            changed_ms: signed(standing.changed_ms),
            expires_ms: standing.expires_ms().map(signed),
            body: serde_json::to_string(standing).map_err(|error| unreadable(&account.short(), error.to_string()))?,
        })
    }
}

/// A hold from its columns.
pub(crate) fn decode_hold(hold_id: &str, stage: &str, body: &str) -> Result<Hold, LedgerError> {
    let hold: Hold = serde_json::from_str(body).map_err(|error| unreadable(hold_id, error.to_string()))?;
    if (hold.id.as_str(), hold.stage.name()) == (hold_id, stage) { Ok(hold) } else { Err(contradicts(hold_id)) }
}

/// What a sweep found: a reservation, what the effect is like that it is for, and which others have reserved for it.
#[derive(Debug)]
pub(crate) struct LeftRow {
    pub(crate) hold_id: String,
    pub(crate) stage: String,
    pub(crate) body: String,
    pub(crate) effect_state: Option<String>,
    pub(crate) effect_body: Option<String>,
    /// Their ids, with blanks in between.
    pub(crate) others: Option<String>,
}

impl LeftRow {
    /// The reservation, and the entry that closes it, if something can be said. What cannot be read is left as it is: it must not
    /// keep everybody else's from being looked after.
    pub(crate) fn judge(&self, now_ms: u64) -> Option<(Hold, Option<Entry>)> {
        let read = decode_hold(&self.hold_id, &self.stage, &self.body);
        let hold = read.inspect_err(|error| tracing::error!(%error, "a reservation cannot be read")).ok()?;
        let effect = self.effect_state.as_deref().and_then(EffectState::from_name);
        let (id, by) = (hold.id.clone(), ClosedBy::Sweep);
        let entry = match verdict(&hold, effect, self.is_superseded(), now_ms) {
            Verdict::Settle => Some(Entry::Settle { id, cost_micros: None, by }),
            Verdict::Refund => Some(Entry::Refund { id, by }),
            Verdict::Wait => None,
        };
        Some((hold, entry))
    }

    /// Whether the effect is another call's by now that has reserved for it. Who reserved last says nothing: it may have been too
    /// late for the effect.
    fn is_superseded(&self) -> bool {
        #[derive(Deserialize)]
        struct Present {
            call_id: String,
        }
        let (Some(body), Some(others)) = (&self.effect_body, &self.others) else { return false };
        let present = serde_json::from_str::<Present>(body);
        present.is_ok_and(|present| others.split(' ').any(|other| other == present.call_id))
    }
}

/// Counts what a sweep does.
pub(crate) const fn count(swept: &mut Swept, entry: &Entry) {
    match entry {
        Entry::Settle { .. } => swept.settled += 1,
        Entry::Refund { .. } => swept.refunded += 1,
        Entry::Reserve(_) | Entry::Lease(_) | Entry::GiveBack(_) => {}
    }
}

/// A standing from its columns.
pub(crate) fn decode_standing(account: &[u8], body: &str) -> Result<Standing, LedgerError> {
    let key = || servanda_contract::digest::hex(account);
    let standing: Standing = serde_json::from_str(body).map_err(|error| unreadable(&key(), error.to_string()))?;
    if standing.account.digest().as_bytes() == account { Ok(standing) } else { Err(contradicts(&key())) }
}

fn contradicts(key: &str) -> LedgerError {
    unreadable(key, "its columns and its body disagree".to_owned())
}

fn unreadable(key: &str, reason: String) -> LedgerError {
    LedgerError::Books { key: key.to_owned(), reason }
}
