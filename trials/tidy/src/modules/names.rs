//! What a path in a module means: the modules that define what it names. Imports and re-exports are followed, so that a name
//! means the module that declares it and not one that passes it on.
//!
//! Types that are reached without being named (by inference, by a method's result) are not seen.

use std::collections::{BTreeMap, BTreeSet};

use super::module::{Import, Module, ModulePath, Reference};

pub(super) struct Names<'a> {
    modules: &'a [Module],
    by_path: BTreeMap<&'a [String], usize>,
}

/// What a name resolves to, by the index of a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    Module(usize),
    /// An item that this module declares.
    Item(usize),
}

impl Found {
    fn module(self) -> usize {
        match self {
            Self::Module(index) | Self::Item(index) => index,
        }
    }
}

/// Names that are being looked up, so that circular imports end.
type Under<'a> = &'a [(usize, String)];

impl<'a> Names<'a> {
    pub(super) fn new(modules: &'a [Module]) -> Self {
        let by_path = modules.iter().enumerate().map(|(index, module)| (module.path.as_slice(), index)).collect();
        Self { modules, by_path }
    }

    /// The modules that define what `path` names in a block of the module `from`.
    pub(super) fn definers(&self, from: usize, block: usize, path: &[String]) -> BTreeSet<usize> {
        self.find(from, block, path, &[]).into_iter().map(Found::module).collect()
    }

    /// The modules that a macro call refers to: the one that defines it, and those that its body names.
    pub(super) fn of_macro_call(&self, from: usize, call: &Reference) -> BTreeSet<usize> {
        let mut referred = BTreeSet::new();
        let (mut open, mut seen) = (vec![call.clone()], BTreeSet::new());
        while let Some(reference) = open.pop() {
            let mut definers = self.definers(from, reference.block, &reference.path);
            let name = reference.path.last().cloned().unwrap_or_default();
            if reference.is_macro && reference.path.len() == 1 && definers.is_empty() {
                // A macro is also known by its position in the text, without a path.
                definers
                    .extend((0..self.modules.len()).filter(|index| self.modules[*index].macros.contains_key(&name)));
            }
            for definer in definers.iter().copied().filter(|_| reference.is_macro) {
                if let Some(body) = self.modules[definer].macros.get(&name)
                    && seen.insert((definer, name.clone()))
                {
                    let at_call = |inner: &Reference| Reference { block: call.block, ..inner.clone() };
                    open.extend(body.iter().map(at_call));
                }
            }
            referred.extend(definers);
        }
        referred
    }

    fn find(&self, from: usize, block: usize, path: &[String], under: Under<'_>) -> Vec<Found> {
        let Some((head, rest)) = path.split_first() else { return Vec::new() };
        let own = &self.modules[from].path;
        match head.as_str() {
            "crate" => self.walk(&[], rest, own, under),
            "self" => self.walk(own, rest, own, under),
            "super" => self.walk(own, path, own, under),
            _ => {
                let found = self.in_scope(from, block, head, under);
                self.follow(found, rest, own, under)
            }
        }
    }

    /// Continues from a module of this crate. A name that is not found there is made by a macro: it counts as the module's own.
    fn walk(&self, start: &[String], rest: &[String], own: &ModulePath, under: Under<'_>) -> Vec<Found> {
        let Some(&module) = self.by_path.get(start) else { return Vec::new() };
        let Some((head, rest)) = rest.split_first() else { return vec![Found::Module(module)] };
        if head == "super" {
            return self.walk(&start[..start.len().saturating_sub(1)], rest, own, under);
        }
        let found = self.look_up(module, head, own, under);
        if found.is_empty() { vec![Found::Item(module)] } else { self.follow(found, rest, own, under) }
    }

    fn follow(&self, found: Vec<Found>, rest: &[String], own: &ModulePath, under: Under<'_>) -> Vec<Found> {
        if rest.is_empty() {
            return found;
        }
        let is_module = |found: &Found| matches!(found, Found::Module(_));
        if !found.iter().any(is_module) {
            return found;
        }
        let modules = found.into_iter().filter(is_module);
        modules.flat_map(|found| self.walk(&self.modules[found.module()].path, rest, own, under)).collect()
    }

    /// A name in a block: the block's imports, those of the blocks around it, and the module's names.
    fn in_scope(&self, from: usize, block: usize, name: &str, under: Under<'_>) -> Vec<Found> {
        let module = &self.modules[from];
        let mut block = block;
        while block != 0 {
            let here = module.imports.iter().filter(|import| import.block == block);
            let found = self.imported(from, here.collect(), name, under);
            if !found.is_empty() {
                return found;
            }
            block = module.blocks[block];
        }
        self.look_up(from, name, &module.path, under)
    }

    /// A name of a module, if code in `viewer` can see it.
    fn look_up(&self, module: usize, name: &str, viewer: &ModulePath, under: Under<'_>) -> Vec<Found> {
        let here = &self.modules[module];
        let sees = |visible_in: &ModulePath| viewer.starts_with(visible_in);
        let mut found = Vec::new();
        if here.children.get(name).is_some_and(sees) {
            let mut path = here.path.clone();
            path.push(name.to_owned());
            found.extend(self.by_path.get(path.as_slice()).map(|index| Found::Module(*index)));
        }
        if here.items.get(name).is_some_and(sees) {
            found.push(Found::Item(module));
        }
        let imports = here.imports.iter().filter(|import| import.block == 0 && sees(&import.visible_in)).collect();
        for target in self.imported(module, imports, name, under) {
            if !found.contains(&target) {
                found.push(target);
            }
        }
        found
    }

    /// What imports bring in under a name; a glob counts only if no import names it.
    fn imported(&self, module: usize, imports: Vec<&Import>, name: &str, under: Under<'_>) -> Vec<Found> {
        if under.iter().any(|(at, asked)| *at == module && asked == name) {
            return Vec::new();
        }
        let under: Vec<_> = under.iter().cloned().chain([(module, name.to_owned())]).collect();
        let own = &self.modules[module].path;
        let (named, globs): (Vec<_>, Vec<_>) = imports.into_iter().partition(|import| import.name.is_some());
        let named = named.into_iter().filter(|import| import.name.as_deref() == Some(name));
        let found: Vec<Found> = named.flat_map(|import| self.find(module, 0, &import.path, &under)).collect();
        let declared = self.modules[module].items.contains_key(name);
        if !found.is_empty() || declared || self.modules[module].children.contains_key(name) {
            return found;
        }
        let targets = globs.into_iter().flat_map(|glob| self.find(module, 0, &glob.path, &under));
        let modules = targets.filter_map(|target| match target {
            Found::Module(index) => Some(index),
            Found::Item(_) => None,
        });
        modules.flat_map(|index| self.look_up(index, name, own, &under)).collect()
    }
}
