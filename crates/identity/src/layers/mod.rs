//! The layers of a tool's identity: what callers say (a name, perhaps a namespace) and what is written for others to read.
//!
//! `gateway` carries the rules over to upstream servers, whose identity is (server, tool) and whose exposed names are aliases.
//! `confusions` finds tools that a model takes for each other. Deciding a call is not done here, and nothing is kept beyond what a
//! caller holds. The rest of the layers (lookup keys, approvals, call ids) and the vectors that prove the rules are in
//! `trials/tool-identity`.

pub mod confusions;
pub mod gateway;
mod names;

pub use names::{ExplicitNamespace, PublicName, QualifiedName, ToolAddress, TraceName};
