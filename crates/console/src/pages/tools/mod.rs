//! The pages of tools: the list, one tool with its contract, its pin and what changed since, and the form that holds it back or releases it.
//!
//! Deliberately not here: agreeing to a changed definition. Pins are in the lock file, which is the operator's and reviewed like code.

mod changes;
pub(crate) mod hold;
mod hold_history;
pub(crate) mod list;
pub(crate) mod one;
mod standing_words;
