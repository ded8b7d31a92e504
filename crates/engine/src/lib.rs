//! The way of a call, end to end: resolve, gates, fence, perform, observe, record; and of everything else that guests and
//! upstreams have to say to each other, across both eras of the protocol.
//!
//! The engine decides nothing itself: gates decide, upstreams perform, the journal keeps. It puts their evidence in order,
//! keeps the time, and makes the one answer every call gets. It knows no wire format of a door.

mod answer;
mod asking;
mod authorities;
mod bridge;
mod budgets;
mod cache;
mod call;
pub mod callbacks;
mod clock;
mod core;
mod destinations;
mod discovery;
mod engine;
mod expectations;
mod gateway;
mod keys;
mod late;
mod listed;
mod log_level;
pub mod names;
mod news;
mod observe;
mod outline;
mod past;
pub mod probes;
pub mod quarantine;
mod records;
mod recovery;
mod refusals;
mod refused_calls;
mod relay;
mod remark;
mod repairs;
mod resilience;
mod revocation;
mod scene;
mod seal;
mod secrets;
mod server;
mod sessions;
mod standing;
mod strict;
mod tasks;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod trace;
mod turns;
mod upstream_failure;
mod watch;
mod watches;
mod works;

pub use authorities::{Authorities, NoAuthorities, Recalled, Tenants};
pub use bridge::PutQuestion;
pub use clock::SystemClock;
pub use discovery::{Answering, Discovery, discover};
pub use engine::{Engine, EngineParts, LONG_WAIT_MS_MAX, Limits};
pub use gateway::{
    CallAnswer, CallRequest, Detail, Gateway, Guest, Inquiry, InquiryAnswer, JUDGED_AT_ONCE_BYTES_MAX, News, Subject,
    Terms, ToolResult, local_authority,
};
pub use listed::listed;
pub use records::CALL_LINES;
pub use refused_calls::RefusedLimits;
pub use remark::{Ask, Remark, RemarkSink};
pub use scene::World;
pub use servanda_catalog::{ListedTool, Listing};
pub use servanda_contract::{OperationKeys, expectation::Aims};
pub use servanda_effects::{FleetingNotebook, Note, NoteKind, Notebook, PortFuture};
pub use servanda_upstream::Reply;
pub use watch::Watch;
pub use works::Progress as WorkProgress;
