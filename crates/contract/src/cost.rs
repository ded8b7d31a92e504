//! What a call costs: six components in millionths of a currency unit. Whole numbers keep sums exact. A contract's decimal
//! fractions are converted once, digit by digit, and rounded up.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::tool::{CostComponents, CostProfile, CostUnit};

/// Decimal digits that are kept.
const MICRO_DIGITS: usize = 6;

/// What a call costs, by component. All values are in millionths of one currency unit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cost {
    /// Processor time.
    #[serde(skip_serializing_if = "is_nothing")]
    pub compute_micros: u64,
    /// What a provider charges.
    #[serde(skip_serializing_if = "is_nothing")]
    pub external_api_micros: u64,
    /// Reading and writing of storage.
    #[serde(skip_serializing_if = "is_nothing")]
    pub storage_io_micros: u64,
    /// Network traffic.
    #[serde(skip_serializing_if = "is_nothing")]
    pub network_micros: u64,
    /// Model tokens.
    #[serde(skip_serializing_if = "is_nothing")]
    pub token_micros: u64,
    /// A person's time.
    #[serde(skip_serializing_if = "is_nothing")]
    pub human_review_micros: u64,
}

/// A cost and its currency.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// ISO 4217, or a custom unit.
    pub currency: String,
    /// The amount.
    pub cost: Cost,
}

/// A cost that cannot be counted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CostError {
    /// A negative number, or not a number.
    #[error("a cost must be a number of zero or more")]
    NotACost,
    /// A number too large to count.
    #[error("a cost of more than {} millionths cannot be counted", u64::MAX)]
    TooMuch,
}

impl Cost {
    /// The sum of all components.
    pub fn total_micros(&self) -> Result<u64, CostError> {
        let Self {
            compute_micros,
            external_api_micros,
            storage_io_micros,
            network_micros,
            token_micros,
            human_review_micros,
        } = *self;
        [external_api_micros, storage_io_micros, network_micros, token_micros, human_review_micros]
            .into_iter()
            .try_fold(compute_micros, u64::checked_add)
            .ok_or(CostError::TooMuch)
    }
}

/// The total and its components, as a person reads them.
impl fmt::Display for Price {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cost {
            compute_micros,
            external_api_micros,
            storage_io_micros,
            network_micros,
            token_micros,
            human_review_micros,
        } = self.cost;
        let total = self.cost.total_micros().map_or_else(|error| error.to_string(), decimal);
        write!(formatter, "{total} {}", self.currency)?;
        let components = [
            ("compute", compute_micros),
            ("external API", external_api_micros),
            ("storage", storage_io_micros),
            ("network", network_micros),
            ("tokens", token_micros),
            ("human review", human_review_micros),
        ];
        for (number, (name, micros)) in components.into_iter().filter(|(_, micros)| *micros > 0).enumerate() {
            write!(formatter, "{} {name} {}", if number == 0 { ":" } else { "," }, decimal(micros))?;
        }
        Ok(())
    }
}

impl TryFrom<&CostComponents> for Cost {
    type Error = CostError;

    fn try_from(components: &CostComponents) -> Result<Self, CostError> {
        let CostComponents { compute, external_api, storage_io, network, token, human_review } = *components;
        Ok(Self {
            compute_micros: micros_of(compute)?,
            external_api_micros: micros_of(external_api)?,
            storage_io_micros: micros_of(storage_io)?,
            network_micros: micros_of(network)?,
            token_micros: micros_of(token)?,
            human_review_micros: micros_of(human_review)?,
        })
    }
}

impl Price {
    /// The most that a call may cost by its contract, given the time it may take: the units, plus the fixed components. Started
    /// seconds count in full. The number of tokens or custom units is not known before the call, so one is counted.
    pub fn from_profile(profile: &CostProfile, timeout_ms: u64) -> Result<Self, CostError> {
        let units = match profile.cost_unit {
            CostUnit::Second => timeout_ms.div_ceil(1_000).max(1),
            CostUnit::Call | CostUnit::Token | CostUnit::Transaction | CostUnit::Custom => 1,
        };
        let micros = micros_of(profile.cost_per_call)?.checked_mul(units).ok_or(CostError::TooMuch)?;
        let mut cost = Cost::try_from(&profile.components)?;
        let component = match profile.cost_unit {
            CostUnit::Second => &mut cost.compute_micros,
            CostUnit::Token => &mut cost.token_micros,
            CostUnit::Call | CostUnit::Transaction | CostUnit::Custom => &mut cost.external_api_micros,
        };
        *component = component.checked_add(micros).ok_or(CostError::TooMuch)?;
        Ok(Self { currency: profile.currency.clone(), cost })
    }

    /// Whether it costs nothing.
    pub fn is_free(&self) -> bool {
        self.cost == Cost::default()
    }
}

/// Millionths, rounded up. Works on the decimal digits, because the nearest binary fraction may be slightly larger than the
/// number that a person wrote.
pub fn micros_of(amount: f64) -> Result<u64, CostError> {
    if !amount.is_finite() || amount < 0.0 {
        return Err(CostError::NotACost);
    }
    let text = amount.abs().to_string();
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let kept: String = fraction.chars().chain(std::iter::repeat('0')).take(MICRO_DIGITS).collect();
    let is_cut = fraction.chars().skip(MICRO_DIGITS).any(|digit| digit != '0');
    let micros: u64 = format!("{whole}{kept}").parse().map_err(|_| CostError::TooMuch)?;
    micros.checked_add(u64::from(is_cut)).ok_or(CostError::TooMuch)
}

/// Millionths as a decimal number: at least two digits after the point, and more if they are not zero.
pub fn decimal(micros: u64) -> String {
    let (whole, fraction) = (micros / 1_000_000, format!("{:06}", micros % 1_000_000));
    let kept = fraction.trim_end_matches('0').len().max(2);
    format!("{whole}.{}", fraction.get(..kept).unwrap_or(&fraction))
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that serde asks for")]
fn is_nothing(micros: &u64) -> bool {
    *micros == 0
}
