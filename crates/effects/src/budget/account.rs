//! What budgets count, whom they belong to, and for how long: dimensions, accounts, limits and their windows.

use std::fmt;

use serde::{Deserialize, Serialize};
use servanda_contract::{Digest, Timestamp, cost::decimal, digest::DigestDomain, tool::SideEffectClass};

const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;

/// What a budget counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetDimension {
    /// Calls that change nothing.
    Read,
    /// Calls that change something inside the organization.
    Write,
    /// Calls whose effect leaves the organization. They are not counted as writes too: one call, one count.
    External,
    /// Money, in millionths of a currency's unit.
    Financial,
    /// Calls that change rights or code, or delete. Zero unless a limit says otherwise.
    Critical,
    /// Every call that changes something, in addition to the dimension of its class.
    Change,
}

/// Whom a budget belongs to. Names of one tenant are never mixed with those of another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum BudgetScope {
    /// One run of an agent.
    Run {
        /// The tenant.
        tenant: String,
        /// The principal of the run: a caller cannot draw on another caller's run by naming it.
        principal: String,
        /// The run's id, as the client gave it.
        run: String,
    },
    /// One authenticated principal.
    Caller {
        /// The tenant.
        tenant: String,
        /// The principal.
        principal: String,
    },
    /// A whole tenant.
    Tenant(
        /// The tenant.
        String,
    ),
    /// One credential, and every credential derived from it.
    Credential {
        /// The tenant.
        tenant: String,
        /// The credential's id, never the credential itself.
        credential: String,
    },
    /// All callers of a tenant that call one tool.
    Tool {
        /// The tenant.
        tenant: String,
        /// The contract's name.
        tool: String,
    },
}

/// An account that is drawn on: its owner, dimension, currency and period. A limit per day and one per month of
/// the same owner are two accounts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Account {
    /// The owner.
    pub scope: BudgetScope,
    /// What it counts.
    pub dimension: BudgetDimension,
    /// The currency, if it counts money.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub currency: Option<String>,
    /// The period of its limit.
    pub period: Period,
    /// Set if only calls of this tool count. Calls of other tools do not draw on this account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Set if only calls of this principal count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
}

/// The period of a limit. Windows follow the calendar in UTC, by the store's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Period {
    /// A full hour.
    Hour,
    /// A day.
    Day,
    /// A month.
    Month,
    /// For as long as its owner exists; it never renews.
    Total,
}

impl BudgetDimension {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Read, Self::Write, Self::External, Self::Financial, Self::Critical, Self::Change];

    /// The dimension that a call of a class is counted in.
    pub const fn for_class(class: SideEffectClass) -> Self {
        match class {
            SideEffectClass::ReadOnly => Self::Read,
            SideEffectClass::EphemeralWrite | SideEffectClass::LowRiskInternal | SideEffectClass::MediumRiskWrite => {
                Self::Write
            }
            SideEffectClass::HighRiskExternal => Self::External,
            SideEffectClass::CriticalMutation => Self::Critical,
        }
    }

    /// Whether a call of a class is counted in this dimension.
    pub fn counts(self, class: SideEffectClass) -> bool {
        self == Self::for_class(class) || self == Self::Change && class != SideEffectClass::ReadOnly
    }

    /// Whether every unit is reserved in the store. Units of the other dimensions are leased in chunks.
    pub const fn is_exact(self) -> bool {
        matches!(self, Self::Financial | Self::Critical)
    }

    /// Its name on screens and in storage.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::External => "external",
            Self::Financial => "financial",
            Self::Critical => "critical",
            Self::Change => "change",
        }
    }
}

impl BudgetScope {
    /// The tenant it belongs to.
    pub fn tenant(&self) -> &str {
        match self {
            Self::Run { tenant, .. }
            | Self::Caller { tenant, .. }
            | Self::Credential { tenant, .. }
            | Self::Tool { tenant, .. }
            | Self::Tenant(tenant) => tenant,
        }
    }
}

impl Account {
    /// The digest that identifies the account, whatever characters its names contain.
    pub fn digest(&self) -> Digest {
        let (kind, name, of) = match &self.scope {
            BudgetScope::Run { run, principal, .. } => ("run", run.as_str(), principal.as_str()),
            BudgetScope::Caller { principal, .. } => ("caller", principal.as_str(), ""),
            BudgetScope::Credential { credential, .. } => ("credential", credential.as_str(), ""),
            BudgetScope::Tenant(_) => ("tenant", "", ""),
            BudgetScope::Tool { tool, .. } => ("tool", tool.as_str(), ""),
        };
        // No currency and a currency with an empty name are different.
        let currency = self.currency.as_ref().map_or(String::new(), |currency| format!("={currency}"));
        let only = |what: &str, name: &Option<String>| name.as_ref().map(|name| format!("{what}={name}"));
        let only = [only("tool", &self.tool), only("principal", &self.principal)];
        let parts = [kind, self.scope.tenant(), name, of, self.dimension.name(), &currency, self.period.name()];
        let parts = parts.into_iter().chain(only.iter().flatten().map(String::as_str));
        Digest::compute(DigestDomain::BudgetAccount, &parts.map(str::as_bytes).collect::<Vec<_>>())
    }
}

impl Account {
    /// An amount of this account, in words.
    pub fn in_words(&self, units: u64) -> String {
        match (self.dimension, &self.currency, units) {
            (BudgetDimension::Financial, Some(currency), _) => format!("{} {currency}", decimal(units)),
            (BudgetDimension::Financial, None, _) => decimal(units),
            (_, _, 1) => "1 call".to_owned(),
            _ => format!("{units} calls"),
        }
    }
}

/// As a person reads it: owner, dimension and period.
impl fmt::Display for Account {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.scope {
            BudgetScope::Run { run, .. } => write!(formatter, "run `{run}`")?,
            BudgetScope::Caller { principal, .. } => write!(formatter, "caller `{principal}`")?,
            BudgetScope::Credential { credential, .. } => write!(formatter, "credential `{credential}`")?,
            BudgetScope::Tenant(tenant) => write!(formatter, "tenant `{tenant}`")?,
            BudgetScope::Tool { tool, .. } => write!(formatter, "tool `{tool}`")?,
        }
        write!(formatter, ", {}", self.dimension.name())?;
        if let Some(currency) = &self.currency {
            write!(formatter, " in {currency}")?;
        }
        if let Some(tool) = &self.tool {
            write!(formatter, " by `{tool}`")?;
        }
        if let Some(principal) = &self.principal {
            write!(formatter, " of `{principal}`")?;
        }
        match self.period {
            Period::Total => formatter.write_str(", in total"),
            period => write!(formatter, ", per {}", period.name()),
        }
    }
}

impl Period {
    /// Its name on screens and in storage.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Month => "month",
            Self::Total => "total",
        }
    }

    /// When the window that contains a moment began.
    pub fn start_ms(self, now_ms: u64) -> u64 {
        match self {
            Self::Hour => now_ms - now_ms % HOUR_MS,
            Self::Day => now_ms - now_ms % DAY_MS,
            Self::Month => Timestamp::from_unix_ms(now_ms).month_start().unix_ms(),
            Self::Total => 0,
        }
    }

    /// When the window that began then ends; none if it does not renew.
    pub fn end_ms(self, start_ms: u64) -> Option<u64> {
        match self {
            Self::Hour => Some(start_ms.saturating_add(HOUR_MS)),
            Self::Day => Some(start_ms.saturating_add(DAY_MS)),
            // No month is longer, and none is so short that this lands in the month after the next.
            Self::Month => Some(self.start_ms(start_ms.saturating_add(31 * DAY_MS))),
            Self::Total => None,
        }
    }
}
