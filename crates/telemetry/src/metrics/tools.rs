//! Which series belong to a call: found by its contract's digest, so that a call of a known contract asks for no memory.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use servanda_contract::{Digest, record::ContractReference};

use super::{
    ContractFactSource, ContractFacts,
    labels::{NO_TOOL, OTHER, cut},
    tool_series::ToolSeries,
};

/// Digests that are remembered for each series that there may be: contracts change without a new version.
const DIGESTS_PER_SERIES: usize = 4;

/// The series of all tools.
#[derive(Debug)]
pub(super) struct Tools {
    series_max: usize,
    facts: Arc<dyn ContractFactSource>,
    by_contract: RwLock<HashMap<Digest, Arc<ToolSeries>>>,
    by_labels: Mutex<BTreeMap<ToolLabels, Arc<ToolSeries>>>,
    /// For calls whose name means no tool.
    none: Arc<ToolSeries>,
    /// For calls of tools that came too late to have series of their own.
    other: Arc<ToolSeries>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ToolLabels {
    tool: String,
    version: String,
    facts: ContractFacts,
}

impl Tools {
    pub(super) fn new(series_max: usize, facts: Arc<dyn ContractFactSource>) -> Self {
        let fixed = |tool| Arc::new(ToolSeries::new(tool, "", ContractFacts::default()));
        Self {
            series_max,
            facts,
            by_contract: RwLock::default(),
            by_labels: Mutex::default(),
            none: fixed(NO_TOOL),
            other: fixed(OTHER),
        }
    }

    /// The series for all others.
    pub(super) fn other(&self) -> &ToolSeries {
        &self.other
    }

    /// The series of a contract; those of no tool without one.
    pub(super) fn of(&self, contract: Option<&ContractReference>) -> Arc<ToolSeries> {
        let Some(contract) = contract else { return Arc::clone(&self.none) };
        let known = self.by_contract.read().unwrap_or_else(PoisonError::into_inner).get(&contract.digest).cloned();
        known.unwrap_or_else(|| self.begun(contract))
    }

    /// Every series that there is, with that for all others.
    pub(super) fn all(&self) -> Vec<Arc<ToolSeries>> {
        let known = self.by_labels.lock().unwrap_or_else(PoisonError::into_inner);
        known.values().chain([&self.none, &self.other]).cloned().collect()
    }

    /// How many digests are remembered.
    #[cfg(test)]
    pub(super) fn contracts_known(&self) -> usize {
        self.by_contract.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// The series of a contract that is not known yet. Two contracts with equal labels have the same.
    fn begun(&self, contract: &ContractReference) -> Arc<ToolSeries> {
        let facts = self.facts.facts(contract).unwrap_or_else(|| ContractFacts::of_effect_class(contract.effect_class));
        let (tool, version) = (cut(&contract.name), cut(&contract.version));
        let labels = ToolLabels { tool: tool.to_owned(), version: version.to_owned(), facts };
        let mut known = self.by_labels.lock().unwrap_or_else(PoisonError::into_inner);
        let series = match known.get(&labels) {
            Some(series) => Arc::clone(series),
            None if known.len() >= self.series_max => Arc::clone(&self.other),
            None => {
                let series = Arc::new(ToolSeries::new(tool, version, facts));
                known.insert(labels, Arc::clone(&series));
                series
            }
        };
        drop(known);
        let mut by_contract = self.by_contract.write().unwrap_or_else(PoisonError::into_inner);
        if by_contract.len() >= self.series_max.saturating_mul(DIGESTS_PER_SERIES) {
            by_contract.clear();
        }
        by_contract.insert(contract.digest, Arc::clone(&series));
        series
    }
}
