//! The way of a call, end to end: resolve, gates, fence, perform, observe, record.
//!
//! The engine decides nothing itself: gates decide, upstreams perform, the journal keeps. It puts their evidence in order,
//! keeps the time, and makes the one answer every call gets. It knows no wire format of a door.

mod answer;
mod clock;
mod discovery;
mod engine;
mod gateway;
mod observe;
mod refusals;
mod repairs;
#[cfg(test)]
mod tests;
mod trace;
mod upstream_failure;
mod watch;

pub use clock::SystemClock;
pub use discovery::{Discovery, discover};
pub use engine::{Engine, EngineParts, Limits};
pub use gateway::{CallAnswer, CallRequest, Gateway, Guest, Inquiry, InquiryAnswer, News, Subject, Terms, ToolResult};
pub use servanda_catalog::{ListedTool, Listing};
pub use servanda_gates::{FleetingNotebook, Note, NoteKind, Notebook};
pub use servanda_upstream::{Ask, Remark, RemarkSink, Reply};
pub use watch::Watch;
