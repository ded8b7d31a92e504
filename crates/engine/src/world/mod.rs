//! The world the engine works in: which tools exist, who performs them, how they have been doing, and what the operator lets whom do.
//!
//! [`WorldSnapshot`] is one world; [`PresentWorld`] has the one that is in force. Deliberately not here: calls, and what is kept about clients.

pub(crate) mod authorities;
pub(crate) mod discovery;
mod exposure;
mod member;
pub mod names;
mod present;
mod prompt_table;
pub(crate) mod resilience;
mod result_tool;
pub(crate) mod server;
mod snapshot;

pub use self::snapshot::World;
pub(crate) use self::{
    exposure::Exposure,
    member::{ToolTaskSupport, UpstreamMember, has},
    present::PresentWorld,
    prompt_table::PromptNames,
    result_tool::{RESULT_TOOL, result_tool_args},
    snapshot::WorldSnapshot,
};
