//! One call: its id, what it asks for, and its wire form. A call id names one invocation and never a tool; it is a text that
//! the provider chose and is never derived from anything else.
//!
//! The ids of JSON-RPC requests are another layer and not handled here.

mod hosted;
mod ids;
mod invocation;
mod items;
mod ledger;
mod meaning;
mod wire;

pub use hosted::{HostedRequest, HostedTool};
pub use ids::{CallId, id_of_payload};
pub use invocation::{Invocation, Scope};
pub use items::{InvocationKind, id_of_approval_item, invocation_of, output_of};
pub use ledger::{CallLedger, CallState};
pub use wire::{restore_namespace, without_synthetic_namespace};
