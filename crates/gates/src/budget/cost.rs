//! What a call costs: six components in millionths of a currency's unit. Whole numbers, so that sums are exact; a contract's
//! fraction is turned into one once, by its decimal digits, and rounded up.

use servanda_contract::tool::{CostProfile, CostUnit};

/// Digits behind the point that are kept.
const MICRO_DIGITS: usize = 6;

/// What a call costs, by what it is spent on. All in millionths of one currency's unit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// Processor time.
    pub compute_micros: u64,
    /// What a provider charges.
    pub external_api_micros: u64,
    /// Reading and writing of storage.
    pub storage_io_micros: u64,
    /// What went over the network.
    pub network_micros: u64,
    /// Tokens of models.
    pub token_micros: u64,
    /// A person's time.
    pub human_review_micros: u64,
}

/// A cost and its currency.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Price {
    /// ISO 4217, or a unit of one's own.
    pub currency: String,
    /// How much.
    pub cost: Cost,
}

/// A cost that cannot be counted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CostError {
    /// Less than nothing, or not a number.
    #[error("a cost has to be a number of zero or more")]
    NotACost,
    /// More than can be counted.
    #[error("a cost of more than {} millionths cannot be counted", u64::MAX)]
    TooMuch,
}

impl Cost {
    /// All of it.
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

impl Price {
    /// What a call may cost by its contract, when it may take so long. Seconds are counted in full. How many tokens or units of
    /// its own a call takes nobody knows before: one is counted, and settling says the rest.
    pub fn of(profile: &CostProfile, timeout_ms: u64) -> Result<Self, CostError> {
        let units = match profile.cost_unit {
            CostUnit::Second => timeout_ms.div_ceil(1_000).max(1),
            CostUnit::Call | CostUnit::Token | CostUnit::Transaction | CostUnit::Custom => 1,
        };
        let micros = micros_of(profile.cost_per_call)?.checked_mul(units).ok_or(CostError::TooMuch)?;
        let cost = match profile.cost_unit {
            CostUnit::Second => Cost { compute_micros: micros, ..Cost::default() },
            CostUnit::Token => Cost { token_micros: micros, ..Cost::default() },
            CostUnit::Call | CostUnit::Transaction | CostUnit::Custom => {
                Cost { external_api_micros: micros, ..Cost::default() }
            }
        };
        Ok(Self { currency: profile.currency.clone(), cost })
    }
}

/// Millionths, rounded up. By the digits a person would write: the nearest binary fraction may be a little more than that.
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
