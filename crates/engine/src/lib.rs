//! Takes a call from its request to its answer: resolve, gates, fence, perform, observe, record; and relays everything else that requesters
//! and upstreams say to each other, across both eras of the protocol.
//!
//! The engine decides nothing itself: gates decide, upstreams perform, the journal keeps. It puts their evidence in order, keeps the time,
//! and makes the one answer that every call gets. It knows no wire format of a door.
//!
//! `engine` builds the parts and hands each request to one: `call` takes a tool call through its stages, `relay` answers everything else.
//! Both speak with clients and upstreams through `bridge`; work that continues without its caller is in `deferred` and `long_running`.
//! Below them are `records`, `core` (what all parts share), `world` (tools and servers), `answers`, `questions` and `client`. Each uses
//! only what is below it.

mod answers;
mod approval_notices;
pub mod approvals;
mod bridge;
mod budgets;
mod cache;
mod call;
mod call_observer;
mod call_visibility;
pub mod callbacks;
mod client;
mod clock;
mod core;
mod deferred;
mod delivery_template;
mod engine;
mod gateway;
mod internal_call;
mod long_running;
mod outages;
pub mod oversight;
pub mod probes;
pub mod quarantine;
mod questions;
mod random;
mod records;
mod refused_calls;
mod relay;
mod secrets;
mod task_shape;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod trace;
mod world;

pub use call_observer::CallObserver;
pub use client::{
    AnswerDetail, CallAnswer, CallRequest, ChangeEvent, ClientMessage, ClientMessageSink, Inquiry, InquiryAnswer,
    InquirySubject, JUDGED_AT_ONCE_BYTES_MAX, PendingQuestion, RequestTerms, Requester, ResourceWatchGuard, ToolResult,
    local_authority,
};
pub use clock::SystemClock;
pub use engine::{Engine, EngineLimits, EngineParts};
pub use gateway::Gateway;
pub use long_running::{LONG_WAIT_MS_MAX, WorkProgress};
pub use questions::ClientQuestion;
pub use records::{CALL_LINES, DECISIONS};
pub use refused_calls::RefusedCallLimits;
pub use servanda_catalog::{
    ListedTool, Listing, ToolHold, ToolStanding,
    pins::{Difference, DifferenceSeverity},
};
pub use servanda_contract::{OperationKeys, expectation::Aims};
pub use servanda_effects::{InMemoryNotebook, Note, NoteKind, Notebook, PortFuture};
pub use servanda_upstream::QuestionReply;
pub use world::{
    World,
    authorities::{Authorities, AuthoritiesError, RecordedPolicyRequest, UpstreamTenants},
    discovery::{Discovery, UpstreamReachability, discover, list_items},
    names,
};
