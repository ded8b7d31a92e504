//! Which doubts about tools the log has had: one line for a tool and its contract, however often its server comes back and
//! however often the files are read again.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

use servanda_catalog::{Catalog, StandingChange, ToolStanding};
use servanda_contract::Digest;

use super::operator_log;

/// Doubts that are remembered; where there are more, all are told again.
const TOLD_MAX: usize = 10_000;

/// What was told, by exposed name and contract.
#[derive(Debug, Default)]
pub(crate) struct LoggedObjections {
    told: Mutex<BTreeSet<(String, Digest)>>,
}

impl LoggedObjections {
    /// Tells who objects to a tool's contract, if anybody does and it was not told before. Says whether it was.
    pub(super) fn log_once(&self, change: &StandingChange, catalog: &Catalog) -> bool {
        let ToolStanding::Offered { objections, .. } = &*change.now else { return false };
        let Some(entry) = catalog.entry(&change.tool).filter(|_| !objections.is_empty()) else { return false };
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() >= TOLD_MAX {
            told.clear();
        }
        let first = told.insert((change.tool.clone(), entry.contract.digest()));
        if first {
            let told: Vec<String> = objections.iter().map(ToString::to_string).collect();
            operator_log::log_objections(change, &told.join("; "));
        }
        first
    }
}
