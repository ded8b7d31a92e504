//! The balance of one account in one window: what was spent, what is reserved for calls, what is leased to
//! processes.

use serde::{Deserialize, Serialize};

use super::{
    Account, BudgetHold, BudgetHoldKind, BudgetHoldStage, ExhaustedAccount, HeldDraw,
    hold::{CLOSED_KEPT_MS, idle_ms_max},
};

/// The balance of an account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccountBalance {
    /// Which account.
    pub account: Account,
    /// The limit of a window, as the latest draw stated it.
    pub limit: u64,
    /// When the window began.
    pub window_start_ms: u64,
    /// Units that were used.
    pub spent: u64,
    /// Units that are reserved for calls.
    pub reserved: u64,
    /// Units that are leased to processes. The units of a process that died stay here until the window is over.
    pub leased: u64,
    /// Used units that no call had reserved.
    pub over: u64,
    /// When it last changed.
    pub changed_ms: u64,
}

/// How the units of a hold count in a balance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct HoldShare {
    spent: u64,
    reserved: u64,
    leased: u64,
    over: u64,
}

impl AccountBalance {
    /// The balance of an account that has not been drawn on yet.
    pub fn new(account: Account, limit: u64, now_ms: u64) -> Self {
        let window_start_ms = account.period.start_ms(now_ms);
        Self { account, limit, window_start_ms, spent: 0, reserved: 0, leased: 0, over: 0, changed_ms: now_ms }
    }

    /// The balance now: in a new window nothing is used. A clock that goes back does not bring an old window
    /// back.
    #[must_use]
    pub fn at(&self, now_ms: u64) -> Self {
        let opened = Self::new(self.account.clone(), self.limit, now_ms);
        if opened.window_start_ms > self.window_start_ms { opened } else { self.clone() }
    }

    /// Units that are free.
    pub const fn left(&self) -> u64 {
        self.left_of(self.limit)
    }

    /// Units that are free of a limit, which may be another than the one that the latest draw stated.
    pub const fn left_of(&self, limit: u64) -> u64 {
        let used = self.spent.saturating_add(self.reserved).saturating_add(self.leased);
        limit.saturating_sub(used)
    }

    /// When the next window begins; none if it does not renew.
    pub fn renews_at_ms(&self) -> Option<u64> {
        self.account.period.end_ms(self.window_start_ms)
    }

    /// When it may be forgotten: some time after its window. If the window never ends, only the account of a
    /// run or a credential with nothing reserved is forgotten, after it was idle for long enough.
    pub fn expires_ms(&self) -> Option<u64> {
        let is_idle = || {
            let idle_ms = idle_ms_max(&self.account.scope).filter(|_| self.reserved == 0);
            idle_ms.map(|idle_ms| self.changed_ms.saturating_add(idle_ms))
        };
        self.renews_at_ms().map(|end_ms| end_ms.saturating_add(CLOSED_KEPT_MS)).or_else(is_idle)
    }

    /// The error that there is not enough left.
    pub(super) fn exhausted(&self) -> ExhaustedAccount {
        ExhaustedAccount { account: self.account.clone(), left: self.left(), renews_at_ms: self.renews_at_ms() }
    }

    /// Moves the units of a hold from their former place to their new one. Units drawn in another window do not
    /// count in this one.
    pub(super) fn move_share(
        &mut self,
        before: (&BudgetHold, &HeldDraw),
        after: (&BudgetHold, &HeldDraw),
        now_ms: u64,
    ) {
        if after.1.window_start_ms != self.window_start_ms {
            return;
        }
        let (from, to) = (HoldShare::from_draw(before), HoldShare::from_draw(after));
        // Saturates: more than can be counted is the same as exhausted.
        let moved = |held: u64, from: u64, to: u64| held.saturating_sub(from).saturating_add(to);
        self.spent = moved(self.spent, from.spent, to.spent);
        self.reserved = moved(self.reserved, from.reserved, to.reserved);
        self.leased = moved(self.leased, from.leased, to.leased);
        self.over = moved(self.over, from.over, to.over);
        self.changed_ms = now_ms;
    }
}

impl HoldShare {
    const NOTHING: Self = Self { spent: 0, reserved: 0, leased: 0, over: 0 };

    fn from_draw((hold, draw): (&BudgetHold, &HeldDraw)) -> Self {
        match (hold.stage, hold.kind) {
            (BudgetHoldStage::Open, BudgetHoldKind::Reservation) => Self { reserved: draw.amount, ..Self::NOTHING },
            (BudgetHoldStage::Open, BudgetHoldKind::Lease) => Self { leased: draw.amount, ..Self::NOTHING },
            (BudgetHoldStage::Settled, _) => Self { spent: draw.spent, over: draw.over, ..Self::NOTHING },
            (BudgetHoldStage::Refunded, _) => Self::NOTHING,
        }
    }
}
