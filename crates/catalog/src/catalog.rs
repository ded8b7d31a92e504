//! The catalog: exposed name to admitted contract, and how each tool stands for whom.
//!
//! Contracts are there from the beginning and stay, and so do their names: the next catalog takes the table of names over, so that
//! a name of an earlier one means its tool or nothing. What is known about upstreams comes and goes; every change of it
//! replaces the lists that agents see as a whole, so that nobody ever sees half of one.

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
    /// The exposed name begins like those of the gateway's own tools.
    #[error(
        "contract `{contract}` would be exposed as `{name}`; names that begin with `{RESERVED_PREFIX}` are the gateway's own"
    )]
    Reserved {
        /// The contract.
        contract: String,
        /// The exposed name.
        name: String,
    },
    /// Every name that a tool could have is remembered as another tool's.
    #[error("there is no name for the tool of contract `{contract}`: every one it could have was another tool's")]
    NoName {
        /// Which.
        contract: String,
    },
    /// Two contracts would have names that look the same.
    #[error("`{one}` and `{other}` look alike, and an agent or a person would take one for the other")]
    Lookalike {
        /// An exposed name.
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

/// A name that means no tool, or one that may not be called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResolveError {
    /// Never heard of.
    Unknown {
        /// The name that was probably meant.
        did_you_mean: Option<String>,
    },
    /// It meant a tool that has no contract any more.
    Gone {
        /// Which upstream's it was.
        upstream: String,
    },
    /// There is a contract, but the upstream does not offer the tool to this client, or not any more.
    Withdrawn {
        /// Which upstream.
        upstream: String,
    },
    /// There is a contract and the tool is offered, but it is held back.
    Held {
        /// Why.
        hold: ToolHold,
    },
}

impl Catalog {
    /// A catalog of admitted contracts, of which nothing is pinned.
    pub fn new(
        contracts: impl IntoIterator<Item = CompiledContract>,
        policy: impl Into<NamePolicy>,
    ) -> Result<Self, CatalogError> {
        Self::pinned(contracts, policy, Pins::default())
    }

    /// A catalog of admitted contracts and what was agreed to about their tools.
    pub fn pinned(
        contracts: impl IntoIterator<Item = CompiledContract>,
        policy: impl Into<NamePolicy>,
        pins: Pins,
    ) -> Result<Self, CatalogError> {
        let policy = policy.into();
        let nothing = NameTable::new(policy.clone(), RETIRED_NAMES_MAX);
        Self::build(contracts.into_iter().map(Arc::new).collect(), nothing, policy, pins, &BTreeMap::new())
    }

    /// The same contracts as the list that comes after those of an earlier table. What upstreams offer has to be learned anew.
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
            // Most tools keep their names, and are listed as before.
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

    /// The contract an exposed name means to a client. A name of an earlier list means the tool that it
    /// meant there, and no other. There is no fallback of any other kind.
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

    /// The tool that an exposed name means: one that it has, or had in an earlier list.
    pub fn entry(&self, name: &str) -> Option<&CatalogEntry> {
        self.named(name).map(|(_, entry)| entry)
    }

    /// The present name of the tool that an exposed name means.
    pub fn present_name(&self, name: &str) -> Option<&str> {
        self.named(name).map(|(name, _)| name)
    }

    /// What names mean, and meant.
    pub fn names(&self) -> &NameTable {
        &self.names
    }

    /// How a tool stands for a client; unknown names were never asked for.
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

    /// Takes note of what an upstream offers to a client and those like it. Returns which tools stand otherwise now.
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

    /// Has a definition of an upstream share with its pin what both say alike, so that it is not kept twice.
    pub fn unify(&self, upstream: &str, live: &mut Shared<Definition>) {
        self.read().pins().unify(upstream, live);
    }

    /// Holds back these tools and no others, whatever their upstreams say. Returns which tools stand otherwise now.
    pub fn quarantine(&self, held: &[HeldTool]) -> Vec<StandingChange> {
        self.learn(|knowledge| knowledge.quarantine(&self.entries, held))
    }

    /// Takes note that an upstream does not answer. Its tools stay: nothing is forgotten because a process died.
    pub fn mark_unreachable(&self, upstream: &str, why: &str) {
        self.learn(|knowledge| knowledge.mark_unreachable(&self.entries, upstream, why));
    }

    /// Takes note that an upstream may offer something else now to clients of capabilities: whoever asks for the list again
    /// has it asked for again.
    pub fn mark_stale(&self, upstream: &str) {
        self.learn(|knowledge| knowledge.mark_stale(upstream));
    }

    /// Forgets what an upstream offers to clients of an era by what they can do: it offers the same to all of them.
    pub fn forget_profiles(&self, upstream: &str, era: Era) {
        if self.read().has_profiles(upstream, era) {
            self.learn(|knowledge| knowledge.forget_profiles(&self.entries, upstream, era));
        }
    }

    /// Changes when another lock file is taken. Judgements by the lock file before have to be made again.
    pub fn pins_edition(&self) -> u64 {
        self.read().pins_edition()
    }

    /// Whether an agent is shown an item that an upstream lists beside its tools.
    pub fn judge_listed(&self, upstream: &str, kind: ListedKind, live: &Definition) -> ItemVisibility {
        self.read().pins().judge_listed(upstream, kind, live)
    }

    /// Whether a tool may be called only at a definition that was looked at.
    pub fn is_guarded(&self) -> bool {
        self.read().is_guarded()
    }

    /// Why an upstream does not answer, if it does not.
    pub fn unreachable_reason(&self, upstream: &str) -> Option<String> {
        self.read().unreachable_reason(upstream)
    }

    /// Takes another lock file for what was agreed to. Returns which tools stand otherwise now.
    pub fn replace_lock(&self, lock: LockFile) -> Vec<StandingChange> {
        self.learn(|knowledge| knowledge.replace_lock(&self.entries, lock))
    }

    /// What was agreed to; none where nothing ever was.
    pub fn lock_file(&self) -> Option<Arc<LockFile>> {
        self.read().lock_file()
    }

    /// Definitions that were seen first and are to be pinned as they were, by upstream.
    pub fn first_sights(&self) -> Vec<(String, Definition)> {
        self.read().first_sights()
    }

    /// Whether tools are let through only because nothing was ever agreed to.
    pub fn passes_unpinned(&self) -> bool {
        self.read().passes_unpinned()
    }

    fn learn<T>(&self, learn: impl FnOnce(&mut CatalogKnowledge) -> T) -> T {
        let mut knowledge = self.write();
        let before = knowledge.generation();
        let learned = learn(&mut knowledge);
        let generation = knowledge.generation();
        // Told while nobody can learn: of two changes at once the later one is told last.
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

    /// A tool by a name that it has, or had. A present name costs one look at one map; only another is looked for in the table.
    fn named(&self, name: &str) -> Option<(&str, &CatalogEntry)> {
        let found = self.entries.get_key_value(name);
        let found = found.or_else(|| self.entries.get_key_value(self.names.present(name)?.as_str()));
        found.map(|(name, entry)| (name.as_str(), entry))
    }

    /// The tool of a list whose name is most like one that means none.
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
        // What is like a name that nobody knows is not looked for.
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

/// Two contracts for one name are a mistake of whoever wrote them, whichever the table would give them.
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

/// Two names that look the same are two tools that somebody takes for one: as they are exposed, and as they were before
/// what no provider takes was replaced in them.
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
