//! Which tools exist: their exposed names, their admitted contracts, whether their upstream offers them now, and what a
//! contract for a newly discovered tool should say.
//!
//! The catalog decides no call. A tool without an admitted contract does not exist here, whatever its upstream says.

mod catalog;
mod entry;
pub mod in_parallel;
pub mod inference;
mod inventory;
mod knowledge;
mod listing;
pub mod name_store;
pub mod names;
pub mod negotiation;
pub mod pins;
mod profile;
mod review;
mod standing;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use catalog::{Catalog, CatalogError, ResolveError};
pub use entry::CatalogEntry;
pub use inventory::{Inventory, RejectedDefinition};
pub use knowledge::StandingChange;
pub use listing::{ListedDisposition, ListedTool, Listing};
pub use profile::Viewer;
pub use review::review;
pub use standing::{Availability, HeldTool, ToolHold, ToolStanding};
