//! What is known about upstreams: which of them answer, what each offers to which client, the standing of every tool, and the
//! resulting lists. Everything is computed when something is observed, so that a call only needs a lookup.
//!
//! What a server offers may depend on its client's era and capabilities, so it is kept by profile. There are few profiles, and
//! all are kept: if one were forgotten, another profile's list would decide.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use servanda_mcp::Era;

use crate::{
    Availability, CatalogEntry, HeldTool, Inventory, ListedTool, Listing, in_parallel,
    pins::{Definition, LockFile, MissingPinPolicy, Pins, TaskSupport, ToolExecution},
    profile::{ClientProfile, PROFILES_MAX},
    standing::{LiveDefinition, ToolStanding},
};

/// A tool whose standing changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StandingChange {
    /// Its exposed name.
    pub tool: String,
    /// Its upstream.
    pub upstream: String,
    /// The earlier standing.
    pub before: Arc<ToolStanding>,
    /// The present standing.
    pub now: Arc<ToolStanding>,
    /// Whether this is the first list of this profile. A difference from other profiles' lists is then no change of the tool.
    pub first_look: bool,
}

#[derive(Debug)]
pub(crate) struct CatalogKnowledge {
    /// The profile of clients without capabilities.
    base: ClientProfile,
    pins: Pins,
    /// How often the lock file was replaced.
    pins_edition: u64,
    upstreams: BTreeMap<String, UpstreamKnowledge>,
    profiles: BTreeMap<ClientProfile, Arc<Listing>>,
    /// Tools that are held whatever their upstreams say, by exposed name.
    quarantine: BTreeMap<String, Arc<ToolStanding>>,
    generation: u64,
    /// The last generation in which an upstream's part of some list changed.
    changed: BTreeMap<String, u64>,
}

/// What is known about one upstream.
#[derive(Debug, Default)]
struct UpstreamKnowledge {
    /// Why it does not answer.
    unreachable_reason: Option<String>,
    /// The position of each tool, by own name. It is the position at which the tool was first seen, because a server that
    /// shuffles its list has not changed it.
    places: BTreeMap<String, usize>,
    offers: BTreeMap<ClientProfile, ProfileOffer>,
}

/// What an upstream last offered to one profile, limited to tools with a contract.
#[derive(Debug)]
struct ProfileOffer {
    /// By own name.
    live: BTreeMap<String, LiveDefinition>,
    /// By exposed name.
    standings: BTreeMap<String, Arc<ToolStanding>>,
}

type CatalogEntries = BTreeMap<String, CatalogEntry>;

impl CatalogKnowledge {
    pub(crate) fn new(pins: Pins, entries: &CatalogEntries) -> Self {
        let base = ClientProfile::base();
        let mut knowledge = Self {
            base: base.clone(),
            pins,
            pins_edition: 0,
            upstreams: BTreeMap::new(),
            profiles: BTreeMap::new(),
            quarantine: BTreeMap::new(),
            generation: 0,
            changed: BTreeMap::new(),
        };
        let tools = knowledge.tools(entries, &base);
        knowledge.profiles.insert(base, Arc::new(Listing { generation: 0, tools }));
        knowledge
    }

    pub(crate) fn pins_edition(&self) -> u64 {
        self.pins_edition
    }

    pub(crate) fn pins(&self) -> &Pins {
        &self.pins
    }

    pub(crate) fn changed_since(&self, generation: u64) -> BTreeSet<String> {
        self.changed
            .iter()
            .filter(|(_, changed)| **changed > generation)
            .map(|(upstream, _)| upstream.clone())
            .collect()
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    pub(crate) fn listing(&self, profile: &ClientProfile) -> Arc<Listing> {
        let listing = self.profiles.get(profile).or_else(|| self.profiles.get(&self.base));
        listing.cloned().unwrap_or_default()
    }

    pub(crate) fn unreachable_reason(&self, upstream: &str) -> Option<String> {
        self.upstreams.get(upstream)?.unreachable_reason.clone()
    }

    /// The standing from quarantine; else from what the upstream offers to this profile; else from what it offers to the base
    /// profile.
    pub(crate) fn standing(&self, name: &str, entry: &CatalogEntry, profile: &ClientProfile) -> Arc<ToolStanding> {
        match self.quarantine.get(name) {
            Some(held) => Arc::clone(held),
            None => self.shown(name, entry, profile),
        }
    }

    fn shown(&self, name: &str, entry: &CatalogEntry, profile: &ClientProfile) -> Arc<ToolStanding> {
        let seen = self.upstreams.get(&entry.contract.contract().binding.upstream);
        let offer = seen.and_then(|seen| seen.offers.get(profile).or_else(|| seen.offers.get(&self.base)));
        let standing = offer.and_then(|offer| offer.standings.get(name));
        standing.cloned().unwrap_or_else(|| Arc::new(ToolStanding::unasked(entry.contract.contract(), &self.pins)))
    }

    pub(crate) fn observe(
        &mut self,
        entries: &CatalogEntries,
        upstream: &str,
        profile: &ClientProfile,
        inventory: &Inventory,
    ) -> Vec<StandingChange> {
        let live = live_tools(entries, upstream, inventory);
        let seen = self.upstreams.entry(upstream.to_owned()).or_default();
        for definition in &inventory.definitions {
            let place = seen.places.len();
            seen.places.entry(definition.name.clone()).or_insert(place);
        }
        let spoke_again = seen.unreachable_reason.take().is_some();
        if seen.offers.get(profile).is_some_and(|offer| offer.live == live) {
            if spoke_again {
                self.relist(entries);
            }
            return Vec::new();
        }
        for definition in live.values().filter_map(LiveDefinition::definition) {
            self.pins.note_first_sight(upstream, definition);
        }
        let changes = self.judge(entries, upstream, profile, live);
        self.acquaint(entries, profile);
        self.relist(entries);
        changes
    }

    pub(crate) fn quarantine(&mut self, entries: &CatalogEntries, held: &[HeldTool]) -> Vec<StandingChange> {
        let standing = |entry: &CatalogEntry| {
            let binding = &entry.contract.contract().binding;
            let held = held.iter().find(|held| held.upstream == binding.upstream && held.tool == binding.tool);
            held.map(|held| Arc::new(ToolStanding::Held(held.hold.clone())))
        };
        let quarantine: BTreeMap<String, Arc<ToolStanding>> =
            entries.iter().filter_map(|(name, entry)| Some((name.clone(), standing(entry)?))).collect();
        if quarantine == self.quarantine {
            return Vec::new();
        }
        let before = std::mem::replace(&mut self.quarantine, quarantine);
        let base = self.base.clone();
        let mut changes = Vec::new();
        for (name, entry) in entries {
            let before = before.get(name).cloned().unwrap_or_else(|| self.shown(name, entry, &base));
            let now = self.standing(name, entry, &base);
            if before != now {
                let (tool, upstream) = (name.clone(), entry.contract.contract().binding.upstream.clone());
                changes.push(StandingChange { tool, upstream, before, now, first_look: false });
            }
        }
        self.relist(entries);
        changes
    }

    pub(crate) fn mark_unreachable(&mut self, entries: &CatalogEntries, upstream: &str, why: &str) {
        let seen = self.upstreams.entry(upstream.to_owned()).or_default();
        if seen.unreachable_reason.replace(why.to_owned()).is_none() {
            self.relist(entries);
        }
    }

    /// Lists of other profiles that depend on what this upstream offers count as changed.
    pub(crate) fn mark_stale(&mut self, upstream: &str) {
        let varies = self.upstreams.get(upstream).is_some_and(|seen| seen.offers.len() > 1);
        if varies {
            self.generation += 1;
            self.changed.insert(upstream.to_owned(), self.generation);
        }
    }

    pub(crate) fn replace_lock(&mut self, entries: &CatalogEntries, lock: LockFile) -> Vec<StandingChange> {
        self.pins.replace_lock(lock);
        self.pins_edition += 1;
        let mut offers = Vec::new();
        for (upstream, seen) in &mut self.upstreams {
            offers.extend(
                seen.offers.iter().map(|(profile, offer)| (upstream.clone(), profile.clone(), offer.live.clone())),
            );
        }
        let judged = offers.into_iter().map(|(upstream, profile, live)| self.judge(entries, &upstream, &profile, live));
        let changes: Vec<StandingChange> = judged.collect::<Vec<_>>().into_iter().flatten().collect();
        self.relist(entries);
        changes
    }

    /// Whether any profile of that era has its own list.
    pub(crate) fn has_profiles(&self, upstream: &str, era: Era) -> bool {
        let is_one = |profile: &ClientProfile| profile.era == era && *profile != self.base;
        self.upstreams.get(upstream).is_some_and(|seen| seen.offers.keys().any(is_one))
    }

    pub(crate) fn forget_profiles(&mut self, entries: &CatalogEntries, upstream: &str, era: Era) {
        let Some(seen) = self.upstreams.get_mut(upstream) else { return };
        let (base, before) = (&self.base, seen.offers.len());
        seen.offers.retain(|profile, _| profile.era != era || profile == base);
        if seen.offers.len() != before {
            self.relist(entries);
        }
    }

    pub(crate) fn is_guarded(&self) -> bool {
        self.pins.lock.is_some() || self.pins.policy.missing.is_some_and(|missing| missing != MissingPinPolicy::Ignore)
    }

    pub(crate) fn lock_file(&self) -> Option<Arc<LockFile>> {
        self.pins.lock.clone()
    }

    pub(crate) fn first_sights(&self) -> Vec<(String, Definition)> {
        self.pins.first_sights()
    }

    pub(crate) fn passes_unpinned(&self) -> bool {
        self.pins.lock.is_none() && self.pins.policy.missing.is_none()
    }

    /// Computes the standing of every tool of an upstream for a profile, and returns what changed. For a new profile, only
    /// differences from the base profile are returned.
    fn judge(
        &mut self,
        entries: &CatalogEntries,
        upstream: &str,
        profile: &ClientProfile,
        live: BTreeMap<String, LiveDefinition>,
    ) -> Vec<StandingChange> {
        let mut changes = Vec::new();
        let mut standings = BTreeMap::new();
        let mut last: Option<Arc<ToolStanding>> = None;
        let first_look = self.upstreams.get(upstream).is_none_or(|seen| !seen.offers.contains_key(profile));
        let pins = &self.pins;
        // A large server has thousands of tools, and a tool's standing depends on no other tool.
        let judged = in_parallel::map(bound_to(entries, upstream), |(name, entry)| {
            let contract = entry.contract.contract();
            (name, entry, ToolStanding::judge(contract, live.get(&contract.binding.tool), pins))
        });
        for (name, entry, now) in judged {
            let before = self.shown(name, entry, profile);
            // Most tools have the same standing, so they share one value.
            let now = match &last {
                Some(last) if **last == now => Arc::clone(last),
                _ => Arc::new(now),
            };
            last = Some(Arc::clone(&now));
            if before != now {
                let (tool, upstream) = (name.clone(), upstream.to_owned());
                changes.push(StandingChange { tool, upstream, before, now: now.clone(), first_look });
            }
            standings.insert(name.clone(), now);
        }
        let seen = self.upstreams.entry(upstream.to_owned()).or_default();
        seen.offers.insert(profile.clone(), ProfileOffer { live, standings });
        changes
    }

    /// Rebuilds every profile's list. An unchanged list keeps its generation.
    fn relist(&mut self, entries: &CatalogEntries) {
        let profiles: Vec<ClientProfile> = self.profiles.keys().cloned().collect();
        let generation = self.generation + 1;
        for profile in profiles {
            let tools = self.tools(entries, &profile);
            let Some(listing) = self.profiles.get_mut(&profile) else { continue };
            let changed = changed_tools(&listing.tools, &tools);
            for name in &changed {
                if let Some(entry) = entries.get(*name) {
                    self.changed.insert(entry.contract.contract().binding.upstream.clone(), generation);
                }
            }
            let generation = if changed.is_empty() { listing.generation } else { generation };
            self.generation = self.generation.max(generation);
            *listing = Arc::new(Listing { generation, tools });
        }
    }

    fn tools(&self, entries: &CatalogEntries, profile: &ClientProfile) -> Vec<Arc<ListedTool>> {
        let open = entries.iter().filter(|(name, entry)| self.standing(name, entry, profile).is_open());
        let mut open: Vec<&CatalogEntry> = open.map(|(_, entry)| entry).collect();
        // The sort is stable: tools without a position stay in order of their names.
        open.sort_by_key(|entry| self.place(entry));
        let listed = |entry: &CatalogEntry| {
            let tool = entry.renderings.listed(&entry.contract, self.availability(entry));
            match run_as(entry, self.execution(entry, profile)) {
                Some(execution) => Arc::new(tool.with_execution(execution)),
                // Every list shares this value.
                None => Arc::clone(tool),
            }
        };
        open.into_iter().map(listed).collect()
    }

    fn execution(&self, entry: &CatalogEntry, profile: &ClientProfile) -> Option<ToolExecution> {
        let binding = &entry.contract.contract().binding;
        let offers = &self.upstreams.get(&binding.upstream)?.offers;
        let offer = offers.get(profile).or_else(|| offers.get(&self.base))?;
        offer.live.get(&binding.tool)?.definition()?.execution
    }

    fn place<'e>(&self, entry: &'e CatalogEntry) -> (&'e str, usize) {
        let binding = &entry.contract.contract().binding;
        let seen = self.upstreams.get(&binding.upstream);
        let place = seen.and_then(|seen| seen.places.get(&binding.tool)).copied();
        (&binding.upstream, place.unwrap_or(usize::MAX))
    }

    fn availability(&self, entry: &CatalogEntry) -> Availability {
        match self.upstreams.get(&entry.contract.contract().binding.upstream) {
            Some(UpstreamKnowledge { unreachable_reason: Some(_), .. }) => Availability::Unavailable,
            _ => Availability::Available,
        }
    }

    /// Adds a profile if it is new. Its first list does not count as a change, because no client has seen another one.
    fn acquaint(&mut self, entries: &CatalogEntries, profile: &ClientProfile) {
        if self.profiles.contains_key(profile) {
            return;
        }
        debug_assert!(self.profiles.len() < PROFILES_MAX, "every profile is a client's");
        let tools = self.tools(entries, profile);
        self.profiles.insert(profile.clone(), Arc::new(Listing { generation: self.generation, tools }));
    }
}

/// The names of tools that differ between two lists. A different order of the same tools is not a change.
fn changed_tools<'t>(before: &'t [Arc<ListedTool>], after: &'t [Arc<ListedTool>]) -> Vec<&'t str> {
    let texts =
        |tools: &'t [Arc<ListedTool>]| -> HashSet<&'t str> { tools.iter().map(|tool| tool.definition.get()).collect() };
    let (texts_before, texts_after) = (texts(before), texts(after));
    let gone = before.iter().filter(|tool| !texts_after.contains(tool.definition.get()));
    let new = after.iter().filter(|tool| !texts_before.contains(tool.definition.get()));
    gone.chain(new).map(|tool| tool.name.as_str()).collect()
}

/// How a tool may be run here: the gateway makes a task of long work, and of a call that waits for people, if the upstream does not.
fn run_as(entry: &CatalogEntry, theirs: Option<ToolExecution>) -> Option<ToolExecution> {
    let forbidden = |execution: &ToolExecution| execution.task_support == TaskSupport::Forbidden;
    let contract = &entry.contract;
    let becomes_task = contract.contract().is_long() || contract.usually_needs_approval();
    if becomes_task && theirs.as_ref().is_none_or(forbidden) {
        return Some(ToolExecution { task_support: TaskSupport::Optional });
    }
    theirs
}

/// The inventory's tools that have a contract, by own name.
fn live_tools(entries: &CatalogEntries, upstream: &str, inventory: &Inventory) -> BTreeMap<String, LiveDefinition> {
    // Rejected definitions come first, so that a usable one overrides them. Of two definitions with one name the first counts.
    let rejected = inventory.rejected.iter().rev();
    let rejected = rejected.filter_map(|it| Some((it.name.as_deref()?, LiveDefinition::Rejected(it.reason.clone()))));
    let defined = inventory.definitions.iter().rev();
    let defined = defined.map(|definition| (definition.name.as_str(), LiveDefinition::Defined(definition.clone())));
    let offered: HashMap<&str, LiveDefinition> = rejected.chain(defined).collect();
    let bound = bound_to(entries, upstream).into_iter();
    bound
        .filter_map(|(_, entry)| {
            let tool = &entry.contract.contract().binding.tool;
            Some((tool.clone(), offered.get(tool.as_str())?.clone()))
        })
        .collect()
}

fn bound_to<'a>(entries: &'a CatalogEntries, upstream: &str) -> Vec<(&'a String, &'a CatalogEntry)> {
    entries.iter().filter(|(_, entry)| entry.contract.contract().binding.upstream == upstream).collect()
}

impl LiveDefinition {
    fn definition(&self) -> Option<&Definition> {
        match self {
            Self::Defined(definition) => Some(definition),
            Self::Rejected(_) => None,
        }
    }
}
