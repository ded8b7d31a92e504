//! The nouns of Servanda and the laws they obey: contracts, proposals, refusals, observations, records, strict JSON and
//! digests.
//!
//! Everything here takes values and returns values. There is deliberately no I/O, no clock and no wire protocol: callers open
//! the files and hand in text and timestamps, and `servanda-mcp` speaks MCP.

pub mod admission;
pub mod caller;
pub mod cost;
pub mod digest;
pub mod document;
pub mod expectation;
pub mod faults;
pub mod feedback;
pub mod json;
pub mod layers;
pub mod legibility;
pub mod network;
pub mod observation;
pub mod pool;
pub mod preview;
pub mod proposal;
pub mod record;
pub mod refusal;
pub mod schema;
pub mod schemas;
pub mod shared;
pub mod taxonomy;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
pub mod time;
pub mod tool;
pub mod trace;
pub mod unique;

pub use caller::{Caller, CallerActor};
pub use digest::Digest;
pub use feedback::Feedback;
pub use observation::Observation;
pub use preview::CallPreview;
pub use proposal::{CallId, OperationKeys, Proposal};
pub use record::CallRecord;
pub use refusal::{FieldError, GateName, Refusal};
pub use taxonomy::TaxonomyClass;
pub use time::Timestamp;
pub use tool::ToolContract;
