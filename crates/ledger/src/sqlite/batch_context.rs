//! What holds for every job of a batch, whichever job it is.

use servanda_effects::effect::{LedgerNow, LostWindow};

use super::recent_effects::SqliteRecentEffects;
use crate::retention::UpkeepProgress;

/// What is true around a batch.
#[derive(Debug)]
pub(super) struct BatchContext<'a> {
    pub(super) recent: &'a mut SqliteRecentEffects,
    pub(super) progress: &'a mut UpkeepProgress,
    pub(super) now: LedgerNow,
    pub(super) lost_window: Option<LostWindow>,
}
