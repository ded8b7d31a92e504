//! The layers of a tool's identity and the rules between them, as clients on a wire with namespaces have them.
//!
//! A tool has a public name, perhaps a namespace, a written qualified name, a lookup key, texts that approvals are filed under,
//! and a label in traces; each of its calls has an id. Each is its own type. All are derived from the definition or from the
//! call's payload, and never from each other's text.
//!
//! This is a proof and not a part of the gateway: it shows by vectors and by laws that the names that the gateway gives
//! (`servanda_identity::layers::gateway`) follow rules that hold on such wires too. This crate decides no call and keeps no
//! state of its own.

pub mod approval;
pub mod call;
pub mod collisions;
pub mod defaults;
mod error;
pub mod exposure;
mod key;
pub mod lookup;
mod namespace;
#[cfg(test)]
mod tests;
mod tool;

pub use collisions::CollisionPolicy;
pub use error::{Fault, IdentityError, NameConflict};
pub use key::LookupKey;
pub use lookup::LookupTable;
pub use namespace::{NamespaceDeclaration, check_shape};
pub use servanda_identity::layers::{ExplicitNamespace, PublicName, QualifiedName, ToolAddress, TraceName};
pub use tool::{Handoff, Loading, NameSource, Tool, ToolIdentity, ToolKind};
