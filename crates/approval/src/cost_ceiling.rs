//! The most that the calls of a grant may cost together. It counts the contract's cost of each call, which is also what the call reserves
//! where a budget counts money; nothing is converted.

use serde::{Deserialize, Serialize};
use servanda_contract::cost::{Price, decimal};

/// The longest name of a currency.
const CURRENCY_CHARS_MAX: usize = 16;
/// Digits before and after the point of an amount.
const WHOLE_DIGITS_MAX: usize = 9;
const FRACTION_DIGITS_MAX: usize = 6;

/// The most that calls may cost together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "CostCeilingText", into = "CostCeilingText")]
pub struct CostCeiling {
    micros: u64,
    currency: String,
}

/// A text that says no sum of money.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a sum of money is a decimal number with at most {WHOLE_DIGITS_MAX} digits before and {FRACTION_DIGITS_MAX} after the point, and a currency: `12.50` and `EUR`"
)]
pub struct CostCeilingFault;

/// Why a call's cost is not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UncountedCost {
    /// What it costs is not known.
    Unknown,
    /// It costs another currency.
    OtherCurrency,
}

/// The stored form: `{"amount":"12.50","currency":"EUR"}`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CostCeilingText {
    amount: String,
    currency: String,
}

impl CostCeiling {
    /// The ceiling that an amount and a currency say.
    pub fn new(amount: &str, currency: &str) -> Result<Self, CostCeilingFault> {
        let (whole, fraction) = amount.split_once('.').unwrap_or((amount, "0"));
        let is_number = |digits: &str, most: usize| {
            (1..=most).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
        };
        let is_name = (1..=CURRENCY_CHARS_MAX).contains(&currency.len())
            && currency.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if !is_number(whole, WHOLE_DIGITS_MAX) || !is_number(fraction, FRACTION_DIGITS_MAX) || !is_name {
            return Err(CostCeilingFault);
        }
        let micros = format!("{whole}{fraction:0<FRACTION_DIGITS_MAX$}").parse().map_err(|_| CostCeilingFault)?;
        Ok(Self { micros, currency: currency.to_owned() })
    }

    /// The ceiling that a person wrote: `12.50 EUR`.
    pub fn read(text: &str) -> Result<Self, CostCeilingFault> {
        let (amount, currency) = text.trim().split_once(' ').ok_or(CostCeilingFault)?;
        Self::new(amount, currency.trim())
    }

    /// Millionths of the currency's unit.
    pub const fn micros(&self) -> u64 {
        self.micros
    }

    /// The ceiling in words: `12.50 EUR`.
    pub fn describe(&self) -> String {
        format!("{} {}", decimal(self.micros), self.currency)
    }

    /// Whether a call with this price is counted in its currency.
    pub fn counts(&self, price: Option<&Price>) -> bool {
        self.cost_micros(price).is_ok()
    }

    /// What a call with this price takes of it.
    pub(crate) fn cost_micros(&self, price: Option<&Price>) -> Result<u64, UncountedCost> {
        let price = price.ok_or(UncountedCost::Unknown)?;
        let micros = price.cost.total_micros().map_err(|_| UncountedCost::Unknown)?;
        if micros > 0 && price.currency != self.currency { Err(UncountedCost::OtherCurrency) } else { Ok(micros) }
    }
}

impl TryFrom<CostCeilingText> for CostCeiling {
    type Error = CostCeilingFault;

    fn try_from(text: CostCeilingText) -> Result<Self, CostCeilingFault> {
        Self::new(&text.amount, &text.currency)
    }
}

impl From<CostCeiling> for CostCeilingText {
    fn from(ceiling: CostCeiling) -> Self {
        Self { amount: decimal(ceiling.micros), currency: ceiling.currency }
    }
}
