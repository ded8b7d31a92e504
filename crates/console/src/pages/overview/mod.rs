//! The overview: how the tenant's calls ended lately, how long they took, where they were refused, what waits for a person, and what calls may
//! have cost. Everything comes from counts that are written with the records, so that the page costs the same however many calls there are.

mod chart;
pub(crate) mod page;
mod range;
mod sums;
