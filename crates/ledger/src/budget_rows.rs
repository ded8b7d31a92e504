//! The stored form of budgets, the same for every store: holds and balances as columns, and a page of them on
//! which a transaction makes entries. Reading checks that columns and body agree.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use servanda_contract::Digest;
use servanda_effects::{
    budget::{
        Account, AccountBalance, AccountEntry, BudgetHold, BudgetHoldId, BudgetSnapshot, BudgetTransition, ClosedBy,
        EntryReply, SweepDecision, SweepReport, step, sweep_decision,
    },
    effect::EffectState,
};

use crate::{LedgerError, codec::signed};

/// A hold as columns.
#[derive(Debug)]
pub(crate) struct BudgetHoldRow<'a> {
    pub(crate) hold_id: &'a str,
    pub(crate) kind: &'static str,
    pub(crate) effect_id: Option<&'a str>,
    pub(crate) stage: &'static str,
    pub(crate) opened_ms: i64,
    pub(crate) expires_ms: Option<i64>,
    pub(crate) body: String,
}

/// A balance as columns.
#[derive(Debug)]
pub(crate) struct BalanceRow<'a> {
    pub(crate) account: Digest,
    pub(crate) tenant: &'a str,
    pub(crate) changed_ms: i64,
    pub(crate) expires_ms: Option<i64>,
    pub(crate) body: String,
}

/// The holds and balances that were read, and what the entries made of them.
#[derive(Debug, Default)]
pub(crate) struct BudgetPage {
    holds: BTreeMap<BudgetHoldId, BudgetHold>,
    balances: BTreeMap<Digest, AccountBalance>,
    changed_holds: BTreeSet<BudgetHoldId>,
    changed_balances: BTreeSet<Digest>,
    /// The holds as the entries left them, one after the other.
    hold_changes: Vec<BudgetHold>,
}

impl BudgetPage {
    /// Adds a hold that was read.
    pub(crate) fn read_hold(&mut self, hold: BudgetHold) {
        self.holds.insert(hold.id.clone(), hold);
    }

    /// Adds a balance that was read.
    pub(crate) fn read_balance(&mut self, standing: AccountBalance) {
        self.balances.insert(standing.account.digest(), standing);
    }

    /// The accounts that an entry changes.
    pub(crate) fn accounts<'a>(&'a self, entry: &'a AccountEntry) -> Vec<&'a Account> {
        entry.accounts(self.holds.get(entry.id()))
    }

    /// Makes an entry. Entries made later see it.
    pub(crate) fn apply_entry(&mut self, entry: &AccountEntry, now_ms: u64) -> EntryReply {
        let before = BudgetSnapshot { hold: self.holds.get(entry.id()), balances: &self.balances };
        let BudgetTransition { hold, balances: standings, reply } = step(before, entry, now_ms);
        if let Some(hold) = hold {
            self.changed_holds.insert(hold.id.clone());
            self.hold_changes.push(hold.clone());
            self.holds.insert(hold.id.clone(), hold);
        }
        for standing in standings {
            let digest = standing.account.digest();
            self.changed_balances.insert(digest);
            self.balances.insert(digest, standing);
        }
        reply
    }

    /// What became of holds, in its order.
    pub(crate) fn hold_changes(&self) -> &[BudgetHold] {
        &self.hold_changes
    }

    /// The holds to write.
    pub(crate) fn changed_holds(&self) -> Result<Vec<BudgetHoldRow<'_>>, LedgerError> {
        self.changed_holds.iter().filter_map(|id| self.holds.get(id)).map(BudgetHoldRow::new).collect()
    }

    /// The balances to write.
    pub(crate) fn changed_balances(&self) -> Result<Vec<BalanceRow<'_>>, LedgerError> {
        self.changed_balances.iter().filter_map(|digest| self.balances.get(digest)).map(BalanceRow::new).collect()
    }
}

impl<'a> BudgetHoldRow<'a> {
    pub(crate) fn new(hold: &'a BudgetHold) -> Result<Self, LedgerError> {
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

impl<'a> BalanceRow<'a> {
    pub(crate) fn new(standing: &'a AccountBalance) -> Result<Self, LedgerError> {
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
pub(crate) fn decode_hold(hold_id: &str, stage: &str, body: &str) -> Result<BudgetHold, LedgerError> {
    let hold: BudgetHold = serde_json::from_str(body).map_err(|error| unreadable(hold_id, error.to_string()))?;
    if (hold.id.as_str(), hold.stage.name()) == (hold_id, stage) { Ok(hold) } else { Err(contradicts(hold_id)) }
}

/// A reservation that a sweep found, the state of its effect, and the other calls that have reserved for that
/// effect.
#[derive(Debug)]
pub(crate) struct AbandonedHoldRow {
    pub(crate) hold_id: String,
    pub(crate) stage: String,
    pub(crate) body: String,
    pub(crate) effect_state: Option<String>,
    pub(crate) effect_body: Option<String>,
    /// The ids of those other calls, separated by blanks.
    pub(crate) others: Option<String>,
}

impl AbandonedHoldRow {
    /// Returns the reservation, and the entry that closes it if it can be closed. A reservation that cannot be
    /// read is skipped, so that it does not keep the sweep from closing the others.
    pub(crate) fn judge(&self, now_ms: u64) -> Option<(BudgetHold, Option<AccountEntry>)> {
        let read = decode_hold(&self.hold_id, &self.stage, &self.body);
        let hold = read.inspect_err(|error| tracing::error!(%error, "a reservation cannot be read")).ok()?;
        let effect = self.effect_state.as_deref().and_then(EffectState::from_name);
        let (id, by) = (hold.id.clone(), ClosedBy::Sweep);
        let entry = match sweep_decision(&hold, effect, self.is_superseded(), now_ms) {
            SweepDecision::Settle => Some(AccountEntry::Settle { id, cost_micros: None, by }),
            SweepDecision::Refund => Some(AccountEntry::Refund { id, by }),
            SweepDecision::Wait => None,
        };
        Some((hold, entry))
    }

    /// Whether another call that has reserved for the effect owns it by now. The order of the reservations
    /// proves nothing: the call that reserved last may have been too late for the effect.
    fn is_superseded(&self) -> bool {
        #[derive(Deserialize)]
        struct EffectOwnerCall {
            call_id: String,
        }
        let (Some(body), Some(others)) = (&self.effect_body, &self.others) else { return false };
        let present = serde_json::from_str::<EffectOwnerCall>(body);
        present.is_ok_and(|present| others.split(' ').any(|other| other == present.call_id))
    }
}

/// Counts what a sweep does.
pub(crate) const fn count_swept(swept: &mut SweepReport, entry: &AccountEntry) {
    match entry {
        AccountEntry::Settle { .. } => swept.settled += 1,
        AccountEntry::Refund { .. } => swept.refunded += 1,
        AccountEntry::Reserve(_) | AccountEntry::Lease(_) | AccountEntry::ReturnLease(_) => {}
    }
}

/// A balance from its columns.
pub(crate) fn decode_balance(account: &[u8], body: &str) -> Result<AccountBalance, LedgerError> {
    let key = || servanda_contract::digest::hex(account);
    let standing: AccountBalance = serde_json::from_str(body).map_err(|error| unreadable(&key(), error.to_string()))?;
    if standing.account.digest().as_bytes() == account { Ok(standing) } else { Err(contradicts(&key())) }
}

fn contradicts(key: &str) -> LedgerError {
    unreadable(key, "its columns and its body disagree".to_owned())
}

fn unreadable(key: &str, reason: String) -> LedgerError {
    LedgerError::Books { key: key.to_owned(), reason }
}
