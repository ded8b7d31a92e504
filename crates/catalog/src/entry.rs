//! One tool of the catalog: its contract, and its renderings for lists.

use std::sync::Arc;

use servanda_gates::CompiledContract;

use crate::listing::ToolRenderings;

/// One tool.
#[derive(Debug)]
pub struct CatalogEntry {
    /// Its contract.
    pub contract: Arc<CompiledContract>,
    pub(crate) renderings: ToolRenderings,
}
