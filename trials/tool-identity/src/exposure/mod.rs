//! Names under which tools of MCP servers are exposed beside local ones, as clients on the Responses wire do it: prefixed with
//! their server and made unique within a batch, or passed through.
//!
//! A prefixed name depends on the other tools in the batch. A gateway whose lists change uses `gateway` instead.

mod batch;
mod inventory;
mod parts;

pub use batch::{ExposedTool, ListedServer, prefixed, unprefixed};
pub use inventory::{Exposure, Inventory, Origin, expose};
pub use parts::{base_name, safe_part, shorten};
