//! What is known about one module: the names it declares and imports, and the paths in it.

use std::{collections::BTreeMap, path::PathBuf};

/// A path of modules from the crate's root; the root is empty.
pub(super) type ModulePath = Vec<String>;

#[derive(Debug, Default)]
pub(super) struct Module {
    pub(super) path: ModulePath,
    pub(super) file: PathBuf,
    /// The modules that are allowed to see each child module, by the child's name.
    pub(super) children: BTreeMap<String, ModulePath>,
    /// Declared items, and the modules that are allowed to see them.
    pub(super) items: BTreeMap<String, ModulePath>,
    pub(super) imports: Vec<Import>,
    pub(super) references: Vec<Reference>,
    /// What the bodies of this module's `macro_rules!` refer to, relative to the module that calls the macro.
    pub(super) macros: BTreeMap<String, Vec<Reference>>,
    /// The enclosing block of each block; block 0 is the module itself.
    pub(super) blocks: Vec<usize>,
}

/// One leaf of a `use` declaration.
#[derive(Debug, Clone)]
pub(super) struct Import {
    /// The name it gives; `None` for a glob.
    pub(super) name: Option<String>,
    pub(super) path: Vec<String>,
    pub(super) visible_in: ModulePath,
    pub(super) block: usize,
    pub(super) line: usize,
}

/// A path in code.
#[derive(Debug, Clone)]
pub(super) struct Reference {
    pub(super) path: Vec<String>,
    pub(super) block: usize,
    pub(super) line: usize,
    /// Whether a `!` follows.
    pub(super) is_macro: bool,
}
