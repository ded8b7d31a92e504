//! The layers, applied to a gateway: a tool of an upstream is identified by its server's configured id and its raw name there,
//! however it is exposed. Exposed names are aliases that depend only on that pair; lists change, names stay.
//!
//! Rules that do not apply here: a namespace that equals a name is just two equal texts, a lazily loaded tool keeps its server,
//! and approvals are about structure, never about text.

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
