//! The catalog: exposed name to admitted contract, and what each upstream offers right now.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, PoisonError, RwLock},
};

use servanda_gates::CompiledContract;
use tokio::sync::watch;

use crate::{ListedTool, Listing, names::Naming};

/// How alike a name must be to be suggested.
const LIKENESS_MIN: f64 = 0.6;

/// Every tool there is.
#[derive(Debug)]
pub struct Catalog {
    entries: BTreeMap<String, Entry>,
    /// What each upstream was last seen to offer; absent until it was asked.
    live: RwLock<BTreeMap<String, BTreeSet<String>>>,
    listing: RwLock<Arc<Listing>>,
    changes: watch::Sender<u64>,
}

/// One tool.
#[derive(Debug)]
pub struct Entry {
    /// Its contract.
    pub contract: Arc<CompiledContract>,
    definition: ListedTool,
}

/// Whether an upstream offers a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Availability {
    /// Nobody has asked it yet.
    Unasked,
    /// It does.
    Offered,
    /// It was asked and does not.
    Withdrawn,
}

/// Contracts that cannot be in one catalog.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// Two contracts would have one name.
    #[error("contracts `{one}` and `{other}` would both be exposed as `{name}`")]
    SameName {
        /// The exposed name.
        name: String,
        /// A contract.
        one: String,
        /// Another.
        other: String,
    },
    /// A definition cannot be rendered.
    #[error("contract `{contract}` cannot be listed: {reason}")]
    Definition {
        /// Which.
        contract: String,
        /// Why.
        reason: String,
    },
}

/// A name that means no tool, or one its upstream has withdrawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotResolved {
    /// Never heard of.
    Unknown {
        /// The name that was probably meant.
        did_you_mean: Option<String>,
    },
    /// There is a contract, but the upstream does not offer the tool any more.
    Withdrawn {
        /// Which upstream.
        upstream: String,
    },
}

impl Catalog {
    /// A catalog of admitted contracts.
    pub fn new(contracts: impl IntoIterator<Item = CompiledContract>, naming: Naming) -> Result<Self, CatalogError> {
        let mut entries: BTreeMap<String, Entry> = BTreeMap::new();
        for contract in contracts {
            let binding = &contract.contract().binding;
            let name = naming.expose(&binding.upstream, &binding.tool);
            if let Some(other) = entries.get(&name) {
                let of = |contract: &CompiledContract| contract.contract().identity.name.clone();
                return Err(CatalogError::SameName { name, one: of(&other.contract), other: of(&contract) });
            }
            let definition = ListedTool::render(&name, &contract).map_err(|error| CatalogError::Definition {
                contract: contract.contract().identity.name.clone(),
                reason: error.to_string(),
            })?;
            entries.insert(name, Entry { contract: Arc::new(contract), definition });
        }
        let listing =
            Listing { generation: 0, tools: entries.values().map(|entry| entry.definition.clone()).collect() };
        Ok(Self {
            entries,
            live: RwLock::default(),
            listing: RwLock::new(Arc::new(listing)),
            changes: watch::Sender::new(0),
        })
    }

    /// The contract an exposed name means. There is no fallback of any kind.
    pub fn resolve(&self, name: &str) -> Result<Arc<CompiledContract>, NotResolved> {
        let Some(entry) = self.entries.get(name) else {
            return Err(NotResolved::Unknown { did_you_mean: self.nearest(name) });
        };
        match self.availability(entry) {
            Availability::Withdrawn => {
                Err(NotResolved::Withdrawn { upstream: entry.contract.contract().binding.upstream.clone() })
            }
            Availability::Unasked | Availability::Offered => Ok(entry.contract.clone()),
        }
    }

    /// Every tool with its exposed name, in order.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.entries.iter().map(|(name, entry)| (name.as_str(), entry))
    }

    /// Whether the upstream offers it.
    pub fn availability(&self, entry: &Entry) -> Availability {
        let binding = &entry.contract.contract().binding;
        let live = self.live.read().unwrap_or_else(PoisonError::into_inner);
        match live.get(&binding.upstream) {
            None => Availability::Unasked,
            Some(tools) if tools.contains(&binding.tool) => Availability::Offered,
            Some(_) => Availability::Withdrawn,
        }
    }

    /// The list agents see now.
    pub fn listing(&self) -> Arc<Listing> {
        self.listing.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Bumped whenever the list changes.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Takes note of what an upstream offers. An upstream that is only down keeps its tools: nothing is forgotten because
    /// a process died.
    pub fn observe(&self, upstream: &str, tools: impl IntoIterator<Item = String>) {
        let tools: BTreeSet<String> = tools.into_iter().collect();
        // Taken first and held: of two upstreams that change at once, the list of neither may be published without the other.
        let mut listing = self.listing.write().unwrap_or_else(PoisonError::into_inner);
        self.live.write().unwrap_or_else(PoisonError::into_inner).insert(upstream.to_owned(), tools);
        let offered = self.entries.values().filter(|entry| self.availability(entry) != Availability::Withdrawn);
        let tools: Vec<ListedTool> = offered.map(|entry| entry.definition.clone()).collect();
        let same = listing.tools.iter().map(|tool| &tool.name).eq(tools.iter().map(|tool| &tool.name));
        if !same {
            let generation = listing.generation + 1;
            *listing = Arc::new(Listing { generation, tools });
            self.changes.send_replace(generation);
        }
    }

    fn nearest(&self, name: &str) -> Option<String> {
        let own_name = |exposed: &str| exposed.rsplit("__").next().unwrap_or(exposed).to_owned();
        self.entries
            .keys()
            .map(|exposed| {
                let whole = strsim::normalized_damerau_levenshtein(name, exposed);
                // A model that dropped the prefix meant the tool behind it.
                let part = strsim::normalized_damerau_levenshtein(name, &own_name(exposed));
                (whole.max(part), exposed)
            })
            // `read_file` must never be answered with `write_file`: a verb is not a misspelling of another.
            .filter(|(likeness, exposed)| *likeness >= LIKENESS_MIN && same_verb(name, exposed))
            .max_by(|(one, _), (other, _)| one.total_cmp(other))
            .map(|(_, exposed)| exposed.clone())
    }
}

/// Whether the words of a wanted name are misspellings of the exposed name's words, and not other words.
fn same_verb(wanted: &str, exposed: &str) -> bool {
    const WORD_LIKENESS_MIN: f64 = 0.6;
    let words = |name: &str| -> Vec<String> {
        let plain = name.split(|character: char| !character.is_alphanumeric());
        plain.filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
    };
    let exposed = words(exposed);
    words(wanted).iter().all(|word| {
        exposed.iter().any(|known| strsim::normalized_damerau_levenshtein(word, known) >= WORD_LIKENESS_MIN)
    })
}
