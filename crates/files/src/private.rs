//! Files that only their owner may use. If others may read such a file, its mode is corrected, and the caller is told, because others may
//! have read it.

use std::{
    fmt, fs, io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use rustix::fs::{Mode, OFlags};

/// The mode that gave others access, before it was corrected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModeRepair {
    /// The file or folder.
    pub path: PathBuf,
    /// The mode it had.
    pub mode: u32,
}

/// The mode of a file that others may use in some way; none if they may not, and none for a link.
pub fn open_to_others(path: &Path) -> Option<u32> {
    let there = fs::symlink_metadata(path).ok().filter(|there| !there.is_symlink())?;
    let mode = there.permissions().mode() & 0o777;
    (mode & 0o077 != 0).then_some(mode)
}

/// Removes all permissions of others from a file or folder, without following a link. After an error, others still have them.
pub fn restrict_to_owner(path: &Path) -> io::Result<Option<ModeRepair>> {
    let Some(mode) = open_to_others(path) else { return Ok(None) };
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = fs::File::from(rustix::fs::open(path, flags, Mode::empty())?);
    opened.set_permissions(fs::Permissions::from_mode(mode & 0o700))?;
    Ok(Some(ModeRepair { path: path.to_owned(), mode }))
}

impl fmt::Display for ModeRepair {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "others could read `{}` (mode {:o}); now they cannot", self.path.display(), self.mode)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{PermissionsExt as _, symlink},
    };

    use super::{ModeRepair, restrict_to_owner};

    #[test]
    fn permissions_of_others_are_removed_and_reported_and_never_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let mode = |name: &str| fs::metadata(folder.path().join(name)).unwrap().permissions().mode() & 0o777;
        for (name, before) in [("file", 0o664), ("theirs", 0o644)] {
            fs::write(folder.path().join(name), "x").unwrap();
            fs::set_permissions(folder.path().join(name), fs::Permissions::from_mode(before)).unwrap();
        }
        let file = folder.path().join("file");
        assert_eq!(restrict_to_owner(&file).unwrap(), Some(ModeRepair { path: file.clone(), mode: 0o664 }));
        assert_eq!((mode("file"), restrict_to_owner(&file).unwrap()), (0o600, None));
        symlink("theirs", folder.path().join("link")).unwrap();
        assert_eq!((restrict_to_owner(&folder.path().join("link")).unwrap(), mode("theirs")), (None, 0o644));
    }
}
