//! The layers of a tool's identity: what callers say (a name, perhaps a namespace) and what is written for others to read.
//!
//! `gateway` applies the rules to upstream servers, whose identity is (server, tool) and whose exposed names are aliases.
//! `confusions` finds tools that a model may confuse. This module decides no call and keeps no state of its own. The rest of
//! the layers (lookup keys, approvals, call ids) and the vectors that prove the rules are in `trials/tool-identity`.

pub mod confusions;
pub mod gateway;
mod names;

pub use names::{ExplicitNamespace, PublicName, QualifiedName, ToolAddress, TraceName};
