//! Which accounts a call draws on: what it is, against what was allowed. A call that no allowance is about draws on nothing, and
//! nothing is asked of any store for it; but what nobody allowed to be critical is refused.

use std::collections::BTreeMap;

use servanda_authority::{CredentialBudget, rights};
use servanda_contract::{
    cost::{CostError, Price},
    tool::SideEffectClass,
};
use servanda_effects::budget::{Account, BudgetDimension, BudgetScope, Draw, ExhaustedAccount, Period};

/// That somebody may draw so much in a period.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowance {
    /// For each of whom.
    pub per: AllowanceScope,
    /// Only for those.
    pub only: AllowanceFilter,
    /// Of what.
    pub dimension: BudgetDimension,
    /// Financial: in which currency; there is none for what is counted.
    pub currency: Option<String>,
    /// How much: calls, or millionths of the currency's unit.
    pub amount: u64,
    /// In which period.
    pub period: Period,
}

/// For each of whom an allowance is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllowanceScope {
    /// Each run. A call that belongs to none is not limited by it.
    Run,
    /// Each caller.
    Caller,
    /// Each tenant.
    Tenant,
    /// Each tool, in each tenant.
    Tool,
}

/// Whom an allowance is about: everybody but for what is named.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowanceFilter {
    /// This tenant.
    pub tenant: Option<String>,
    /// This party.
    pub principal: Option<String>,
    /// This tool, by its contract's name.
    pub tool: Option<String>,
}

/// A call, as far as budgets are concerned.
#[derive(Debug, Clone, Copy)]
pub(super) struct BudgetedCall<'a> {
    /// The tenant.
    pub(super) tenant: &'a str,
    /// The authenticated party.
    pub(super) principal: &'a str,
    /// The contract's name.
    pub(super) tool: &'a str,
    /// The run it belongs to, if it does.
    pub(super) run: Option<&'a str>,
    /// What the credential it is made with, and those that comes from, may draw.
    pub(super) credentials: &'a [CredentialBudget],
    /// How grave it is.
    pub(super) class: SideEffectClass,
    /// What it may cost.
    pub(super) price: &'a Price,
}

/// Why a call cannot draw at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DrawError {
    /// There is no such budget: nobody allowed it.
    #[error("nothing is left of {}", .0.account)]
    Exhausted(Box<ExhaustedAccount>),
    /// The budget is in one currency and the contract's cost in another. Nothing is converted; the operator has to say what is meant.
    #[error("the contract's cost is in {cost} and the budget in {budget}: name one in the same currency")]
    Currency {
        /// Of the contract.
        cost: String,
        /// Of the budget.
        budget: String,
    },
    /// The cost cannot be counted.
    #[error(transparent)]
    Cost(#[from] CostError),
}

/// What a call draws, each account once, in the order of their digests.
pub(super) fn draws(call: &BudgetedCall<'_>, allowances: &[Allowance]) -> Result<Vec<Draw>, DrawError> {
    let counted = BudgetDimension::for_class(call.class);
    let micros = call.price.cost.total_micros()?;
    let mut draws = BTreeMap::new();
    let has_own =
        micros > 0 && allowances.iter().any(|allowance| allowance.is_about(call) && allowance.is_in(call.price));
    for allowance in allowances.iter().filter(|allowance| allowance.is_about(call)) {
        let Some(scope) = allowance.scope(call) else { continue };
        let amount = match allowance.dimension {
            BudgetDimension::Financial if micros == 0 => continue,
            BudgetDimension::Financial if allowance.is_in(call.price) => micros,
            // A budget in another currency is about other calls, unless there is none in this one.
            BudgetDimension::Financial if has_own => continue,
            BudgetDimension::Financial => return Err(other_currency(allowance, call.price)),
            dimension if dimension.counts(call.class) => 1,
            _ => continue,
        };
        let Allowance { dimension, currency, period, .. } = allowance;
        let currency = currency.clone().filter(|_| *dimension == BudgetDimension::Financial);
        let (tool, principal) = allowance.filters();
        let account = Account { scope, dimension: *dimension, currency, period: *period, tool, principal };
        // Who is allowed the same twice is allowed the less of it.
        let draw = draws.entry(account.digest()).or_insert(Draw { account, limit: allowance.amount, amount });
        draw.limit = draw.limit.min(allowance.amount);
    }
    if counted == BudgetDimension::Critical && !draws.values().any(|draw| draw.account.dimension == counted) {
        let scope = BudgetScope::Tool { tenant: call.tenant.to_owned(), tool: call.tool.to_owned() };
        let account =
            Account { scope, dimension: counted, currency: None, period: Period::Total, tool: None, principal: None };
        return Err(DrawError::Exhausted(Box::new(ExhaustedAccount { account, left: 0, renews_at_ms: None })));
    }
    let credentials = call.credentials.iter().flat_map(|credential| credential_draws(credential, call, micros));
    draws.extend(credentials.map(|draw| (draw.account.digest(), draw)));
    Ok(draws.into_values().collect())
}

/// What a call draws under one credential. A credential only ever takes away: what nobody allowed to be critical it does not allow
/// either. Of money it has a number and no currency, so that what is spent in any is counted together.
fn credential_draws(budget: &CredentialBudget, call: &BudgetedCall<'_>, micros: u64) -> impl Iterator<Item = Draw> {
    let drawn = move |(dimension, limit): (&rights::RightsDimension, &u64)| {
        let dimension = account_dimension(*dimension);
        let amount = match dimension {
            BudgetDimension::Financial => micros,
            dimension => u64::from(dimension.counts(call.class)),
        };
        (amount > 0).then(|| {
            let (tenant, credential) = (call.tenant.to_owned(), budget.credential.to_string());
            let scope = BudgetScope::Credential { tenant, credential };
            let account =
                Account { scope, dimension, currency: None, period: Period::Total, tool: None, principal: None };
            Draw { account, limit: *limit, amount }
        })
    };
    budget.limits.iter().filter_map(drawn)
}

/// What the budget of a credential counts, in the words of accounts.
pub(super) const fn account_dimension(dimension: rights::RightsDimension) -> BudgetDimension {
    match dimension {
        rights::RightsDimension::Read => BudgetDimension::Read,
        rights::RightsDimension::Write => BudgetDimension::Write,
        rights::RightsDimension::External => BudgetDimension::External,
        rights::RightsDimension::FinancialMicros => BudgetDimension::Financial,
        rights::RightsDimension::Critical => BudgetDimension::Critical,
    }
}

fn other_currency(allowance: &Allowance, price: &Price) -> DrawError {
    let budget = allowance.currency.clone().unwrap_or_default();
    DrawError::Currency { cost: price.currency.clone(), budget }
}

impl Allowance {
    /// Whether it is of money in that currency.
    fn is_in(&self, price: &Price) -> bool {
        self.dimension == BudgetDimension::Financial && self.currency.as_deref() == Some(&*price.currency)
    }

    pub(super) fn is_about(&self, call: &BudgetedCall<'_>) -> bool {
        let AllowanceFilter { tenant, principal, tool } = &self.only;
        [(tenant, call.tenant), (principal, call.principal), (tool, call.tool)]
            .into_iter()
            .all(|(only, name)| only.as_deref().is_none_or(|only| only == name))
    }

    /// Which calls of its scope it is about, where that is not all: budgets about others are other accounts.
    fn filters(&self) -> (Option<String>, Option<String>) {
        let AllowanceFilter { tool, principal, .. } = &self.only;
        let tool = tool.clone().filter(|_| self.per != AllowanceScope::Tool);
        let principal = principal.clone().filter(|_| matches!(self.per, AllowanceScope::Tenant | AllowanceScope::Tool));
        (tool, principal)
    }

    fn scope(&self, call: &BudgetedCall<'_>) -> Option<BudgetScope> {
        let tenant = call.tenant.to_owned();
        Some(match self.per {
            AllowanceScope::Run => {
                BudgetScope::Run { tenant, principal: call.principal.to_owned(), run: call.run?.to_owned() }
            }
            AllowanceScope::Caller => BudgetScope::Caller { tenant, principal: call.principal.to_owned() },
            AllowanceScope::Tenant => BudgetScope::Tenant(tenant),
            AllowanceScope::Tool => BudgetScope::Tool { tenant, tool: call.tool.to_owned() },
        })
    }
}
