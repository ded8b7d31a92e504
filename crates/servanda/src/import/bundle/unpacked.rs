//! A bundle that was unpacked before anybody agreed to it: unless it is kept, it goes again, and what was in its place comes back.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{FOLDER, MARK_MODE};
use crate::files;

/// A folder that was set aside, and what its mark said.
type Before = (PathBuf, Option<String>);

/// What was unpacked.
#[derive(Debug)]
pub(crate) struct Unpacked {
    root: PathBuf,
    target: PathBuf,
    mark: PathBuf,
    /// What was in its place.
    before: Option<Before>,
    is_kept: bool,
}

impl Unpacked {
    /// A bundle that is about to be unpacked there.
    pub(super) fn at(root: &Path, target: &Path, mark: &Path, before: Option<Before>) -> Self {
        Self { root: root.to_owned(), target: target.to_owned(), mark: mark.to_owned(), before, is_kept: false }
    }

    /// Somebody agreed to it.
    pub(crate) fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for Unpacked {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        // That it could not be removed is worth less than why it is not wanted.
        let _ = fs::remove_dir_all(&self.target);
        let _ = fs::remove_file(&self.mark);
        if let Some((before, mark)) = &self.before {
            let _ = fs::rename(before, &self.target);
            if let Some(mark) = mark {
                let _ = files::write_inside(&self.root, &self.mark, mark, MARK_MODE);
            }
        }
        // Folders that have something in them stay.
        let folder = self.root.join(FOLDER);
        let _ = fs::remove_dir(&folder);
        let _ = folder.parent().map(fs::remove_dir);
    }
}
