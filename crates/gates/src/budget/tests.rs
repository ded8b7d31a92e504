//! Rates, and what a call draws on. The gate itself is tested with the others, in `tests/charge.rs`.

mod draws;
mod rates;
