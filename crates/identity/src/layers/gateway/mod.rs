//! The layers, carried over to a gateway: a tool of an upstream is its server's configured id and its raw name there, and stays
//! that however it is exposed. Exposed names are aliases that depend on nothing but that pair; lists come and go, names stay.
//!
//! What of the rules does not carry over: a namespace that equals a name is two equal texts here and nothing else, a lazily loaded
//! tool keeps its server, and approvals are about structure, never about text.

mod approval;
mod naming;
mod profile;
mod suggestion;
mod table;
#[cfg(test)]
mod tests;
mod tool;

pub use approval::ApprovalSubject;
pub use naming::{ExposedName, NamePolicy, NamingScheme};
pub use profile::NameLimitProfile;
pub use suggestion::near_names;
pub use table::{Generation, NameTable, NameTableEntry, NameTableUpdate, Resolution};
pub use tool::{UpstreamId, UpstreamTool};
