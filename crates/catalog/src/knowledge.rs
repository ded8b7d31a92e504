//! What is known about upstreams: who answers, what each offers to whom, how every tool stands because of it, and the lists
//! that follow. Everything is worked out when something is learned, so that a call only has to look it up.
//!
//! What a server offers may depend on its client's era and on what the client can do, so it is kept by profile. There are
//! few, and all are kept: a list that was forgotten would let another one decide.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use servanda_mcp::Era;

use crate::{
    Availability, Entry, HeldTool, Inventory, ListedTool, Listing,
    pins::{Definition, Execution, Lock, OnMissing, Pins, TaskSupport},
    profile::{PROFILES_MAX, Profile},
    standing::{Live, Standing},
};

/// A tool that stands otherwise than before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Its exposed name.
    pub tool: String,
    /// Its upstream.
    pub upstream: String,
    /// How it stood.
    pub before: Arc<Standing>,
    /// How it stands.
    pub now: Arc<Standing>,
    /// Whether clients like this are shown a list for the first time: then it is no news about the tool that they are not
    /// shown what others are, or are shown what others are not.
    pub first_look: bool,
}

#[derive(Debug)]
pub(crate) struct Knowledge {
    /// The profile of clients that can do nothing.
    base: Profile,
    pins: Pins,
    /// How often another lock file was taken.
    pins_edition: u64,
    upstreams: BTreeMap<String, Seen>,
    profiles: BTreeMap<Profile, Arc<Listing>>,
    /// Tools that are held back whatever their upstreams say, by exposed name.
    quarantine: BTreeMap<String, Arc<Standing>>,
    generation: u64,
    /// The generation in which an upstream's part of some list changed last.
    changed: BTreeMap<String, u64>,
}

/// What is known about one upstream.
#[derive(Debug, Default)]
struct Seen {
    /// Why it does not answer.
    silence: Option<String>,
    /// The place of each tool, by own name. It is the one it had when it was first seen: a server that shuffles its list
    /// has not changed it.
    places: BTreeMap<String, usize>,
    rolls: BTreeMap<Profile, Roll>,
}

/// What an upstream was last seen to offer to one profile, of the tools that have a contract.
#[derive(Debug)]
struct Roll {
    /// By own name.
    live: BTreeMap<String, Live>,
    /// By exposed name.
    standings: BTreeMap<String, Arc<Standing>>,
}

type Entries = BTreeMap<String, Entry>;

impl Knowledge {
    pub(crate) fn new(pins: Pins, entries: &Entries) -> Self {
        let base = Profile::base();
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

    pub(crate) fn listing(&self, profile: &Profile) -> Arc<Listing> {
        let listing = self.profiles.get(profile).or_else(|| self.profiles.get(&self.base));
        listing.cloned().unwrap_or_default()
    }

    pub(crate) fn silence(&self, upstream: &str) -> Option<String> {
        self.upstreams.get(upstream)?.silence.clone()
    }

    /// What the tool did or a person said; else what the upstream showed to this very profile, else what it shows to anybody.
    pub(crate) fn standing(&self, name: &str, entry: &Entry, profile: &Profile) -> Arc<Standing> {
        match self.quarantine.get(name) {
            Some(held) => Arc::clone(held),
            None => self.shown(name, entry, profile),
        }
    }

    fn shown(&self, name: &str, entry: &Entry, profile: &Profile) -> Arc<Standing> {
        let seen = self.upstreams.get(&entry.contract.contract().binding.upstream);
        let roll = seen.and_then(|seen| seen.rolls.get(profile).or_else(|| seen.rolls.get(&self.base)));
        let standing = roll.and_then(|roll| roll.standings.get(name));
        standing.cloned().unwrap_or_else(|| Arc::new(Standing::unasked(entry.contract.contract(), &self.pins)))
    }

    pub(crate) fn observe(
        &mut self,
        entries: &Entries,
        upstream: &str,
        profile: &Profile,
        inventory: &Inventory,
    ) -> Vec<Change> {
        let live = live_tools(entries, upstream, inventory);
        let seen = self.upstreams.entry(upstream.to_owned()).or_default();
        for definition in &inventory.definitions {
            let place = seen.places.len();
            seen.places.entry(definition.name.clone()).or_insert(place);
        }
        let spoke_again = seen.silence.take().is_some();
        if seen.rolls.get(profile).is_some_and(|roll| roll.live == live) {
            if spoke_again {
                self.relist(entries);
            }
            return Vec::new();
        }
        for definition in live.values().filter_map(Live::definition) {
            self.pins.see(upstream, definition);
        }
        let changes = self.judge(entries, upstream, profile, live);
        self.acquaint(entries, profile);
        self.relist(entries);
        changes
    }

    pub(crate) fn quarantine(&mut self, entries: &Entries, held: &[HeldTool]) -> Vec<Change> {
        let standing = |entry: &Entry| {
            let binding = &entry.contract.contract().binding;
            let held = held.iter().find(|held| held.upstream == binding.upstream && held.tool == binding.tool);
            held.map(|held| Arc::new(Standing::Held(held.hold.clone())))
        };
        let quarantine: BTreeMap<String, Arc<Standing>> =
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
                changes.push(Change { tool, upstream, before, now, first_look: false });
            }
        }
        self.relist(entries);
        changes
    }

    pub(crate) fn lose(&mut self, entries: &Entries, upstream: &str, why: &str) {
        let seen = self.upstreams.entry(upstream.to_owned()).or_default();
        if seen.silence.replace(why.to_owned()).is_none() {
            self.relist(entries);
        }
    }

    /// Where lists of other profiles follow from what this upstream offers, they count as changed.
    pub(crate) fn doubt(&mut self, upstream: &str) {
        let varies = self.upstreams.get(upstream).is_some_and(|seen| seen.rolls.len() > 1);
        if varies {
            self.generation += 1;
            self.changed.insert(upstream.to_owned(), self.generation);
        }
    }

    pub(crate) fn adopt(&mut self, entries: &Entries, lock: Lock) -> Vec<Change> {
        self.pins.adopt(lock);
        self.pins_edition += 1;
        let mut rolls = Vec::new();
        for (upstream, seen) in &mut self.upstreams {
            rolls.extend(
                seen.rolls.iter().map(|(profile, roll)| (upstream.clone(), profile.clone(), roll.live.clone())),
            );
        }
        let judged = rolls.into_iter().map(|(upstream, profile, live)| self.judge(entries, &upstream, &profile, live));
        let changes: Vec<Change> = judged.collect::<Vec<_>>().into_iter().flatten().collect();
        self.relist(entries);
        changes
    }

    /// Whether clients of that era are known to be offered something by themselves.
    pub(crate) fn has_profiles(&self, upstream: &str, era: Era) -> bool {
        let is_one = |profile: &Profile| profile.era == era && *profile != self.base;
        self.upstreams.get(upstream).is_some_and(|seen| seen.rolls.keys().any(is_one))
    }

    pub(crate) fn forget_profiles(&mut self, entries: &Entries, upstream: &str, era: Era) {
        let Some(seen) = self.upstreams.get_mut(upstream) else { return };
        let (base, before) = (&self.base, seen.rolls.len());
        seen.rolls.retain(|profile, _| profile.era != era || profile == base);
        if seen.rolls.len() != before {
            self.relist(entries);
        }
    }

    pub(crate) fn is_guarded(&self) -> bool {
        self.pins.lock.is_some() || self.pins.policy.missing.is_some_and(|missing| missing != OnMissing::Ignore)
    }

    pub(crate) fn agreed(&self) -> Option<Arc<Lock>> {
        self.pins.lock.clone()
    }

    pub(crate) fn first_sights(&self) -> Vec<(String, Definition)> {
        self.pins.first_sights()
    }

    pub(crate) fn passes_unpinned(&self) -> bool {
        self.pins.lock.is_none() && self.pins.policy.missing.is_none()
    }

    /// Works out how every tool of an upstream stands for a profile. What differs from before is told; of a profile that
    /// was not known before, only what differs from what everybody is shown.
    fn judge(
        &mut self,
        entries: &Entries,
        upstream: &str,
        profile: &Profile,
        live: BTreeMap<String, Live>,
    ) -> Vec<Change> {
        let mut changes = Vec::new();
        let mut standings = BTreeMap::new();
        let mut last: Option<Arc<Standing>> = None;
        let first_look = self.upstreams.get(upstream).is_none_or(|seen| !seen.rolls.contains_key(profile));
        for (name, entry) in bound_to(entries, upstream) {
            let contract = entry.contract.contract();
            let before = self.shown(name, entry, profile);
            let now = Standing::judge(contract, live.get(&contract.binding.tool), &self.pins);
            // Most tools stand alike, and are told of by one value.
            let now = match &last {
                Some(last) if **last == now => Arc::clone(last),
                _ => Arc::new(now),
            };
            last = Some(Arc::clone(&now));
            if before != now {
                let (tool, upstream) = (name.clone(), upstream.to_owned());
                changes.push(Change { tool, upstream, before, now: now.clone(), first_look });
            }
            standings.insert(name.clone(), now);
        }
        let seen = self.upstreams.entry(upstream.to_owned()).or_default();
        seen.rolls.insert(profile.clone(), Roll { live, standings });
        changes
    }

    /// Makes every profile's list anew. One that is as it was keeps its generation.
    fn relist(&mut self, entries: &Entries) {
        let profiles: Vec<Profile> = self.profiles.keys().cloned().collect();
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

    fn tools(&self, entries: &Entries, profile: &Profile) -> Vec<Arc<ListedTool>> {
        let open = entries.iter().filter(|(name, entry)| self.standing(name, entry, profile).is_open());
        let mut open: Vec<&Entry> = open.map(|(_, entry)| entry).collect();
        // Stable: what has no place yet stays in order of its name.
        open.sort_by_key(|entry| self.place(entry));
        let listed = |entry: &Entry| {
            let tool = entry.renderings.listed(&entry.contract, self.availability(entry));
            match run_as(entry, self.execution(entry, profile)) {
                Some(execution) => Arc::new(tool.run_as(execution)),
                // Every list has the very same one.
                None => Arc::clone(tool),
            }
        };
        open.into_iter().map(listed).collect()
    }

    fn execution(&self, entry: &Entry, profile: &Profile) -> Option<Execution> {
        let binding = &entry.contract.contract().binding;
        let rolls = &self.upstreams.get(&binding.upstream)?.rolls;
        let roll = rolls.get(profile).or_else(|| rolls.get(&self.base))?;
        roll.live.get(&binding.tool)?.definition()?.execution
    }

    fn place<'e>(&self, entry: &'e Entry) -> (&'e str, usize) {
        let binding = &entry.contract.contract().binding;
        let seen = self.upstreams.get(&binding.upstream);
        let place = seen.and_then(|seen| seen.places.get(&binding.tool)).copied();
        (&binding.upstream, place.unwrap_or(usize::MAX))
    }

    fn availability(&self, entry: &Entry) -> Availability {
        match self.upstreams.get(&entry.contract.contract().binding.upstream) {
            Some(Seen { silence: Some(_), .. }) => Availability::Unavailable,
            _ => Availability::Available,
        }
    }

    /// Makes sure that a profile is known. Its first list is no change of one: nobody has seen another.
    fn acquaint(&mut self, entries: &Entries, profile: &Profile) {
        if self.profiles.contains_key(profile) {
            return;
        }
        debug_assert!(self.profiles.len() < PROFILES_MAX, "whoever calls says the profile of a client");
        let tools = self.tools(entries, profile);
        self.profiles.insert(profile.clone(), Arc::new(Listing { generation: self.generation, tools }));
    }
}

/// The names of tools that differ between two lists. Another order of the same tools is no change.
fn changed_tools<'t>(before: &'t [Arc<ListedTool>], after: &'t [Arc<ListedTool>]) -> Vec<&'t str> {
    let texts =
        |tools: &'t [Arc<ListedTool>]| -> HashSet<&'t str> { tools.iter().map(|tool| tool.definition.get()).collect() };
    let (texts_before, texts_after) = (texts(before), texts(after));
    let gone = before.iter().filter(|tool| !texts_after.contains(tool.definition.get()));
    let new = after.iter().filter(|tool| !texts_before.contains(tool.definition.get()));
    gone.chain(new).map(|tool| tool.name.as_str()).collect()
}

/// How a tool may be run here: of long work the gateway makes a task itself where its upstream does not.
fn run_as(entry: &Entry, theirs: Option<Execution>) -> Option<Execution> {
    let forbidden = |execution: &Execution| execution.task_support == TaskSupport::Forbidden;
    if entry.contract.contract().is_long() && theirs.as_ref().is_none_or(forbidden) {
        return Some(Execution { task_support: TaskSupport::Optional });
    }
    theirs
}

/// What an inventory has of the tools that have a contract, by own name.
fn live_tools(entries: &Entries, upstream: &str, inventory: &Inventory) -> BTreeMap<String, Live> {
    // Rejected definitions first: one that can be used counts. Of two of one name the first counts.
    let rejected = inventory.rejected.iter().rev();
    let rejected = rejected.filter_map(|it| Some((it.name.as_deref()?, Live::Rejected(it.reason.clone()))));
    let defined = inventory.definitions.iter().rev();
    let defined = defined.map(|definition| (definition.name.as_str(), Live::Defined(definition.clone())));
    let offered: HashMap<&str, Live> = rejected.chain(defined).collect();
    let bound = bound_to(entries, upstream).into_iter();
    bound
        .filter_map(|(_, entry)| {
            let tool = &entry.contract.contract().binding.tool;
            Some((tool.clone(), offered.get(tool.as_str())?.clone()))
        })
        .collect()
}

fn bound_to<'a>(entries: &'a Entries, upstream: &str) -> Vec<(&'a String, &'a Entry)> {
    entries.iter().filter(|(_, entry)| entry.contract.contract().binding.upstream == upstream).collect()
}

impl Live {
    fn definition(&self) -> Option<&Definition> {
        match self {
            Self::Defined(definition) => Some(definition),
            Self::Rejected(_) => None,
        }
    }
}
