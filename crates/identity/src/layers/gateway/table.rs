//! The table of exposed names, list by list: which tool a name means now, and what happened to the names of lists that agents
//! may still hold.
//!
//! A name never moves from one tool to another while an agent may still use it in its old meaning. The memory is bounded: the
//! oldest names are forgotten first, and then are unknown.

use std::collections::{BTreeMap, BTreeSet};

use super::{ExposedName, NamePolicy, UpstreamTool, suggestion::near_names};

/// How many similar names are suggested.
const NEAR_NAMES_MAX: usize = 3;

/// The number of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Generation(pub u64);

/// Which tool each name means now or meant before.
#[derive(Debug, Clone)]
pub struct NameTable {
    policy: NamePolicy,
    generation: Generation,
    tools: BTreeMap<ExposedName, UpstreamTool>,
    names: BTreeMap<UpstreamTool, ExposedName>,
    retired: BTreeMap<ExposedName, RetiredName>,
    retired_names_max: usize,
}

/// The result of a new list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameTableUpdate {
    /// The number of the list.
    pub generation: Generation,
    /// Tools that cannot be named, because every name they could have belongs to another tool. They are not exposed.
    pub unnamed: Vec<UpstreamTool>,
}

/// What a name means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolution<'a> {
    /// This tool.
    Current(&'a UpstreamTool),
    /// It meant this tool, which has another name now.
    Renamed {
        /// The tool.
        tool: &'a UpstreamTool,
        /// Its name now.
        now: &'a ExposedName,
        /// The list it was missing from first.
        since: Generation,
    },
    /// It meant this tool, which is no longer listed.
    Gone {
        /// The tool.
        tool: &'a UpstreamTool,
        /// The list it was missing from first.
        since: Generation,
    },
    /// A name that is not remembered.
    Unknown {
        /// Names that were perhaps meant, the most similar first.
        near: Vec<&'a str>,
    },
}

/// What one name means or meant: the stored form of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameTableEntry {
    /// The name.
    pub name: String,
    /// The tool.
    pub tool: UpstreamTool,
    /// The list it was missing from first; none if it is in the present one.
    pub since: Option<Generation>,
}

#[derive(Debug, Clone)]
struct RetiredName {
    tool: UpstreamTool,
    since: Generation,
}

impl NameTable {
    /// An empty table that remembers this many names of earlier lists.
    pub const fn new(policy: NamePolicy, retired_names_max: usize) -> Self {
        Self {
            policy,
            generation: Generation(0),
            tools: BTreeMap::new(),
            names: BTreeMap::new(),
            retired: BTreeMap::new(),
            retired_names_max,
        }
    }

    /// Restores a stored table. If a name occurs twice, the first entry counts.
    pub fn restore(
        policy: NamePolicy,
        retired_names_max: usize,
        generation: Generation,
        meanings: impl IntoIterator<Item = NameTableEntry>,
    ) -> Self {
        let mut table = Self { generation, ..Self::new(policy, retired_names_max) };
        for NameTableEntry { name, tool, since } in meanings {
            let name = ExposedName::from_stored(name);
            if table.tools.contains_key(&name) || table.retired.contains_key(&name) {
                continue;
            }
            match since {
                None if !table.names.contains_key(&tool) => {
                    table.names.insert(tool.clone(), name.clone());
                    table.tools.insert(name, tool);
                }
                since => {
                    table.retired.insert(name, RetiredName { tool, since: since.unwrap_or(generation) });
                }
            }
        }
        table.forget_oldest();
        table
    }

    /// Every remembered name and its meaning, present ones first.
    pub fn entries(&self) -> impl Iterator<Item = NameTableEntry> + '_ {
        let present = self.tools.iter().map(|(name, tool)| (name, tool, None));
        let retired = self.retired.iter().map(|(name, retired)| (name, &retired.tool, Some(retired.since)));
        present.chain(retired).map(|(name, tool, since)| NameTableEntry {
            name: name.to_string(),
            tool: tool.clone(),
            since,
        })
    }

    /// Adds the retired names of another table, such as that of another gateway with the same store. What this table knows
    /// stays unchanged.
    pub fn merge_retired(&mut self, other: &Self) {
        for NameTableEntry { name, tool, since } in other.entries() {
            let name = ExposedName::from_stored(name);
            if !self.tools.contains_key(&name) && !self.retired.contains_key(&name) {
                self.retired.insert(name, RetiredName { tool, since: since.unwrap_or(self.generation) });
            }
        }
        self.forget_oldest();
    }

    /// Replaces the policy and the list together, as a changed configuration does. A tool keeps its name if the new policy
    /// could have given it.
    pub fn replace_policy_and_tools(
        &mut self,
        policy: NamePolicy,
        tools: impl IntoIterator<Item = UpstreamTool>,
    ) -> NameTableUpdate {
        self.policy = policy;
        self.replace_tools(tools)
    }

    /// Replaces the list. A tool that is listed twice counts once.
    ///
    /// Tools keep the name they have or had. A new tool gets its plain name by the policy. It gets the hashed name only if the
    /// plain one belongs to another tool, now or in a remembered list.
    pub fn replace_tools(&mut self, tools: impl IntoIterator<Item = UpstreamTool>) -> NameTableUpdate {
        self.generation = Generation(self.generation.0 + 1);
        let tools: BTreeSet<UpstreamTool> = tools.into_iter().collect();
        let mut names = BTreeMap::new();
        let mut held: BTreeMap<ExposedName, UpstreamTool> = BTreeMap::new();
        let last = self.last_names();
        for tool in &tools {
            let possible = [self.policy.name(tool), self.policy.hashed_name(tool)];
            if let Some(name) = last.get(tool).filter(|name| possible.contains(name)) {
                names.insert(tool.clone(), (*name).clone());
                held.insert((*name).clone(), tool.clone());
            }
        }
        let unnamed = self.name_new(&tools, &mut names, &mut held);
        self.replace(names, held);
        NameTableUpdate { generation: self.generation, unnamed }
    }

    /// Replaces the policy and renames the tools by it. The old names are remembered.
    pub fn rename(&mut self, policy: NamePolicy) -> NameTableUpdate {
        let tools: Vec<UpstreamTool> = self.names.keys().cloned().collect();
        self.replace_policy_and_tools(policy, tools)
    }

    /// What a name means. The name is never parsed.
    pub fn resolve(&self, name: &str) -> Resolution<'_> {
        if let Some(tool) = self.tools.get(name) {
            return Resolution::Current(tool);
        }
        let Some(RetiredName { tool, since }) = self.retired.get(name) else {
            let known = self.tools.iter().map(|(name, tool)| (name.as_str(), tool.name.as_str()));
            return Resolution::Unknown { near: near_names(name, known, NEAR_NAMES_MAX) };
        };
        match self.names.get(tool) {
            Some(now) => Resolution::Renamed { tool, now, since: *since },
            None => Resolution::Gone { tool, since: *since },
        }
    }

    /// The present name of the tool that a name means: the same name or a newer one. Similar names are not considered.
    pub fn present(&self, name: &str) -> Option<&ExposedName> {
        match self.tools.get_key_value(name) {
            Some((name, _)) => Some(name),
            None => self.names.get(&self.retired.get(name)?.tool),
        }
    }

    /// Whether a name means a tool, or is remembered as one that did.
    pub fn knows(&self, name: &str) -> bool {
        self.tools.contains_key(name) || self.retired.contains_key(name)
    }

    /// The name of a tool.
    pub fn name_of(&self, tool: &UpstreamTool) -> Option<&ExposedName> {
        self.names.get(tool)
    }

    /// Names and tools of the present list, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = (&ExposedName, &UpstreamTool)> {
        self.tools.iter()
    }

    /// How names are made.
    pub const fn policy(&self) -> &NamePolicy {
        &self.policy
    }

    /// The number of this list.
    pub const fn generation(&self) -> Generation {
        self.generation
    }

    /// The name that each tool has, or had when it was last listed.
    fn last_names(&self) -> BTreeMap<&UpstreamTool, &ExposedName> {
        let mut retired: Vec<(&ExposedName, &RetiredName)> = self.retired.iter().collect();
        retired.sort_by_key(|(_, retired)| retired.since);
        let had = retired.into_iter().map(|(name, retired)| (&retired.tool, name));
        had.chain(&self.names).collect()
    }

    /// Names tools that have no name yet. Returns those that cannot be named.
    fn name_new(
        &self,
        tools: &BTreeSet<UpstreamTool>,
        names: &mut BTreeMap<UpstreamTool, ExposedName>,
        held: &mut BTreeMap<ExposedName, UpstreamTool>,
    ) -> Vec<UpstreamTool> {
        let new: Vec<&UpstreamTool> = tools.iter().filter(|tool| !names.contains_key(*tool)).collect();
        let mut wanted: BTreeMap<ExposedName, usize> = BTreeMap::new();
        for tool in &new {
            *wanted.entry(self.policy.name(tool)).or_default() += 1;
        }
        let mut unnamed = Vec::new();
        for tool in new {
            let plain = self.policy.name(tool);
            // Tools that want the same name all get another one, because their order must not decide.
            let shared = wanted.get(&plain).is_some_and(|tools| *tools > 1);
            let candidates = [Some(plain).filter(|_| !shared), Some(self.policy.hashed_name(tool))];
            let free = candidates.into_iter().flatten().find(|name| self.is_free(name, tool, held));
            match free {
                Some(name) => {
                    held.insert(name.clone(), tool.clone());
                    names.insert(tool.clone(), name);
                }
                None => unnamed.push(tool.clone()),
            }
        }
        unnamed
    }

    /// Whether the name belongs to no other tool: in the new list, in the present one, or in earlier ones.
    fn is_free(&self, name: &ExposedName, tool: &UpstreamTool, held: &BTreeMap<ExposedName, UpstreamTool>) -> bool {
        let retired = self.retired.get(name).map(|retired| &retired.tool);
        [held.get(name), self.tools.get(name), retired].into_iter().flatten().all(|owner| owner == tool)
            && !self.policy.reserved.contains(name.as_str())
    }

    fn replace(&mut self, names: BTreeMap<UpstreamTool, ExposedName>, tools: BTreeMap<ExposedName, UpstreamTool>) {
        for (name, tool) in std::mem::take(&mut self.tools) {
            self.retired.insert(name, RetiredName { tool, since: self.generation });
        }
        self.retired.retain(|name, _| !tools.contains_key(name));
        (self.names, self.tools) = (names, tools);
        self.forget_oldest();
    }

    fn forget_oldest(&mut self) {
        let excess = self.retired.len().saturating_sub(self.retired_names_max);
        if excess == 0 {
            return;
        }
        let mut ages: Vec<(Generation, ExposedName)> =
            self.retired.iter().map(|(name, retired)| (retired.since, name.clone())).collect();
        ages.sort();
        for (_, name) in ages.into_iter().take(excess) {
            self.retired.remove(&name);
        }
    }
}
