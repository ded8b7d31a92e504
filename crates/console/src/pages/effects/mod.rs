//! The pages of effects: the list, one effect, and the form by which a person settles one.

pub(crate) mod list;
pub(crate) mod one;
pub(crate) mod settle;
mod state_words;
