//! Budgets as people see them: what was used of each, and what the configuration grants.

use servanda_effects::{
    JournalError,
    budget::{AccountBalance, BalanceQuery, BudgetDimension, BudgetScope, Period},
};
use servanda_gates::budget::{Allowance, AllowanceScope};

use super::Oversight;
use crate::approvals::Person;

/// The most accounts that are read.
const ACCOUNTS_MAX: u32 = 500;

/// The budgets of a tenant, as far as a person may see them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetOverview {
    /// The accounts that calls have used, the latest used first.
    pub accounts: Vec<AccountBalance>,
    /// Whether there are more accounts than were read.
    pub has_more: bool,
    /// What the configuration grants to calls of the tenant, used or not; empty for people without a role.
    pub grants: Vec<BudgetGrant>,
}

/// One entry of the configuration's budgets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetGrant {
    /// What each account of it is for: `run`, `caller`, `tenant`, `tool`.
    pub per: &'static str,
    /// What it counts.
    pub dimension: BudgetDimension,
    /// The currency, if it counts money.
    pub currency: Option<String>,
    /// The limit: calls, or millionths of the currency's unit.
    pub amount: u64,
    /// The period of the limit.
    pub period: Period,
    /// Only calls of this principal.
    pub principal: Option<String>,
    /// Only calls of this tool.
    pub tool: Option<String>,
}

impl Oversight<'_> {
    /// The budgets that a person sees.
    pub async fn budgets(&self, person: &Person) -> Result<BudgetOverview, JournalError> {
        let view = self.view(person);
        let query = BalanceQuery { tenant: Some(person.tenant.clone()), limit: ACCOUNTS_MAX };
        let mut accounts = self.core.budget_client.store().balances(query).await?;
        let has_more = accounts.len() >= usize::try_from(ACCOUNTS_MAX).unwrap_or(usize::MAX);
        if !view.sees_tenant() {
            accounts.retain(|balance| match &balance.account.scope {
                BudgetScope::Run { principal, .. } | BudgetScope::Caller { principal, .. } => {
                    *principal == person.principal
                }
                BudgetScope::Tenant(_) | BudgetScope::Credential { .. } | BudgetScope::Tool { .. } => false,
            });
        }
        let is_granted = |allowance: &&Allowance| {
            view.sees_tenant() && allowance.only.tenant.as_ref().is_none_or(|tenant| *tenant == person.tenant)
        };
        let grants = view.snapshot.allowances.iter().filter(is_granted).map(BudgetGrant::from).collect();
        Ok(BudgetOverview { accounts, has_more, grants })
    }
}

impl From<&Allowance> for BudgetGrant {
    fn from(allowance: &Allowance) -> Self {
        let per = match allowance.per {
            AllowanceScope::Run => "run",
            AllowanceScope::Caller => "caller",
            AllowanceScope::Tenant => "tenant",
            AllowanceScope::Tool => "tool",
        };
        Self {
            per,
            dimension: allowance.dimension,
            currency: allowance.currency.clone(),
            amount: allowance.amount,
            period: allowance.period,
            principal: allowance.only.principal.clone(),
            tool: allowance.only.tool.clone(),
        }
    }
}
