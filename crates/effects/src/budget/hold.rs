//! Units of accounts that are held under one id: a call's reservation, or a lease of units that a process hands
//! out by itself.

use std::fmt;

use serde::{Deserialize, Serialize};
use servanda_contract::CallId;

use super::{Account, BudgetScope};
use crate::effect::EffectId;

/// How long a closed hold is remembered, so that the same entry made again finds it; and how long a past window
/// is, so that a clock that goes back does not open it again.
pub(super) const CLOSED_KEPT_MS: u64 = 24 * 60 * 60 * 1000;
/// How long the account of a run is remembered while it is not used.
const RUN_KEPT_MS: u64 = 30 * 24 * 60 * 60 * 1000;
/// The same for the account of a credential. Credentials of agents last a day at most, and permanent ones are
/// rarely unused for so long.
const CREDENTIAL_KEPT_MS: u64 = 400 * 24 * 60 * 60 * 1000;

/// Identifies a reservation, by its call id, or a lease.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BudgetHoldId(String);

/// Units that are not free while the hold is open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BudgetHold {
    /// Its id.
    pub id: BudgetHoldId,
    /// What the units are held for.
    pub kind: BudgetHoldKind,
    /// The effect that it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<EffectId>,
    /// The accounts it draws on.
    pub draws: Vec<HeldDraw>,
    /// Its current stage.
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
    /// The account.
    pub account: Account,
    /// The start of the window it was drawn in. It is settled in that window, however much later.
    pub window_start_ms: u64,
    /// How much.
    pub amount: u64,
    /// Units that were used, including those beyond the reservation; zero before it is settled.
    pub spent: u64,
    /// Used units beyond what was reserved.
    pub over: u64,
}

/// What units are held for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetHoldKind {
    /// One call.
    Reservation,
    /// A process that hands the units out.
    Lease,
}

/// The stage of a hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetHoldStage {
    /// The units may still be used.
    Open,
    /// The units were used.
    Settled,
    /// The units were given back.
    Refunded,
}

/// Who closed a hold. The caller's own report overrides the decision of a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClosedBy {
    /// The process that made the call.
    Caller,
    /// A sweep, after that process had abandoned it.
    Sweep,
}

impl BudgetHoldId {
    /// A new id for a lease.
    pub fn new_lease() -> Self {
        Self(format!("lea_{}", uuid::Uuid::now_v7().simple()))
    }

    /// The text form.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl BudgetHold {
    /// Units that were used beyond what was reserved.
    pub fn over(&self) -> u64 {
        self.draws.iter().map(|draw| draw.over).max().unwrap_or_default()
    }

    /// When it may be forgotten: some time after it was closed. A lease that was never given back ends with its
    /// window. If the account never renews, it is kept, because its units are not free again either.
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

/// How long the account of a scope is remembered if it never renews and is not used; none means forever.
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
