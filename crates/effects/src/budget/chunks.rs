//! Units that this process hands out by itself, so that counting a read or a write costs no commit: leased from the store in
//! chunks, given back when the window is over or the process ends. Pure; whoever holds it asks the store.
//!
//! The bound: what all processes together hand out is never over the limit, because every unit was leased first. Too little is
//! possible: a process that dies takes at most one chunk of each account with it ([`chunk_size`]), so that up to (processes that died) x
//! (chunk) units are left unused until the window is over, and for good where an account never renews. A window is the one a unit was
//! leased in, and lasts as long as the store said when it granted them: the last units of a window may be used after it by as much as
//! the answer took.

use std::collections::BTreeMap;

use servanda_contract::Digest;

use super::{AccountEntry, BudgetHoldId, ChunkLease, Draw, EntryReply, ExhaustedAccount};

/// A limit is so many chunks, if it is big enough.
const CHUNKS_PER_LIMIT: u64 = 64;
/// Units of a chunk at the most: what a crash may cost.
const CHUNK_MAX: u64 = 1_024;
/// Accounts that units are held of at once. Beyond it nothing is handed out: whoever asks has to reserve in the store.
const ACCOUNTS_MAX: usize = 16_384;
/// How long it is believed that an account is exhausted: others may give something back.
const EXHAUSTED_MS: u64 = 1_000;

/// How long units are held that nobody wants.
const IDLE_MS: u64 = 10 * 60 * 1000;

/// Units leased from accounts.
#[derive(Debug, Default)]
pub struct Chunks {
    accounts: BTreeMap<ChunkKey, ChunkState>,
}

/// An account and what a call may draw on it at most: who was given less than others of one account has no units of theirs, and
/// finds it exhausted for nobody else.
type ChunkKey = (Digest, u64);

/// What this process has of one account.
#[derive(Debug, Clone)]
enum ChunkState {
    /// The store is being asked.
    Asking(ChunkLease),
    /// The store was asked, and nobody knows what it did: the same is asked again.
    InDoubt(ChunkLease),
    /// Units.
    Units(LeasedUnits),
    /// There are none, as the store said.
    Exhausted(ExhaustedAccount, u64),
}

#[derive(Debug, Clone)]
struct LeasedUnits {
    lease: BudgetHoldId,
    until_ms: Option<u64>,
    left: u64,
    used_ms: u64,
}

/// What asking for units comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TakeOutcome {
    /// There was one of every account.
    Taken(UnitTicket),
    /// First make these entries, hand in what each came to ([`Chunks::answered`]), and ask again.
    First(Vec<AccountEntry>),
    /// Somebody is asking the store for the same account; ask again when it has answered.
    Wait,
    /// One of the accounts has nothing left.
    Exhausted(ExhaustedAccount),
    /// There are too many accounts to hold units of: reserve in the store.
    Full,
}

/// Which units a call was given, for putting them back if it was never made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnitTicket {
    units: Vec<(ChunkKey, BudgetHoldId)>,
}

/// The rest of a lease that is not wanted any more.
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
        // Before anything is asked for: nobody would hand in an answer to what is not told.
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

    /// What an entry came to that was made for [`TakeOutcome::First`]; none after an error: whoever comes next makes it again as it was.
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

    /// The call was never made: its units are there for others, unless they were given back meanwhile.
    pub fn put_back(&mut self, ticket: UnitTicket) {
        for (key, lease) in ticket.units {
            if let Some(ChunkState::Units(units)) = self.accounts.get_mut(&key)
                && units.lease == lease
            {
                units.left = units.left.saturating_add(1);
            }
        }
    }

    /// What is to be given back because its window is over, or because nobody has wanted it for a while.
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

    /// What is to be given back when the process ends. Of a lease that was not answered nothing was used.
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

    /// What has to be entered before there is a unit of an account.
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
