//! The layers of a tool's identity and the rules between them. The only place that has them; no caller makes its own.
//!
//! A tool has a public name, perhaps a namespace, a qualified name that is written, a lookup key by which it is found, texts that
//! approvals are filed under, a label in traces; each of its calls has an id. Each is a type of its own. All follow from the
//! definition or from the call's payload, and never from each other's text.
//!
//! `gateway` carries the rules over to upstream servers, whose identity is (server, tool) and whose exposed names are aliases.
//! Deciding a call is not done here, and nothing is kept beyond what a caller holds.

pub mod approval;
pub mod call;
pub mod collisions;
pub mod confusions;
pub mod defaults;
mod error;
pub mod exposure;
pub mod gateway;
mod key;
pub mod lookup;
mod names;
mod namespace;
#[cfg(test)]
mod tests;
mod tool;

pub use collisions::CollisionPolicy;
pub use error::{Fault, IdentityError, NameConflict};
pub use key::LookupKey;
pub use lookup::LookupTable;
pub use names::{Address, ExplicitNamespace, PublicName, QualifiedName, TraceName};
pub use namespace::NamespaceDeclaration;
pub use tool::{Handoff, Loading, NameSource, Tool, ToolIdentity, ToolKind};
