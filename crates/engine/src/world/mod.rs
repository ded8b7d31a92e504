//! The world in which the engine works: which tools exist, which servers perform them, the health of these servers, and what the operator
//! permits to whom.
//!
//! [`WorldSnapshot`] is one world; [`PresentWorld`] holds the one in force. Deliberately not here: calls, and what is stored about
//! clients.

pub(crate) mod authorities;
pub(crate) mod discovery;
mod exposure;
mod member;
pub mod names;
mod own_tool;
mod plan_tool;
mod present;
mod prompt_table;
pub(crate) mod resilience;
mod result_tool;
pub(crate) mod rules_in_force;
pub(crate) mod server;
mod snapshot;

pub use self::snapshot::World;
pub(crate) use self::{
    exposure::Exposure,
    member::{ToolTaskSupport, UpstreamMember, has},
    own_tool::OwnTool,
    plan_tool::{PLAN_TOOL, PlanToolArgs, PlannedToolCall, plan_tool_args},
    present::PresentWorld,
    prompt_table::PromptNames,
    result_tool::{RESULT_TOOL, result_tool_args},
    snapshot::WorldSnapshot,
};
