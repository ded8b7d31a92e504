//! Wire in, wire out: MCP as a server, over Streamable HTTP and over stdio, both eras on one endpoint.
//!
//! Responsible for the wire only: which era a message belongs to, whether it is well formed, whose it is, and in which
//! form its answer goes back. Whether a call may happen and what it answers is the [`servanda_engine::Gateway`]'s
//! business: arguments pass through as the bytes that arrived, tool definitions and results as the strings they are.
//! Deliberately absent: what resources, prompts, completions and tasks mean, which is all the gateway's, and authentication:
//! who calls is told to the door.

mod client;
mod dispatch;
mod era;
mod fault;
mod greeting;
mod in_flight;
mod limits;
mod listen;
mod notifications;
mod page;
mod params;
mod places;
mod questions;
mod remarks;
mod request;
mod running;
mod session;
mod splice;
mod terms;

pub mod for_engine;
pub mod http;
pub mod stdio;

pub use greeting::ServerIdentity;
pub use http::{HttpOptions, SESSION_IDLE_MS_MAX, Serving};
pub use stdio::StdioOptions;
