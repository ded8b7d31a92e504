//! What is the same for every job of a batch.

use servanda_effects::effect::{LedgerNow, LostWindow};

use super::recent_effects::SqliteRecentEffects;
use crate::retention::UpkeepProgress;

/// The context of a batch.
#[derive(Debug)]
pub(super) struct BatchContext<'a> {
    pub(super) recent: &'a mut SqliteRecentEffects,
    pub(super) progress: &'a mut UpkeepProgress,
    pub(super) now: LedgerNow,
    pub(super) lost_window: Option<LostWindow>,
}
