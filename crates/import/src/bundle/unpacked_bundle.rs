//! A bundle that was unpacked before a person agreed to it. Unless it is kept, it is removed when this is dropped, and the folder that
//! was in its place is moved back.

use std::{
    fs,
    path::{Path, PathBuf},
};

use servanda_files as files;

use super::{FOLDER, MARK_MODE};

/// A folder that was moved aside, and the text of its mark.
type DisplacedFolder = (PathBuf, Option<String>);

/// An unpacked bundle.
#[derive(Debug)]
pub struct UnpackedBundle {
    root: PathBuf,
    target: PathBuf,
    mark: PathBuf,
    /// The folder that was in its place before.
    before: Option<DisplacedFolder>,
    is_kept: bool,
}

impl UnpackedBundle {
    /// A bundle that is about to be unpacked there.
    pub(super) fn at(root: &Path, target: &Path, mark: &Path, before: Option<DisplacedFolder>) -> Self {
        Self { root: root.to_owned(), target: target.to_owned(), mark: mark.to_owned(), before, is_kept: false }
    }

    /// Keeps the bundle, because a person agreed to it.
    pub fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for UnpackedBundle {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        // Errors here are ignored: the reason why the bundle is not kept matters more to the user.
        let _ = fs::remove_dir_all(&self.target);
        let _ = fs::remove_file(&self.mark);
        if let Some((before, mark)) = &self.before {
            let _ = fs::rename(before, &self.target);
            if let Some(mark) = mark {
                let _ = files::write_inside(&self.root, &self.mark, mark, MARK_MODE);
            }
        }
        // `remove_dir` removes only empty folders.
        let folder = self.root.join(FOLDER);
        let _ = fs::remove_dir(&folder);
        let _ = folder.parent().map(fs::remove_dir);
    }
}
