//! Which accounts a call draws on, according to the operator's allowances. A call without an allowance draws on
//! nothing, and no store is asked for it; but a critical call without an allowance is refused.

use std::collections::BTreeMap;

use servanda_authority::{CredentialBudget, rights};
use servanda_contract::{
    cost::{CostError, Price},
    tool::SideEffectClass,
};
use servanda_effects::budget::{Account, BudgetDimension, BudgetScope, Draw, ExhaustedAccount, Period};

/// The permission to draw an amount in a period.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowance {
    /// What each account of it is for.
    pub per: AllowanceScope,
    /// Which calls it applies to.
    pub only: AllowanceFilter,
    /// What it counts.
    pub dimension: BudgetDimension,
    /// The currency, if it counts money.
    pub currency: Option<String>,
    /// The limit: calls, or millionths of the currency's unit.
    pub amount: u64,
    /// The period of the limit.
    pub period: Period,
}

/// What each account of an allowance is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllowanceScope {
    /// Each run. A call without a run is not limited by it.
    Run,
    /// Each caller.
    Caller,
    /// Each tenant.
    Tenant,
    /// Each tool, in each tenant.
    Tool,
}

/// Which calls an allowance applies to: all, except as far as a field is set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowanceFilter {
    /// Only this tenant.
    pub tenant: Option<String>,
    /// Only this principal.
    pub principal: Option<String>,
    /// Only this tool, by its contract's name.
    pub tool: Option<String>,
}

/// The parts of a call that matter for budgets.
#[derive(Debug, Clone, Copy)]
pub(super) struct BudgetedCall<'a> {
    /// The tenant.
    pub(super) tenant: &'a str,
    /// The authenticated principal.
    pub(super) principal: &'a str,
    /// The contract's name.
    pub(super) tool: &'a str,
    /// The run it belongs to, if any.
    pub(super) run: Option<&'a str>,
    /// The budgets of its credential, and of the credentials that one is derived from.
    pub(super) credentials: &'a [CredentialBudget],
    /// Its class.
    pub(super) class: SideEffectClass,
    /// Its price.
    pub(super) price: &'a Price,
}

/// Why a call cannot draw at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DrawError {
    /// The operator allowed no such budget.
    #[error("nothing is left of {}", .0.account)]
    Exhausted(Box<ExhaustedAccount>),
    /// The budget and the contract's cost have different currencies. Nothing is converted; the operator has to
    /// use one currency.
    #[error("the contract's cost is in {cost} and the budget in {budget}: name one in the same currency")]
    Currency {
        /// The currency of the contract's cost.
        cost: String,
        /// The currency of the budget.
        budget: String,
    },
    /// The cost cannot be counted.
    #[error(transparent)]
    Cost(#[from] CostError),
}

/// The draws of a call, each account once, in the order of their digests.
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
            // A budget in another currency is for other calls, if there is one in this currency.
            BudgetDimension::Financial if has_own => continue,
            BudgetDimension::Financial => return Err(other_currency(allowance, call.price)),
            dimension if dimension.counts(call.class) => 1,
            _ => continue,
        };
        let Allowance { dimension, currency, period, .. } = allowance;
        let currency = currency.clone().filter(|_| *dimension == BudgetDimension::Financial);
        let (tool, principal) = allowance.filters();
        let account = Account { scope, dimension: *dimension, currency, period: *period, tool, principal };
        // If two allowances have the same account, the lower limit counts.
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

/// The draws of a call on one credential's budget. A credential only restricts: a critical call that the
/// operator did not allow stays forbidden. Its money budget has no currency, so spending in all currencies
/// counts together.
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

/// The account dimension of a credential's budget dimension.
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
    /// Whether it counts money in that currency.
    fn is_in(&self, price: &Price) -> bool {
        self.dimension == BudgetDimension::Financial && self.currency.as_deref() == Some(&*price.currency)
    }

    pub(super) fn is_about(&self, call: &BudgetedCall<'_>) -> bool {
        let AllowanceFilter { tenant, principal, tool } = &self.only;
        [(tenant, call.tenant), (principal, call.principal), (tool, call.tool)]
            .into_iter()
            .all(|(only, name)| only.as_deref().is_none_or(|only| only == name))
    }

    /// The filters of its account, if it does not apply to all calls of its scope: allowances with other
    /// filters are other accounts.
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
