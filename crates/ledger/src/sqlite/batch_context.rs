//! What is the same for every job of a batch.

use servanda_effects::effect::{LedgerNow, LostWindow};

use super::{additions::BatchAdditions, recent_effects::SqliteRecentEffects};
use crate::retention::UpkeepProgress;

/// The context of a batch.
#[derive(Debug)]
pub(super) struct BatchContext<'a> {
    pub(super) recent: &'a mut SqliteRecentEffects,
    pub(super) progress: &'a mut UpkeepProgress,
    /// What is written beside the rows of its jobs.
    pub(super) additions: &'a mut BatchAdditions,
    pub(super) now: LedgerNow,
    pub(super) lost_window: Option<LostWindow>,
}
