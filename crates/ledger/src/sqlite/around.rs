//! What holds for every job of a batch, whichever job it is.

use servanda_effects::effect::{LedgerNow, LostWindow};

use super::recent::Recent;
use crate::retention::Progress;

/// What is true around a batch.
#[derive(Debug)]
pub(super) struct Around<'a> {
    pub(super) recent: &'a mut Recent,
    pub(super) progress: &'a mut Progress,
    pub(super) now: LedgerNow,
    pub(super) lost_window: Option<LostWindow>,
}
