//! The corpus for training: which tools have a label and from whom, which servers are one family, which descriptors are equal.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use serde::Deserialize;
use servanda_identity::classifier::Descriptor;

/// A tool of the corpus.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Tool {
    /// Its id.
    pub(crate) id: String,
    /// Its server.
    pub(crate) server: String,
    /// Its descriptor.
    #[serde(flatten)]
    pub(crate) descriptor: Descriptor,
    /// The family of servers it belongs to; filled in by `load`.
    #[serde(skip)]
    pub(crate) family: String,
}

impl Tool {
    /// Whether its author says it changes something.
    pub(crate) fn author_mutates(&self) -> Option<bool> {
        self.descriptor.annotations.and_then(|hints| hints.read_only_hint).map(|read_only| !read_only)
    }
}

/// Reads the corpus and determines the families.
pub(crate) fn load(path: &Path) -> Result<Vec<Tool>, Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string(path)?;
    let mut tools: Vec<Tool> =
        text.lines().filter(|line| !line.trim().is_empty()).map(serde_json::from_str).collect::<Result<_, _>>()?;
    let families = families(&tools);
    for tool in &mut tools {
        tool.family = families.get(&tool.server).cloned().unwrap_or_else(|| tool.server.clone());
    }
    Ok(tools)
}

/// Our own judgements, by id: lines of server, word, names between `|`.
pub(crate) fn judgements(path: &Path) -> std::io::Result<BTreeMap<String, bool>> {
    let mut judged = BTreeMap::new();
    for line in std::fs::read_to_string(path)?.lines().filter(|line| !line.starts_with('#')) {
        if let [server, word, names] = line.split('\t').collect::<Vec<_>>()[..] {
            judged.extend(names.split('|').map(|name| (format!("{server}/{name}"), word == "MUTATES")));
        }
    }
    Ok(judged)
}

/// The ids in the first column of a file.
pub(crate) fn ids(path: &Path) -> std::io::Result<BTreeSet<String>> {
    let text = std::fs::read_to_string(path)?;
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    Ok(lines.filter_map(|line| line.split('\t').next()).map(str::to_owned).collect())
}

/// What two copies of one tool have in common: the letters of the name and the beginning of the description.
pub(crate) fn likeness(tool: &Tool) -> String {
    let letters = |text: &str, most: usize| -> String {
        text.chars().filter(|character| character.is_alphanumeric()).flat_map(char::to_lowercase).take(most).collect()
    };
    let description = tool.descriptor.description.as_deref().unwrap_or_default();
    format!("{}|{}", letters(&tool.descriptor.name, 64), letters(description, 160))
}

/// Servers of one vendor are one family, and so are servers that share a fifth of their tools.
fn families(tools: &[Tool]) -> BTreeMap<String, String> {
    let mut by_server: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for tool in tools {
        by_server.entry(&tool.server).or_default().insert(likeness(tool));
    }
    let mut family: BTreeMap<String, String> =
        by_server.keys().map(|server| ((*server).to_owned(), vendor(server))).collect();
    let servers: Vec<(&str, &BTreeSet<String>)> = by_server.iter().map(|(server, tools)| (*server, tools)).collect();
    for (at, (one, ones)) in servers.iter().enumerate() {
        for (other, others) in servers.iter().skip(at + 1) {
            let shared = ones.intersection(others).count();
            if shared * 5 >= ones.len().min(others.len()) && shared > 0 {
                let (kept, lost) = (family[*one].clone(), family[*other].clone());
                for name in family.values_mut().filter(|name| **name == lost) {
                    name.clone_from(&kept);
                }
            }
        }
    }
    family
}

/// Projects whose servers go by several ids.
const PROJECTS: [&str; 25] = [
    "cloudflare",
    "notion",
    "awslabs",
    "oracle",
    "github-mcp-server",
    "elastic",
    "arxiv",
    "playwright",
    "linear",
    "supabase",
    "wikipedia",
    "kubernetes",
    "kubectl",
    "magicui",
    "shadcn",
    "airbnb",
    "context7",
    "fetch",
    "filesystem",
    "sqlite",
    "sonarqube",
    "excel",
    "word",
    "reddit",
    "weather",
];

/// The vendor or project behind a server's id: `npm:@notionhq/notion-mcp-server@1.9.1` is `notion`.
fn vendor(server: &str) -> String {
    let (_, name) = server.split_once(':').unwrap_or(("", server));
    let versionless = match name.rfind('@') {
        Some(at) if at > 0 => &name[..at],
        _ => name,
    };
    for project in PROJECTS {
        if versionless.to_lowercase().contains(project) {
            return project.replace("kubectl", "kubernetes");
        }
    }
    versionless.to_lowercase()
}
