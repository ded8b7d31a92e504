//! The graph of sibling modules: its lines as a person reads them, and its cycles with the places in the source that cause
//! them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    path::{Path, PathBuf},
};

use super::{
    module::{Module, ModulePath, Reference},
    names::Names,
    tree::{ReadFile, read_crate},
};

/// How many places are shown for an edge of a cycle.
const PLACES_SHOWN: usize = 4;

pub(super) struct Graph {
    name: String,
    modules: BTreeSet<ModulePath>,
    /// For each module, the modules beside it that it refers to, and where.
    edges: BTreeMap<ModulePath, BTreeMap<ModulePath, BTreeSet<Place>>>,
}

/// A path in the source.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    file: PathBuf,
    line: usize,
    path: String,
}

impl Graph {
    pub(super) fn read(name: &str, root: &Path, read_file: ReadFile<'_>) -> Self {
        let modules = read_crate(root, read_file);
        let names = Names::new(&modules);
        let paths = modules.iter().map(|module| module.path.clone()).collect();
        let mut graph = Self { name: name.to_owned(), modules: paths, edges: BTreeMap::new() };
        for (from, module) in modules.iter().enumerate() {
            let place = |path: &[String], line| Place { file: module.file.clone(), line, path: path.join("::") };
            for import in &module.imports {
                let targets = names.definers(from, import.block, &import.path);
                graph.add(&modules, from, &targets, || place(&import.path, import.line));
            }
            for reference in module.references.iter().filter(|reference| !is_imported(module, reference)) {
                let targets = if reference.is_macro {
                    names.of_macro_call(from, reference)
                } else {
                    names.definers(from, reference.block, &reference.path)
                };
                graph.add(&modules, from, &targets, || place(&reference.path, reference.line));
            }
        }
        graph
    }

    fn add(&mut self, modules: &[Module], from: usize, targets: &BTreeSet<usize>, place: impl Fn() -> Place) {
        let from = &modules[from].path;
        for target in targets {
            let to = &modules[*target].path;
            let common = from.iter().zip(to).take_while(|(one, other)| one == other).count();
            if common < from.len() && common < to.len() {
                let edges = self.edges.entry(from[..=common].to_vec()).or_default();
                edges.entry(to[..=common].to_vec()).or_default().insert(place());
            }
        }
    }

    /// One line for each module: `engine::call -> bridge, records`.
    pub(super) fn lines(&self) -> String {
        let mut lines = String::new();
        for module in self.modules.iter().filter(|module| !module.is_empty()) {
            let targets: Vec<&str> = self.targets(module).map(last).collect();
            let arrow = if targets.is_empty() { "" } else { " -> " };
            let _ = writeln!(lines, "{}::{}{arrow}{}", self.name, module.join("::"), targets.join(", "));
        }
        lines
    }

    /// Every set of modules that refer to each other in a circle, as a person reads it.
    pub(super) fn cycles(&self) -> Vec<String> {
        self.circles().iter().map(|circle| self.tell(circle)).collect()
    }

    fn targets(&self, module: &ModulePath) -> impl Iterator<Item = &ModulePath> {
        self.edges.get(module).into_iter().flat_map(BTreeMap::keys)
    }

    /// The sets of modules in which each reaches every other.
    fn circles(&self) -> Vec<BTreeSet<&ModulePath>> {
        let reached: BTreeMap<&ModulePath, BTreeSet<&ModulePath>> =
            self.edges.keys().map(|module| (module, self.reached_from(module))).collect();
        let mut circles: Vec<BTreeSet<&ModulePath>> = Vec::new();
        for (module, others) in &reached {
            if others.contains(module) && !circles.iter().any(|circle| circle.contains(module)) {
                let back = |other: &&&ModulePath| reached.get(**other).is_some_and(|reached| reached.contains(module));
                circles.push(others.iter().filter(back).copied().collect());
            }
        }
        circles
    }

    fn reached_from(&self, module: &ModulePath) -> BTreeSet<&ModulePath> {
        let mut reached = BTreeSet::new();
        let mut open: Vec<&ModulePath> = self.targets(module).collect();
        while let Some(next) = open.pop() {
            if reached.insert(next) {
                open.extend(self.targets(next));
            }
        }
        reached
    }

    fn tell(&self, circle: &BTreeSet<&ModulePath>) -> String {
        let parent = circle.first().map(|module| &module[..module.len() - 1]).unwrap_or_default();
        let level: Vec<&str> = std::iter::once(self.name.as_str()).chain(parent.iter().map(String::as_str)).collect();
        let members: Vec<&str> = circle.iter().map(|module| last(module)).collect();
        let mut told = format!("{}: {}\n", level.join("::"), members.join(", "));
        for module in circle {
            for (target, places) in self.edges.get(*module).into_iter().flatten() {
                if circle.contains(target) {
                    let _ = writeln!(told, "  {} -> {}", last(module), last(target));
                    for place in places.iter().take(PLACES_SHOWN) {
                        let _ = writeln!(told, "    {}:{}: {}", shown(&place.file), place.line, place.path);
                    }
                    if places.len() > PLACES_SHOWN {
                        let _ = writeln!(told, "    and {} more", places.len() - PLACES_SHOWN);
                    }
                }
            }
        }
        told
    }
}

/// Whether a path is a single word that an import of the module names: then the import is the place to show.
fn is_imported(module: &Module, reference: &Reference) -> bool {
    let [word] = reference.path.as_slice() else { return false };
    !reference.is_macro && module.imports.iter().any(|import| import.name.as_ref() == Some(word))
}

fn last(module: &ModulePath) -> &str {
    module.last().map_or("", String::as_str)
}

/// The path of a file in the repository.
fn shown(file: &Path) -> String {
    let text = file.display().to_string();
    text.find("/crates/").map_or(text.clone(), |start| text[start + 1..].to_owned())
}
