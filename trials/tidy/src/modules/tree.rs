//! The module tree of a crate: which modules it has, and in which files they are. Modules that are compiled for tests only are
//! left out.

use std::path::{Path, PathBuf};

use super::{
    module::{Module, ModulePath},
    scan::{Child, scan},
    test_code::is_test_file,
    tokens::{Token, tokens},
};

/// Reads a source file; `None` where there is none.
pub(super) type ReadFile<'a> = &'a dyn Fn(&Path) -> Option<String>;

/// Every module of the crate whose root is `root`.
pub(super) fn read_crate(root: &Path, read_file: ReadFile<'_>) -> Vec<Module> {
    let mut tree = Tree { read_file, modules: Vec::new() };
    let folder = root.parent().unwrap_or(Path::new("")).to_owned();
    tree.read_module(Vec::new(), root.to_owned(), folder);
    tree.modules
}

struct Tree<'a> {
    read_file: ReadFile<'a>,
    modules: Vec<Module>,
}

/// The location of a module's text, and of its children's files.
struct Place<'a> {
    tokens: &'a [Token],
    /// The folder of the children's files.
    folder: PathBuf,
    /// The folder that `#[path]` starts from.
    path_folder: PathBuf,
}

impl Tree<'_> {
    fn read_module(&mut self, path: ModulePath, file: PathBuf, folder: PathBuf) {
        let text = (self.read_file)(&file).unwrap_or_else(|| panic!("cannot read {}", file.display()));
        let tokens = tokens(&text);
        if is_test_file(&tokens) {
            return;
        }
        let path_folder = file.parent().unwrap_or(Path::new("")).to_owned();
        self.read_body(path, file, &Place { tokens: &tokens, folder, path_folder });
    }

    fn read_body(&mut self, path: ModulePath, file: PathBuf, place: &Place<'_>) {
        let mut module = Module { path, file, blocks: vec![0], ..Module::default() };
        for child in scan(&mut module, place.tokens) {
            let mut path = module.path.clone();
            path.push(child.name.clone());
            // A file with its own `#![cfg(test)]` is not a module of the product.
            if self.read_child(path, &child, &module.file, place) {
                module.children.insert(child.name, child.visible_in);
            }
        }
        self.modules.push(module);
    }

    /// Reads a child; returns whether it is a module of the product.
    fn read_child(&mut self, path: ModulePath, child: &Child, file: &Path, place: &Place<'_>) -> bool {
        let before = self.modules.len();
        let own_folder = place.folder.join(&child.name);
        match (&child.body, &child.file) {
            (Some((start, end)), _) => {
                let tokens = &place.tokens[*start..*end];
                let inner = Place { tokens, folder: own_folder.clone(), path_folder: own_folder };
                self.read_body(path, file.to_owned(), &inner);
            }
            (None, Some(given)) => {
                let file = place.path_folder.join(given);
                let folder = file.parent().unwrap_or(Path::new("")).to_owned();
                self.read_module(path, file, folder);
            }
            (None, None) => {
                let plain = place.folder.join(format!("{}.rs", child.name));
                let file = if (self.read_file)(&plain).is_some() { plain } else { own_folder.join("mod.rs") };
                self.read_module(path, file, own_folder);
            }
        }
        self.modules.len() > before
    }
}
