//! What is the same for every job of a batch.

use servanda_effects::effect::{LedgerNow, LostWindow};

use super::recent_effects::SqliteRecentEffects;
use crate::{gathered_index::GatheredIndex, retention::UpkeepProgress};

/// The context of a batch.
#[derive(Debug)]
pub(super) struct BatchContext<'a> {
    pub(super) recent: &'a mut SqliteRecentEffects,
    pub(super) progress: &'a mut UpkeepProgress,
    /// What the records of the batch are found by and counted as.
    pub(super) index: &'a mut GatheredIndex,
    pub(super) now: LedgerNow,
    pub(super) lost_window: Option<LostWindow>,
}
