//! What is held of accounts under one id: a call's reservation, or a lease of units that a process hands out by itself.

use std::fmt;

use serde::{Deserialize, Serialize};
use servanda_contract::CallId;

use super::{Account, BudgetScope};
use crate::effect::EffectId;

/// How long what was closed is remembered, so that the same entry made again finds it; and a window that is over, so that a
/// clock that goes back does not open it anew.
pub(super) const CLOSED_KEPT_MS: u64 = 24 * 60 * 60 * 1000;
/// How long a run's account is remembered that nobody draws on.
const RUN_KEPT_MS: u64 = 30 * 24 * 60 * 60 * 1000;
/// The same of a credential's. Those of agents last a day at the most, those that last for ever are rarely left alone so long.
const CREDENTIAL_KEPT_MS: u64 = 400 * 24 * 60 * 60 * 1000;

/// Identifies a reservation, by its call, or a lease.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BudgetHoldId(String);

/// Units that are not free while it is open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BudgetHold {
    /// Its id.
    pub id: BudgetHoldId,
    /// What for.
    pub kind: BudgetHoldKind,
    /// The effect that it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<EffectId>,
    /// From which accounts.
    pub draws: Vec<HeldDraw>,
    /// Where it is.
    pub stage: BudgetHoldStage,
    /// Who closed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_by: Option<ClosedBy>,
    /// When it was opened.
    pub opened_ms: u64,
    /// When it was closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_ms: Option<u64>,
}

/// What is held of one account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeldDraw {
    /// Which.
    pub account: Account,
    /// Of the window that began then. It is settled in the window it was drawn in, whenever that is.
    pub window_start_ms: u64,
    /// How much.
    pub amount: u64,
    /// How much of it was used, and how much beyond; nothing before it is settled.
    pub spent: u64,
    /// How much of what was used was not kept back.
    pub over: u64,
}

/// What units are held for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetHoldKind {
    /// One call.
    Reservation,
    /// A process that hands them out.
    Lease,
}

/// Where a hold is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetHoldStage {
    /// It may still be used.
    Open,
    /// It was used.
    Settled,
    /// It was given back.
    Refunded,
}

/// Who closed a hold. What the one who called says counts for more than what a sweep made of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClosedBy {
    /// The process that made the call.
    Caller,
    /// A sweep, after that process had left it.
    Sweep,
}

impl BudgetHoldId {
    /// One for a lease.
    pub fn new_lease() -> Self {
        Self(format!("lea_{}", uuid::Uuid::now_v7().simple()))
    }

    /// The text form.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl BudgetHold {
    /// How much more was used than was kept back.
    pub fn over(&self) -> u64 {
        self.draws.iter().map(|draw| draw.over).max().unwrap_or_default()
    }

    /// When it may be forgotten: some time after it was closed. A lease that nobody gave back is over with its window; one of an
    /// account that never renews is not, because its units are not free again either.
    pub fn expires_ms(&self) -> Option<u64> {
        if let Some(closed_ms) = self.closed_ms {
            return Some(closed_ms.saturating_add(CLOSED_KEPT_MS));
        }
        let draw = self.draws.first().filter(|_| self.kind == BudgetHoldKind::Lease)?;
        let idle_ms = idle_ms_max(&draw.account.scope);
        let end_ms = idle_ms.map(|idle_ms| self.opened_ms.saturating_add(idle_ms));
        let end_ms = end_ms.or_else(|| draw.account.period.end_ms(draw.window_start_ms));
        Some(end_ms?.saturating_add(CLOSED_KEPT_MS))
    }
}

/// How long an account is remembered that never renews and that nobody draws on; none if for ever.
pub(super) const fn idle_ms_max(scope: &BudgetScope) -> Option<u64> {
    match scope {
        BudgetScope::Run { .. } => Some(RUN_KEPT_MS),
        BudgetScope::Credential { .. } => Some(CREDENTIAL_KEPT_MS),
        BudgetScope::Caller { .. } | BudgetScope::Tenant(_) | BudgetScope::Tool { .. } => None,
    }
}

impl BudgetHoldStage {
    /// Its name in storage.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Settled => "settled",
            Self::Refunded => "refunded",
        }
    }
}

impl BudgetHoldKind {
    /// Its name in storage.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reservation => "reservation",
            Self::Lease => "lease",
        }
    }
}

impl From<&CallId> for BudgetHoldId {
    fn from(call_id: &CallId) -> Self {
        Self(call_id.as_str().to_owned())
    }
}

impl From<String> for BudgetHoldId {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Display for BudgetHoldId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}
