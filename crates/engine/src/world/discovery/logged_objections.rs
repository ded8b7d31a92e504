//! Remembers which objections to tools were logged: one line for each tool and contract, however often the server reconnects or the files
//! are reloaded.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

use servanda_catalog::{Catalog, StandingChange, ToolStanding};
use servanda_contract::Digest;

use super::operator_log;

/// How many objections are remembered. When there are more, all are forgotten and may be logged again.
const TOLD_MAX: usize = 10_000;

/// The logged objections, by exposed name and contract.
#[derive(Debug, Default)]
pub(crate) struct LoggedObjections {
    told: Mutex<BTreeSet<(String, Digest)>>,
}

impl LoggedObjections {
    /// Logs the objections to a tool's contract, unless they were logged before. Returns whether it logged them.
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
