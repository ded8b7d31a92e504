//! Writing: a file is replaced as a whole or created, and a link in its place is never followed.

use std::{
    ffi::OsString,
    fs::{self, OpenOptions},
    hash::{BuildHasher as _, RandomState},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use crate::links::require_inside;

/// Writes a file in one step: a reader sees the old file or the new one, never a part. A link in its place is replaced and not followed.
/// Its folder must be inside `root`.
pub fn write_inside(root: &Path, file: &Path, text: &str, mode: u32) -> io::Result<()> {
    require_inside(root, file)?;
    let beside = beside(file);
    let written = write_new(&beside, text.as_bytes(), mode).and_then(|()| fs::rename(&beside, file));
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written
}

/// Writes a new file. Fails if a file or a link is already there.
pub fn write_new(file: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut opened = OpenOptions::new().write(true).create_new(true).mode(mode).open(file)?;
    opened.write_all(bytes)?;
    opened.sync_all()
}

/// A part of a file name that no attacker can guess and take beforehand.
pub fn unguessable() -> String {
    // The keys of a hasher come from the system's randomness.
    let number = || RandomState::new().hash_one(std::process::id());
    format!("{:016x}{:016x}", number(), number())
}

fn beside(file: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(file.file_name().unwrap_or_default());
    name.push(format!(".{}.new", unguessable()));
    file.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::{write_inside, write_new};

    #[test]
    fn writing_follows_no_link() {
        let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let theirs = outside.path().join("authorized_keys");
        fs::write(&theirs, "mine").unwrap();
        let link = folder.path().join("servanda.lock");
        symlink(&theirs, &link).unwrap();
        write_inside(folder.path(), &link, "new", 0o644).unwrap();
        assert_eq!(
            (fs::read_to_string(&theirs).unwrap(), fs::read_to_string(&link).unwrap()),
            ("mine".into(), "new".into())
        );
        assert!(!link.is_symlink());
        symlink(outside.path(), folder.path().join("contracts")).unwrap();
        let error = write_inside(folder.path(), &folder.path().join("contracts/x.yaml"), "new", 0o644).unwrap_err();
        assert!(error.to_string().contains("leads out"), "{error}");
        assert!(!outside.path().join("x.yaml").exists());
        symlink(outside.path().join("later"), folder.path().join("x.bak")).unwrap();
        assert!(write_new(&folder.path().join("x.bak"), b"x", 0o600).is_err());
        assert!(!outside.path().join("later").exists());
    }
}
