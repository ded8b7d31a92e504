//! What tests need from outside the tree: the corpora beside the repository, hostile texts and what a person sees of them, PostgreSQL, a port.
//! It uses nothing of the gateway, so that what it says about the gateway's output is another opinion. A test that lacks something
//! fails if `CI=true`; otherwise it is skipped and leaves a line in `target/skipped.txt`, which `make unit` and `make test`
//! count last (`trials/skipped`). It installs and starts nothing.
//!
//! Only tests and trials depend on it.

mod hostile_texts;
mod port;
pub mod reading;

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};

pub use hostile_texts::hostile_texts;
pub use port::unused_port;

/// A file or folder in the folder `shared` beside the repository, or beside the folder that holds several work trees. `None` if
/// it is missing: the test is skipped, and that is counted.
#[must_use]
pub fn shared(path: &str) -> Option<PathBuf> {
    let found = beside(Path::new(env!("CARGO_MANIFEST_DIR")), path);
    if found.is_none() {
        missing(&format!("../shared/{path} is not here"));
    }
    found
}

/// Reports what a test lacks. If `CI=true` the test fails; otherwise it is counted as skipped, and returns without a verdict.
#[expect(clippy::panic, reason = "a test that lacks something fails by it")]
pub fn missing(reason: &str) {
    let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/skipped.txt");
    let ci = std::env::var("CI").unwrap_or_default();
    if let Err(error) = Absence::of(&ci).report(&test_name(), reason, &list) {
        panic!("{error}");
    }
}

/// What follows from something that is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Absence {
    Fails,
    IsCounted,
}

impl Absence {
    /// `ci` is the value of the variable `CI`.
    fn of(ci: &str) -> Self {
        if ci == "true" { Self::Fails } else { Self::IsCounted }
    }

    /// Adds a line to the list, or returns the error that the test fails with.
    fn report(self, test: &str, reason: &str, list: &Path) -> Result<(), String> {
        if self == Self::Fails {
            return Err(format!("{reason}, and with CI=true nothing is skipped"));
        }
        let write = || {
            fs::create_dir_all(list.parent().unwrap_or(Path::new(".")))?;
            let mut list = fs::OpenOptions::new().create(true).append(true).open(list)?;
            // One write, because tests of several processes append at the same time.
            list.write_all(format!("{test}\t{reason}\n").as_bytes())
        };
        write().map_err(|error| format!("{} cannot be written: {error}", list.display()))
    }
}

fn beside(folder: &Path, path: &str) -> Option<PathBuf> {
    folder.ancestors().map(|folder| folder.join("shared").join(path)).find(|place| place.exists())
}

/// nextest names the test in the environment; cargo's own runner names the thread after it.
fn test_name() -> String {
    let thread = || std::thread::current().name().unwrap_or("a test").to_owned();
    std::env::var("NEXTEST_TEST_NAME").unwrap_or_else(|_| thread())
}

#[cfg(test)]
mod tests;
