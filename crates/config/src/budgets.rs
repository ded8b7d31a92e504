//! The configuration of budgets: how much may be read, written, sent outside, spent and critically changed, by whom and in which period.
//! Values are checked while they are read, so that an error names the line.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use servanda_contract::cost::micros_of;
use servanda_effects::budget::{BudgetDimension, Period};
use servanda_gates::budget::{Allowance, AllowanceFilter, AllowanceScope};

/// How many critical changes a day a new configuration allows: enough for normal work, few enough to stop a runaway agent.
const CRITICAL_A_DAY: u64 = 10;
/// Decimal places of an amount of money.
const FRACTION_DIGITS_MAX: usize = 6;

/// One budget.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "BudgetEntry", into = "BudgetEntry")]
#[schemars(with = "BudgetEntry")]
pub struct BudgetConfig {
    entry: BudgetEntry,
    allowance: Allowance,
}

/// A budget, as it is written. A call needs enough left in every budget that applies to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct BudgetEntry {
    /// What is counted: calls that only read, that write, whose effect is external, that change permissions or code or delete (`critical`,
    /// not allowed unless a budget says so), every call that changes something (`change`), or money.
    dimension: CountedDimension,
    /// How much: a whole number of calls, or an amount of money, best in quotes, like "50.00".
    amount: Amount,
    /// The currency, for money. A call whose contract has its cost in another currency is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    currency: Option<String>,
    /// Who has an amount of their own.
    per: PerWhom,
    /// The period. Hours, days and months are those of the calendar, in UTC; `total` never renews.
    period: InPeriod,
    /// Only for this tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    /// Only for this caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    principal: Option<String>,
    /// Only for this tool, by its contract's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
}

/// A number of calls, or an amount of money.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Amount {
    Whole(u64),
    Fraction(f64),
    Text(String),
}

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum CountedDimension {
    /// Calls that only read.
    Read,
    /// Calls that write.
    Write,
    /// Calls whose effect is external.
    External,
    /// Money, by the contracts' `runtime.cost_profile`.
    Financial,
    /// Calls that change permissions or code, or delete.
    Critical,
    /// Every call that changes something, whatever its class.
    Change,
}

/// Who has an amount of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum PerWhom {
    /// Each tenant.
    Tenant,
    /// Each caller.
    Caller,
    /// Each tool, in each tenant.
    Tool,
    /// Each run: the one that the client names in `_meta["servanda/run-id"]`, otherwise its session. A call without either is not limited.
    Run,
}

/// The period.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum InPeriod {
    /// An hour.
    Hour,
    /// A day.
    Day,
    /// A month.
    Month,
    /// For ever: it never renews.
    Total,
}

impl BudgetConfig {
    /// The allowance that the engine enforces.
    pub fn allowance(&self) -> &Allowance {
        &self.allowance
    }

    /// The budget for critical changes in a new configuration.
    pub(crate) fn defaults_for_new_users() -> Vec<Self> {
        let (per, period) = (PerWhom::Caller, InPeriod::Day);
        Self::limit_on_calls(CountedDimension::Critical, CRITICAL_A_DAY, per, period).into_iter().collect()
    }

    /// The demo's budget for external effects: one per run.
    pub fn default_for_sent_mail() -> Option<Self> {
        Self::limit_on_calls(CountedDimension::External, 1, PerWhom::Run, InPeriod::Total)
    }

    fn limit_on_calls(dimension: CountedDimension, calls: u64, per: PerWhom, period: InPeriod) -> Option<Self> {
        let (amount, currency) = (Amount::Whole(calls), None);
        let (tenant, principal, tool) = (None, None, None);
        Self::try_from(BudgetEntry { dimension, amount, currency, per, period, tenant, principal, tool }).ok()
    }
}

impl TryFrom<BudgetEntry> for BudgetConfig {
    type Error = String;

    fn try_from(entry: BudgetEntry) -> Result<Self, String> {
        let dimension = BudgetDimension::from(entry.dimension);
        let is_money = dimension == BudgetDimension::Financial;
        let amount = if is_money { entry.amount.micros()? } else { entry.amount.calls()? };
        match (&entry.currency, is_money) {
            (None, true) => return Err("a budget of money needs a `currency`, like USD".to_owned()),
            (Some(_), false) => return Err("`currency` goes with `dimension: financial` only".to_owned()),
            (Some(currency), true) if currency.is_empty() => return Err("`currency` is empty".to_owned()),
            _ => {}
        }
        let named = [("tenant", &entry.tenant), ("principal", &entry.principal), ("tool", &entry.tool)];
        if let Some((name, _)) = named.iter().find(|(_, only)| only.as_deref() == Some("")) {
            return Err(format!("`{name}` is empty: leave it out to include all"));
        }
        let only = AllowanceFilter {
            tenant: entry.tenant.clone(),
            principal: entry.principal.clone(),
            tool: entry.tool.clone(),
        };
        let (per, period, currency) = (entry.per.into(), entry.period.into(), entry.currency.clone());
        let allowance = Allowance { per, only, dimension, currency, amount, period };
        Ok(Self { entry, allowance })
    }
}

impl From<BudgetConfig> for BudgetEntry {
    fn from(config: BudgetConfig) -> Self {
        config.entry
    }
}

impl Amount {
    fn calls(&self) -> Result<u64, String> {
        match self {
            Self::Whole(calls) => Ok(*calls),
            Self::Fraction(_) | Self::Text(_) => Err("`amount` has to be a whole number of calls".to_owned()),
        }
    }

    fn micros(&self) -> Result<u64, String> {
        let wrong = || {
            format!(
                "`amount` has to be an amount of money with at most {FRACTION_DIGITS_MAX} digits behind the point, like \"50.00\""
            )
        };
        match self {
            Self::Whole(units) => units.checked_mul(1_000_000).ok_or_else(wrong),
            Self::Fraction(amount) => micros_of(*amount).map_err(|error| error.to_string()),
            Self::Text(text) => {
                let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
                let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
                if !digits(whole) || !digits(fraction) || fraction.len() > FRACTION_DIGITS_MAX {
                    return Err(wrong());
                }
                format!("{whole}{fraction:0<FRACTION_DIGITS_MAX$}").parse().map_err(|_| wrong())
            }
        }
    }
}

impl From<CountedDimension> for BudgetDimension {
    fn from(dimension: CountedDimension) -> Self {
        match dimension {
            CountedDimension::Read => Self::Read,
            CountedDimension::Write => Self::Write,
            CountedDimension::External => Self::External,
            CountedDimension::Financial => Self::Financial,
            CountedDimension::Critical => Self::Critical,
            CountedDimension::Change => Self::Change,
        }
    }
}

impl From<PerWhom> for AllowanceScope {
    fn from(per: PerWhom) -> Self {
        match per {
            PerWhom::Tenant => Self::Tenant,
            PerWhom::Caller => Self::Caller,
            PerWhom::Tool => Self::Tool,
            PerWhom::Run => Self::Run,
        }
    }
}

impl From<InPeriod> for Period {
    fn from(period: InPeriod) -> Self {
        match period {
            InPeriod::Hour => Self::Hour,
            InPeriod::Day => Self::Day,
            InPeriod::Month => Self::Month,
            InPeriod::Total => Self::Total,
        }
    }
}

#[cfg(test)]
mod tests {
    use servanda_contract::document;
    use servanda_effects::budget::{BudgetDimension, Period};

    use super::BudgetConfig;

    fn read(text: &str) -> Result<BudgetConfig, String> {
        let read: Result<Vec<BudgetConfig>, _> = document::read("servanda.yaml", &format!("- {text}\n"));
        read.map(|mut budgets| budgets.remove(0)).map_err(|error| error.to_string())
    }

    #[test]
    fn amounts_are_exact() {
        let money = |amount: &str| {
            let text = format!("{{ dimension: financial, amount: {amount}, currency: USD, per: tenant, period: day }}");
            read(&text).map(|budget| budget.allowance().amount)
        };
        let table = [
            ("\"50.00\"", 50_000_000),
            ("50.00", 50_000_000),
            ("50", 50_000_000),
            ("\"0.000001\"", 1),
            ("0.1", 100_000),
            ("\"18446744073709.551615\"", u64::MAX),
        ];
        for (amount, micros) in table {
            assert_eq!(money(amount), Ok(micros), "{amount}");
        }
        for wrong in
            ["\"-1\"", "\"1.0000001\"", "\"1,50\"", "\"\"", "\".5\"", "\"1.\"", "-1", "\"1e3\"", "\"99999999999999\""]
        {
            assert!(money(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let table = [
            ("{ dimension: critical, amount: 1.5, per: caller, period: day }", "whole number of calls"),
            ("{ dimension: critical, amount: \"5\", per: caller, period: day }", "whole number of calls"),
            ("{ dimension: financial, amount: 5, per: caller, period: day }", "needs a `currency`"),
            ("{ dimension: read, amount: 5, currency: USD, per: caller, period: day }", "`currency` goes with"),
            ("{ dimension: read, amount: 5, per: caller, period: day, tool: \"\" }", "`tool` is empty"),
            ("{ dimension: reads, amount: 5, per: caller, period: day }", "reads"),
            ("{ dimension: read, amount: 5, per: everybody, period: day }", "everybody"),
            ("{ dimension: read, amount: 5, per: caller }", "period"),
            ("{ dimension: read, amount: 5, per: caller, period: day, who: me }", "who"),
        ];
        for (text, says) in table {
            let error = read(text).unwrap_err();
            assert!(error.contains(says) && error.contains("servanda.yaml:1:"), "{error}");
        }
    }

    #[test]
    fn what_a_new_user_gets_is_written_and_read_back() {
        let written = document::write(&BudgetConfig::defaults_for_new_users()).unwrap();
        let read: Vec<BudgetConfig> = document::read("servanda.yaml", &written).unwrap();
        assert_eq!(read, BudgetConfig::defaults_for_new_users());
        let allowance = read[0].allowance();
        assert_eq!(
            (allowance.dimension, allowance.amount, allowance.period),
            (BudgetDimension::Critical, 10, Period::Day)
        );
    }
}
