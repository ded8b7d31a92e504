//! The pages of calls: the list with its filters, news of it, and one call gate by gate.

pub(crate) mod call;
mod copy;
mod filter;
mod line;
pub(crate) mod list;
pub(crate) mod tail;
mod waterfall;
