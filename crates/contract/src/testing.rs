//! What the tests of this crate share: the public corpora read in place, golden files, the fixture contract.

use std::{fs, path::Path};

pub(crate) use servanda_requirements::shared;

use crate::{ToolContract, document};

/// A contract that is admitted.
pub(crate) const VOID_INVOICE: &str = include_str!("../tests/fixtures/void_invoice.yaml");

pub(crate) fn void_invoice() -> ToolContract {
    document::read("void_invoice.yaml", VOID_INVOICE).unwrap()
}

/// Every file of a folder with its name, sorted.
pub(crate) fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<(String, Vec<u8>)> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(&path).unwrap()))
        .collect();
    files.sort();
    files
}

/// Compares with a checked-in file, or writes it when `UPDATE_GOLDEN` is set.
pub(crate) fn golden(name: &str, actual: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, actual).unwrap();
        return;
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    if expected == actual {
        return;
    }
    let differs = expected.lines().zip(actual.lines()).position(|(expected, actual)| expected != actual);
    let line = differs.unwrap_or_else(|| expected.lines().count().min(actual.lines().count()));
    panic!(
        "tests/golden/{name} differs from line {}:\n  golden: {}\n  actual: {}\n\
         A wire shape, a stored shape or a published schema has changed. If that is meant, run\n  \
         UPDATE_GOLDEN=1 cargo test -p servanda-contract\nand read the difference before it is committed.",
        line + 1,
        expected.lines().nth(line).unwrap_or("(end)"),
        actual.lines().nth(line).unwrap_or("(end)"),
    );
}

pub(crate) fn golden_json(name: &str, actual: &impl serde::Serialize) {
    golden(name, &format!("{}\n", serde_json::to_string_pretty(actual).unwrap()));
}
