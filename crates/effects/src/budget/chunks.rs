//! Units that this process hands out by itself, so that counting a read or a write costs no commit. They are
//! leased from the store in chunks, and given back when the window is over or the process ends. Pure; the
//! caller talks to the store.
//!
//! The bound: all processes together never hand out more than the limit, because every unit was leased first.
//! They may hand out less: a process that dies takes at most one chunk of each account with it
//! ([`chunk_size`]), so that up to (processes that died) x (chunk) units stay unused until the window is over,
//! and for good if an account never renews. A unit belongs to the window it was leased in, which lasts as long
//! as the store said when it granted the lease: the last units of a window may be used later than its end, by
//! as long as the store's answer took.

use std::collections::BTreeMap;

use servanda_contract::Digest;

use super::{AccountEntry, BudgetHoldId, ChunkLease, Draw, EntryReply, ExhaustedAccount};

/// A limit is divided into this many chunks, if it is large enough.
const CHUNKS_PER_LIMIT: u64 = 64;
/// The most units of a chunk: what a crash may cost.
const CHUNK_MAX: u64 = 1_024;
/// The most accounts to hold units of. Beyond it nothing is handed out, and calls have to reserve in the store.
const ACCOUNTS_MAX: usize = 16_384;
/// How long an account is assumed to be exhausted after the store said so: other processes may give units back.
const EXHAUSTED_MS: u64 = 1_000;

/// How long unused units are held.
const IDLE_MS: u64 = 10 * 60 * 1000;

/// Units leased from accounts.
#[derive(Debug, Default)]
pub struct Chunks {
    accounts: BTreeMap<ChunkKey, ChunkState>,
}

/// An account, and the limit of the calls that draw on it. Callers with a lower limit on the same account do
/// not get units that were leased under a higher one, and do not make the account look exhausted to others.
type ChunkKey = (Digest, u64);

/// What this process holds of one account.
#[derive(Debug, Clone)]
enum ChunkState {
    /// The caller is asking the store.
    Asking(ChunkLease),
    /// The store was asked, and it is unknown what it did: the same lease is asked for again.
    InDoubt(ChunkLease),
    /// Leased units.
    Units(LeasedUnits),
    /// The store said that there are none; believed until this time.
    Exhausted(ExhaustedAccount, u64),
}

#[derive(Debug, Clone)]
struct LeasedUnits {
    lease: BudgetHoldId,
    until_ms: Option<u64>,
    left: u64,
    used_ms: u64,
}

/// The result of asking for units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TakeOutcome {
    /// There was a unit of every account.
    Taken(UnitTicket),
    /// First make these entries, pass each reply to [`Chunks::record_reply`], and ask again.
    First(Vec<AccountEntry>),
    /// Another call is asking the store about the same account; ask again when the store has answered.
    Wait,
    /// One of the accounts has nothing left.
    Exhausted(ExhaustedAccount),
    /// Too many accounts to hold units of: reserve in the store.
    Full,
}

/// The units that a call was given, to put them back if the call was never made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnitTicket {
    units: Vec<(ChunkKey, BudgetHoldId)>,
}

/// The unused rest of a lease that is given back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseReturn {
    /// Which lease.
    pub id: BudgetHoldId,
    /// How many of its units were not used.
    pub unused: u64,
}

/// How many units are leased at once.
pub fn chunk_size(limit: u64) -> u64 {
    (limit / CHUNKS_PER_LIMIT).clamp(1, CHUNK_MAX)
}

impl Chunks {
    /// Takes one unit of every account, or none at all.
    pub fn take(&mut self, draws: &[Draw], now_ms: u64) -> TakeOutcome {
        let draws: BTreeMap<ChunkKey, &Draw> =
            draws.iter().map(|draw| ((draw.account.digest(), draw.limit), draw)).collect();
        // Checked before anything is marked as asked: if the entries were not returned, no caller would record
        // a reply to them.
        let exhausted = |key| match self.accounts.get(key) {
            Some(ChunkState::Exhausted(exhausted, until_ms)) if now_ms < *until_ms => Some(exhausted.clone()),
            _ => None,
        };
        if let Some(exhausted) = draws.keys().find_map(exhausted) {
            return TakeOutcome::Exhausted(exhausted);
        }
        let new_count = draws.keys().filter(|key| !self.accounts.contains_key(key)).count();
        if self.accounts.len() + new_count > ACCOUNTS_MAX {
            return TakeOutcome::Full;
        }
        let entries: Vec<AccountEntry> = draws.iter().flat_map(|(key, draw)| self.fill(key, draw, now_ms)).collect();
        if !entries.is_empty() {
            return TakeOutcome::First(entries);
        }
        if draws.keys().any(|key| matches!(self.accounts.get(key), Some(ChunkState::Asking(_)))) {
            return TakeOutcome::Wait;
        }
        let taken = draws.keys().filter_map(|key| Some((*key, self.take_one(key, now_ms)?)));
        TakeOutcome::Taken(UnitTicket { units: taken.collect() })
    }

    /// How many units of an account this process holds and has not handed out.
    pub fn held(&self, draw: &Draw, now_ms: u64) -> u64 {
        match self.accounts.get(&(draw.account.digest(), draw.limit)) {
            Some(ChunkState::Units(units)) if !units.is_over(now_ms) => units.left,
            _ => 0,
        }
    }

    /// Records the reply to an entry that was made for [`TakeOutcome::First`]; none after an error, and then
    /// the next call makes the same entry again.
    pub fn record_reply(&mut self, entry: &AccountEntry, booked: Option<&EntryReply>, now_ms: u64) {
        let AccountEntry::Lease(lease) = entry else { return };
        let key = (lease.account.digest(), lease.limit);
        let is_asked = matches!(self.accounts.get(&key), Some(ChunkState::Asking(asked)) if asked.id == lease.id);
        if !is_asked {
            return;
        }
        match booked {
            Some(EntryReply::Leased { granted, lasts_ms }) => {
                let (lease, until_ms) = (lease.id.clone(), lasts_ms.map(|lasts_ms| now_ms.saturating_add(lasts_ms)));
                let units = LeasedUnits { lease, until_ms, left: *granted, used_ms: now_ms };
                self.accounts.insert(key, ChunkState::Units(units));
            }
            Some(EntryReply::Exhausted(exhausted)) => {
                let until_ms = now_ms.saturating_add(EXHAUSTED_MS);
                self.accounts.insert(key, ChunkState::Exhausted(exhausted.clone(), until_ms));
            }
            Some(_) => drop(self.accounts.remove(&key)),
            None => drop(self.accounts.insert(key, ChunkState::InDoubt(lease.clone()))),
        }
    }

    /// Puts the units of a call that was never made back for others, unless they were given back in the
    /// meantime.
    pub fn put_back(&mut self, ticket: UnitTicket) {
        for (key, lease) in ticket.units {
            if let Some(ChunkState::Units(units)) = self.accounts.get_mut(&key)
                && units.lease == lease
            {
                units.left = units.left.saturating_add(1);
            }
        }
    }

    /// Entries that give units back because their window is over, or because no call has used them for a while.
    pub fn take_expired(&mut self, now_ms: u64) -> Vec<AccountEntry> {
        let mut entries = Vec::new();
        self.accounts.retain(|_, holding| match holding {
            ChunkState::Asking(_) | ChunkState::InDoubt(_) => true,
            ChunkState::Exhausted(_, until_ms) => now_ms < *until_ms,
            ChunkState::Units(units) => {
                let goes = units.is_over(now_ms) || now_ms.saturating_sub(units.used_ms) >= IDLE_MS;
                entries.extend(goes.then(|| units.give_back()));
                !goes
            }
        });
        entries
    }

    /// Entries that give everything back when the process ends. If a lease was not answered, none of its units
    /// was used.
    pub fn close(&mut self) -> Vec<AccountEntry> {
        let given_back = |holding| match holding {
            ChunkState::Units(units) => Some(units.give_back()),
            ChunkState::Asking(lease) | ChunkState::InDoubt(lease) => {
                Some(AccountEntry::ReturnLease(LeaseReturn { unused: lease.wanted, id: lease.id }))
            }
            ChunkState::Exhausted(..) => None,
        };
        std::mem::take(&mut self.accounts).into_values().filter_map(given_back).collect()
    }

    /// Entries that are needed before there is a unit of an account.
    fn fill(&mut self, key: &ChunkKey, draw: &Draw, now_ms: u64) -> Vec<AccountEntry> {
        let mut entries = Vec::new();
        match self.accounts.get(key) {
            Some(ChunkState::Asking(_)) => return entries,
            Some(ChunkState::InDoubt(lease)) => {
                let lease = lease.clone();
                self.accounts.insert(*key, ChunkState::Asking(lease.clone()));
                return vec![AccountEntry::Lease(lease)];
            }
            Some(ChunkState::Units(units)) if units.left > 0 && !units.is_over(now_ms) => return entries,
            Some(ChunkState::Units(units)) => entries.push(units.give_back()),
            Some(ChunkState::Exhausted(..)) | None => {}
        }
        let (account, limit) = (draw.account.clone(), draw.limit);
        let lease = ChunkLease { id: BudgetHoldId::new_lease(), account, limit, wanted: chunk_size(limit) };
        self.accounts.insert(*key, ChunkState::Asking(lease.clone()));
        entries.push(AccountEntry::Lease(lease));
        entries
    }

    fn take_one(&mut self, key: &ChunkKey, now_ms: u64) -> Option<BudgetHoldId> {
        let Some(ChunkState::Units(units)) = self.accounts.get_mut(key) else { return None };
        units.left = units.left.checked_sub(1)?;
        units.used_ms = now_ms;
        Some(units.lease.clone())
    }
}

impl LeasedUnits {
    fn is_over(&self, now_ms: u64) -> bool {
        self.until_ms.is_some_and(|until_ms| until_ms <= now_ms)
    }

    fn give_back(&self) -> AccountEntry {
        AccountEntry::ReturnLease(LeaseReturn { id: self.lease.clone(), unused: self.left })
    }
}
