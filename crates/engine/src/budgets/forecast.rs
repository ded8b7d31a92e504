//! What gate 11 would say about a call that is not made. Nothing is leased or reserved, and no token of a rate is taken.

use std::sync::PoisonError;

use servanda_authority::AuthenticatedCaller;
use servanda_effects::budget::{AccountBalance, BudgetStore as _, Draw, ExhaustedAccount};
use servanda_gates::{
    PreviewedCall,
    budget::{Allowance, BudgetSources, FundingError, NotClearedReason, Rate, preview_draws},
};
use tokio::time::Instant;

use super::{BudgetClient, run_of_call};

/// What a call would draw, and whether it could.
#[derive(Debug)]
pub(crate) struct BudgetForecast {
    pub(crate) draws: Vec<DrawForecast>,
    /// Why gate 11 would refuse it.
    pub(crate) refused: Option<NotClearedReason>,
}

/// One account that a call would draw on.
#[derive(Debug)]
pub(crate) struct DrawForecast {
    pub(crate) draw: Draw,
    /// What is left of it, including what this process holds.
    pub(crate) left: u64,
}

impl DrawForecast {
    pub(crate) const fn has_room(&self) -> bool {
        self.left >= self.draw.amount
    }
}

/// Looks at the accounts that a call would draw on.
pub(crate) async fn forecast(
    budget_client: &BudgetClient,
    previewed: &PreviewedCall,
    (allowances, authenticated): (&[Allowance], &AuthenticatedCaller),
    deadline: Instant,
) -> BudgetForecast {
    let run = run_of_call(previewed.proposal(), allowances);
    let sources = BudgetSources { allowances, authenticated, run: run.as_deref() };
    let draws = match preview_draws(previewed, &sources) {
        Ok(draws) => draws,
        Err(why) => return BudgetForecast { draws: Vec::new(), refused: Some(NotClearedReason::Undrawable(why)) },
    };
    let too_often = peek_at_rate(budget_client, previewed);
    if draws.is_empty() {
        return BudgetForecast { draws: Vec::new(), refused: too_often };
    }
    let accounts = draws.iter().map(|draw| draw.account.clone()).collect();
    let balances = match budget_client.with_deadline(deadline).find_balances(accounts).await {
        Ok(balances) => balances,
        Err(error) => {
            let refused = too_often.or(Some(NotClearedReason::Unfunded(FundingError::InDoubt(error))));
            return BudgetForecast { draws: Vec::new(), refused };
        }
    };
    let now_ms = budget_client.clock.now().unix_ms();
    let mut exhausted = None;
    let draws = draws.into_iter().map(|draw| {
        let balance = balances.iter().find(|balance| balance.account == draw.account).cloned();
        let balance = balance.unwrap_or_else(|| AccountBalance::new(draw.account.clone(), draw.limit, now_ms));
        let held = if draw.account.dimension.is_exact() { 0 } else { budget_client.chunks().held(&draw, now_ms) };
        let looked = DrawForecast { left: balance.left_of(draw.limit).saturating_add(held), draw };
        if !looked.has_room() && exhausted.is_none() {
            let account = looked.draw.account.clone();
            exhausted = Some(ExhaustedAccount { account, left: looked.left, renews_at_ms: balance.renews_at_ms() });
        }
        looked
    });
    let draws = draws.collect();
    let unfunded = |exhausted| NotClearedReason::Unfunded(FundingError::Exhausted(Box::new(exhausted)));
    BudgetForecast { draws, refused: too_often.or(exhausted.map(unfunded)) }
}

fn peek_at_rate(budget_client: &BudgetClient, previewed: &PreviewedCall) -> Option<NotClearedReason> {
    let written = previewed.contract().contract();
    let rate = Rate::from_limits(&written.runtime.rate_limits);
    let (tenant, tool) = (&previewed.proposal().caller.tenant, &written.identity.name);
    let rates = budget_client.rates.lock().unwrap_or_else(PoisonError::into_inner);
    let looked = rates.peek(tenant, tool, rate, budget_client.clock.now().unix_ms());
    looked.err().map(|denied| NotClearedReason::TooOften(denied, rate))
}
