//! One tool of the catalog: its contract, and the renderings of it that lists show.

use std::sync::Arc;

use servanda_gates::CompiledContract;

use crate::listing::Renderings;

/// One tool.
#[derive(Debug)]
pub struct Entry {
    /// Its contract.
    pub contract: Arc<CompiledContract>,
    pub(crate) renderings: Renderings,
}
