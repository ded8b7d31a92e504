//! The names of all tools of a batch of servers.

use std::collections::{BTreeMap, BTreeSet};

use super::parts::{base_name, shorten};
use crate::IdentityError;

/// A server and what it lists, by its own names.
#[derive(Debug, Clone, Copy)]
pub struct ListedServer<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its tools, in its order.
    pub tools: &'a [String],
}

/// A tool of a server, and its name in the batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExposedTool<'a> {
    /// Which server of the batch.
    pub server_index: usize,
    /// The tool's name on its server, by which it is called there.
    pub tool: &'a str,
    /// Its name in the batch.
    pub exposed: String,
}

/// Every tool under its own name, prefixed with its server's, in listed order.
///
/// A name that more than one tool would have, or that is taken, is hashed for all of them: the order must not decide which one
/// gets the plain name.
pub fn prefixed<'a>(servers: &[ListedServer<'a>], taken: &BTreeSet<&str>) -> Vec<ExposedTool<'a>> {
    let mut listed: Vec<Listed<'a>> = Vec::new();
    for (server_index, server) in servers.iter().enumerate() {
        for (tool_index, tool) in server.tools.iter().enumerate() {
            let (base, seed) = (base_name(server.name, tool), format!("{}\0{tool}", server.name));
            listed.push(Listed { server_index, tool_index, tool, base, seed, candidate: String::new() });
        }
    }
    let mut wanted: BTreeMap<String, usize> = BTreeMap::new();
    for tool in &listed {
        *wanted.entry(tool.base.clone()).or_default() += 1;
    }
    for tool in &mut listed {
        let shared = wanted.get(&tool.base).is_some_and(|tools| *tools > 1);
        tool.candidate = shorten(&tool.base, &tool.seed, shared || taken.contains(tool.base.as_str()));
    }
    listed.sort_by(|one, other| one.order().cmp(&other.order()));
    let mut used: BTreeSet<String> = taken.iter().map(|name| (*name).to_owned()).collect();
    for tool in &mut listed {
        let mut attempt = 0_u64;
        while !used.insert(tool.candidate.clone()) {
            attempt += 1;
            tool.candidate = shorten(&tool.base, &format!("{}\0{attempt}", tool.seed), true);
        }
    }
    listed.sort_by_key(|tool| (tool.server_index, tool.tool_index));
    let exposed =
        |tool: Listed<'a>| ExposedTool { server_index: tool.server_index, tool: tool.tool, exposed: tool.candidate };
    listed.into_iter().map(exposed).collect()
}

/// Every tool under its own name, unchanged. A name on two servers is refused; a duplicate on one server is left to the caller.
pub fn unprefixed<'a>(servers: &[ListedServer<'a>]) -> Result<Vec<ExposedTool<'a>>, IdentityError> {
    let mut owners: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    let mut exposed = Vec::new();
    for (server_index, server) in servers.iter().enumerate() {
        for tool in server.tools {
            owners.entry(tool).or_default().insert(server_index);
            exposed.push(ExposedTool { server_index, tool, exposed: tool.clone() });
        }
    }
    let shared = owners.into_iter().filter(|(_, servers)| servers.len() > 1);
    let names: Vec<String> = shared.map(|(name, _)| name.to_owned()).collect();
    if names.is_empty() { Ok(exposed) } else { Err(IdentityError::DuplicateServerToolNames { names }) }
}

struct Listed<'a> {
    server_index: usize,
    tool_index: usize,
    tool: &'a str,
    base: String,
    seed: String,
    candidate: String,
}

impl Listed<'_> {
    /// Ordered by the wanted name first, so that the result depends on the listing order only if nothing else differs.
    fn order(&self) -> (&str, &str, usize, usize) {
        (&self.candidate, &self.seed, self.server_index, self.tool_index)
    }
}
