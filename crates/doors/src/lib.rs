//! MCP as a server, over Streamable HTTP and over stdio, both eras on one endpoint.
//!
//! Responsible for the wire only: which era a message belongs to, whether it is well formed, whose it is, and in which
//! form its answer goes back. The [`servanda_engine::Gateway`] decides whether a call may happen and what it answers:
//! arguments pass through as the bytes that arrived, tool definitions and results as the strings they are. Deliberately
//! absent: what resources, prompts, completions and tasks mean, which is the gateway's business, and authentication,
//! which an authenticator does for the door.

mod client;
mod client_messages;
mod dispatch;
mod era;
mod fault;
mod in_flight;
mod limits;
mod listen;
mod notifications;
mod page;
mod params;
mod questions;
mod request;
mod request_channels;
mod running_request;
mod server_info;
mod session;
mod slots;
mod splice;

pub mod for_engine;
pub mod http;
pub mod stdio;

pub use http::{HttpOptions, SESSION_IDLE_MS_MAX, ServingOptions};
pub use server_info::ServerIdentity;
pub use stdio::StdioOptions;
