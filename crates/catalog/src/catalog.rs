//! The catalog: maps exposed names to admitted contracts, and knows each tool's standing for each client.
//!
//! Contracts and their names stay for the life of a catalog. The next catalog takes over the table of names, so that an earlier
//! name means its tool or nothing. Knowledge about upstreams changes; every change replaces the lists that agents see as a
//! whole, so that no agent ever sees half of one.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use servanda_contract::{legibility::skeleton, shared::Shared};
use servanda_gates::CompiledContract;
use servanda_identity::layers::gateway::{Resolution, near_names};
use servanda_mcp::Era;
use tokio::sync::watch;

use crate::{
    CatalogEntry, HeldTool, Inventory, Listing, ToolHold,
    knowledge::{CatalogKnowledge, StandingChange},
    listing::ToolRenderings,
    names::{self, NamePolicy, NameTable, RESERVED_PREFIX, RETIRED_NAMES_MAX, upstream_tool},
    pins::{Definition, ItemVisibility, ListedKind, LockFile, Pins},
    profile::{ClientProfile, Viewer},
    standing::ToolStanding,
};

/// Every tool there is.
#[derive(Debug)]
pub struct Catalog {
    entries: BTreeMap<String, CatalogEntry>,
    names: NameTable,
    knowledge: RwLock<CatalogKnowledge>,
    changes: watch::Sender<u64>,
}

/// Contracts that cannot be in one catalog.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// Two contracts would have the same name.
    #[error("contracts `{one}` and `{other}` would both be exposed as `{name}`")]
    SameName {
        /// The exposed name.
        name: String,
        /// A contract.
        one: String,
        /// Another.
        other: String,
    },
    /// The exposed name has the prefix of the gateway's own tools.
    #[error(
        "contract `{contract}` would be exposed as `{name}`; names that begin with `{RESERVED_PREFIX}` are the gateway's own"
    )]
    Reserved {
        /// The contract.
        contract: String,
        /// The exposed name.
        name: String,
    },
    /// Every name that the tool could have belonged to another tool before.
    #[error(
        "there is no name for the tool of contract `{contract}`: every name it could have belonged to another tool before"
    )]
    NoName {
        /// The contract.
        contract: String,
    },
    /// Two contracts would have names that look the same.
    #[error("`{one}` and `{other}` look alike, and an agent or a person would mistake one for the other")]
    Lookalike {
        /// An exposed name.
        one: String,
        /// Another.
        other: String,
    },
    /// A definition cannot be rendered.
    #[error("contract `{contract}` cannot be listed: {reason}")]
    Definition {
        /// The contract.
        contract: String,
        /// The reason.
        reason: String,
    },
}

/// Why a name does not resolve to a tool that may be called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResolveError {
    /// No catalog ever had this name.
    Unknown {
        /// The name that was probably meant.
        did_you_mean: Option<String>,
    },
    /// The name meant a tool that no longer has a contract.
    Gone {
        /// The upstream of the tool.
        upstream: String,
    },
    /// The tool has a contract, but the upstream does not offer the tool to this client, or no longer does.
    Withdrawn {
        /// The upstream.
        upstream: String,
    },
    /// The tool has a contract and is offered, but it is held.
    Held {
        /// The reason.
        hold: ToolHold,
    },
}

impl Catalog {
    /// A catalog of admitted contracts without pins.
    pub fn new(
        contracts: impl IntoIterator<Item = CompiledContract>,
        policy: impl Into<NamePolicy>,
    ) -> Result<Self, CatalogError> {
        Self::pinned(contracts, policy, Pins::default())
    }

    /// A catalog of admitted contracts and the pins of their tools.
    pub fn pinned(
        contracts: impl IntoIterator<Item = CompiledContract>,
        policy: impl Into<NamePolicy>,
        pins: Pins,
    ) -> Result<Self, CatalogError> {
        let policy = policy.into();
        let nothing = NameTable::new(policy.clone(), RETIRED_NAMES_MAX);
        Self::build(contracts.into_iter().map(Arc::new).collect(), nothing, policy, pins, &BTreeMap::new())
    }

    /// The same contracts, with names that continue an earlier table. What upstreams offer must be observed again.
    pub fn with_names_after(&self, earlier: &NameTable) -> Result<Self, CatalogError> {
        let contracts = self.entries.values().map(|entry| Arc::clone(&entry.contract)).collect();
        let policy = self.names.policy().clone();
        Self::build(contracts, earlier.clone(), policy, self.read().pins().clone(), &self.entries)
    }

    fn build(
        contracts: Vec<Arc<CompiledContract>>,
        mut names: NameTable,
        policy: NamePolicy,
        pins: Pins,
        rendered: &BTreeMap<String, CatalogEntry>,
    ) -> Result<Self, CatalogError> {
        let tool_of = |contract: &CompiledContract| {
            let binding = &contract.contract().binding;
            upstream_tool(&binding.upstream, &binding.tool)
        };
        one_each(&contracts, |contract| policy.name(&tool_of(contract)).to_string())?;
        names.replace_policy_and_tools(policy, contracts.iter().map(|contract| tool_of(contract)));
        let mut entries: BTreeMap<String, CatalogEntry> = BTreeMap::new();
        for contract in contracts {
            let of = || contract.contract().identity.name.clone();
            let name = names.name_of(&tool_of(&contract)).ok_or_else(|| CatalogError::NoName { contract: of() })?;
            if names::is_reserved(name.as_str()) {
                return Err(CatalogError::Reserved { contract: of(), name: name.to_string() });
            }
            // Most tools keep their names, so their rendering is reused.
            let before = rendered.get(name.as_str()).filter(|entry| Arc::ptr_eq(&entry.contract, &contract));
            let renderings = match before {
                Some(entry) => entry.renderings.clone(),
                None => ToolRenderings::new(name.as_str(), &contract)
                    .map_err(|error| CatalogError::Definition { contract: of(), reason: error.to_string() })?,
            };
            entries.insert(name.to_string(), CatalogEntry { contract, renderings });
        }
        distinct(&entries)?;
        let knowledge = RwLock::new(CatalogKnowledge::new(pins, &entries));
        Ok(Self { entries, names, knowledge, changes: watch::Sender::new(0) })
    }

    /// The contract that an exposed name means to a client. A name of an earlier list means the tool that it meant there, and
    /// no other. There is no other fallback.
    pub fn resolve<'v>(
        &self,
        name: &str,
        viewer: impl Into<Viewer<'v>>,
    ) -> Result<Arc<CompiledContract>, ResolveError> {
        let Some((name, entry)) = self.named(name) else { return Err(self.unnamed(name)) };
        match &*self.read().standing(name, entry, &ClientProfile::from_viewer(viewer)) {
            ToolStanding::Unasked | ToolStanding::Offered { .. } => Ok(entry.contract.clone()),
            ToolStanding::Withdrawn => {
                Err(ResolveError::Withdrawn { upstream: entry.contract.contract().binding.upstream.clone() })
            }
            ToolStanding::Held(hold) => Err(ResolveError::Held { hold: hold.clone() }),
        }
    }

    /// Every tool with its exposed name, in order.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &CatalogEntry)> {
        self.entries.iter().map(|(name, entry)| (name.as_str(), entry))
    }

    /// The tool that an exposed name means now or meant in an earlier list.
    pub fn entry(&self, name: &str) -> Option<&CatalogEntry> {
        self.named(name).map(|(_, entry)| entry)
    }

    /// The present name of the tool that an exposed name means.
    pub fn present_name(&self, name: &str) -> Option<&str> {
        self.named(name).map(|(name, _)| name)
    }

    /// The table of present and earlier names.
    pub fn names(&self) -> &NameTable {
        &self.names
    }

    /// A tool's standing for a client; an unknown name counts as unasked.
    pub fn standing<'v>(&self, name: &str, viewer: impl Into<Viewer<'v>>) -> Arc<ToolStanding> {
        match self.named(name) {
            Some((name, entry)) => self.read().standing(name, entry, &ClientProfile::from_viewer(viewer)),
            None => Arc::new(ToolStanding::Unasked),
        }
    }

    /// The list a client sees now.
    pub fn listing<'v>(&self, viewer: impl Into<Viewer<'v>>) -> Arc<Listing> {
        self.read().listing(&ClientProfile::from_viewer(viewer))
    }

    /// Bumped whenever a list changes.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// The upstreams whose part of some list changed after that generation.
    pub fn changed_since(&self, generation: u64) -> BTreeSet<String> {
        self.read().changed_since(generation)
    }

    /// Records what an upstream offers to a client and to clients with the same profile. Returns the tools whose standing
    /// changed.
    pub fn observe<'v>(
        &self,
        upstream: &str,
        viewer: impl Into<Viewer<'v>>,
        inventory: &Inventory,
    ) -> Vec<StandingChange> {
        self.learn(|knowledge| {
            knowledge.observe(&self.entries, upstream, &ClientProfile::from_viewer(viewer), inventory)
        })
    }

    /// Makes an upstream's definition share memory with its pin where both are equal.
    pub fn unify(&self, upstream: &str, live: &mut Shared<Definition>) {
        self.read().pins().unify(upstream, live);
    }

    /// Holds exactly these tools, whatever their upstreams say. Returns the tools whose standing changed.
    pub fn quarantine(&self, held: &[HeldTool]) -> Vec<StandingChange> {
        self.learn(|knowledge| knowledge.quarantine(&self.entries, held))
    }

    /// Records that an upstream does not answer. Its tools stay listed: nothing is forgotten because a process died.
    pub fn mark_unreachable(&self, upstream: &str, why: &str) {
        self.learn(|knowledge| knowledge.mark_unreachable(&self.entries, upstream, why));
    }

    /// Records that an upstream may offer something else now. When a client asks for the list again, the upstream is asked
    /// again.
    pub fn mark_stale(&self, upstream: &str) {
        self.learn(|knowledge| knowledge.mark_stale(upstream));
    }

    /// Forgets what an upstream offers per profile to clients of an era, because it offers the same to all of them.
    pub fn forget_profiles(&self, upstream: &str, era: Era) {
        if self.read().has_profiles(upstream, era) {
            self.learn(|knowledge| knowledge.forget_profiles(&self.entries, upstream, era));
        }
    }

    /// Changes when the lock file is replaced. Judgements by the earlier lock file must then be repeated.
    pub fn pins_edition(&self) -> u64 {
        self.read().pins_edition()
    }

    /// How much of a listed item (prompt, resource or template) an agent is shown.
    pub fn judge_listed(&self, upstream: &str, kind: ListedKind, live: &Definition) -> ItemVisibility {
        self.read().pins().judge_listed(upstream, kind, live)
    }

    /// Whether a tool may be called only if its definition is pinned.
    pub fn is_guarded(&self) -> bool {
        self.read().is_guarded()
    }

    /// Why an upstream does not answer, if it does not.
    pub fn unreachable_reason(&self, upstream: &str) -> Option<String> {
        self.read().unreachable_reason(upstream)
    }

    /// Replaces the lock file. Returns the tools whose standing changed.
    pub fn replace_lock(&self, lock: LockFile) -> Vec<StandingChange> {
        self.learn(|knowledge| knowledge.replace_lock(&self.entries, lock))
    }

    /// The lock file; `None` if nothing was ever pinned.
    pub fn lock_file(&self) -> Option<Arc<LockFile>> {
        self.read().lock_file()
    }

    /// Definitions that were seen for the first time and are to be pinned as they are, by upstream.
    pub fn first_sights(&self) -> Vec<(String, Definition)> {
        self.read().first_sights()
    }

    /// Whether tools pass only because nothing was ever pinned.
    pub fn passes_unpinned(&self) -> bool {
        self.read().passes_unpinned()
    }

    fn learn<T>(&self, learn: impl FnOnce(&mut CatalogKnowledge) -> T) -> T {
        let mut knowledge = self.write();
        let before = knowledge.generation();
        let learned = learn(&mut knowledge);
        let generation = knowledge.generation();
        // Sent while the lock is held, so that of two concurrent changes the later one is sent last.
        if generation != before {
            self.changes.send_replace(generation);
        }
        learned
    }

    fn read(&self) -> RwLockReadGuard<'_, CatalogKnowledge> {
        self.knowledge.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, CatalogKnowledge> {
        self.knowledge.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// A tool by its present or an earlier name. A present name takes one map lookup; only other names are looked up in the
    /// table.
    fn named(&self, name: &str) -> Option<(&str, &CatalogEntry)> {
        let found = self.entries.get_key_value(name);
        let found = found.or_else(|| self.entries.get_key_value(self.names.present(name)?.as_str()));
        found.map(|(name, entry)| (name.as_str(), entry))
    }

    /// The listed tool whose name is most similar to a name that means no tool.
    pub fn nearest_name(&self, name: &str, listing: &Listing) -> Option<String> {
        let own = |listed: &str| self.entries.get(listed).map(|entry| entry.contract.contract().binding.tool.as_str());
        let known = listing.tools.iter().filter_map(|tool| Some((tool.name.as_str(), own(&tool.name)?)));
        near_names(name, known, 1).first().map(|name| (*name).to_owned())
    }

    /// The upstream of the tool that a name means or meant.
    pub fn upstream_of(&self, name: &str) -> Option<&str> {
        if let Some((_, entry)) = self.named(name) {
            return Some(&entry.contract.contract().binding.upstream);
        }
        // Similar names are not considered here.
        match self.names.knows(name).then(|| self.names.resolve(name))? {
            Resolution::Gone { tool, .. } => Some(tool.upstream.as_str()),
            _ => None,
        }
    }

    /// Why a name means no tool.
    fn unnamed(&self, name: &str) -> ResolveError {
        match self.names.resolve(name) {
            Resolution::Gone { tool, .. } => ResolveError::Gone { upstream: tool.upstream.to_string() },
            Resolution::Unknown { near } => {
                ResolveError::Unknown { did_you_mean: near.first().map(|name| (*name).to_owned()) }
            }
            Resolution::Current(_) | Resolution::Renamed { .. } => ResolveError::Unknown { did_you_mean: None },
        }
    }
}

/// Two contracts for one tool are an author's mistake, even if the table could give them different names.
fn one_each(
    contracts: &[Arc<CompiledContract>],
    name: impl Fn(&CompiledContract) -> String,
) -> Result<(), CatalogError> {
    let mut named: BTreeMap<String, &CompiledContract> = BTreeMap::new();
    for contract in contracts {
        let name = name(contract);
        if let Some(other) = named.get(&name) {
            let of = |contract: &CompiledContract| contract.contract().identity.name.clone();
            return Err(CatalogError::SameName { name, one: of(other), other: of(contract) });
        }
        named.insert(name, contract);
    }
    Ok(())
}

/// People mistake two tools for each other if their names look the same. This checks the names as exposed, and as they were
/// before characters were replaced that providers do not accept.
fn distinct(entries: &BTreeMap<String, CatalogEntry>) -> Result<(), CatalogError> {
    let mut looks: BTreeMap<(Option<&str>, String), &String> = BTreeMap::new();
    for (name, entry) in entries {
        let binding = &entry.contract.contract().binding;
        for look in [(None, skeleton(name)), (Some(binding.upstream.as_str()), skeleton(&binding.tool))] {
            if let Some(other) = looks.insert(look, name) {
                return Err(CatalogError::Lookalike { one: other.clone(), other: name.clone() });
            }
        }
    }
    Ok(())
}
