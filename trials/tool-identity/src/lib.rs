//! The layers of a tool's identity and the rules between them, as clients that speak a wire with namespaces have them.
//!
//! A tool has a public name, perhaps a namespace, a qualified name that is written, a lookup key by which it is found, texts that
//! approvals are filed under, a label in traces; each of its calls has an id. Each is a type of its own. All follow from the
//! definition or from the call's payload, and never from each other's text.
//!
//! This is a proof and not a part of the gateway: it shows by vectors and by laws that the names the gateway gives
//! (`servanda_identity::layers::gateway`) keep to rules that hold on such wires too. Deciding a call is not done here, and nothing
//! is kept beyond what a caller holds.

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
