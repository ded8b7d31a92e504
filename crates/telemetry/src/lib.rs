//! What operators measure: metrics and spans, both made of the finished records of calls.
//!
//! Deliberately not here: who may read them, arguments and results, and anything that decides about a call.

pub mod metrics;
pub mod traces;
