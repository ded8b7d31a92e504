//! Symbolic links: which are refused, and what the refusal says.

use std::{
    fs, io,
    path::{Component, Path, PathBuf},
};

/// Refuses a path that is a symbolic link, even one that leads nowhere. A path that does not exist passes.
pub fn refuse_link(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(there) if there.is_symlink() => Err(is_a_link(path)),
        Ok(_) => Ok(()),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Refuses a path that is reached through a symbolic link below `root`. Links on the way to `root` itself do not matter.
pub fn require_unlinked(root: &Path, path: &Path) -> io::Result<()> {
    let below = path.strip_prefix(root).unwrap_or(path);
    // A root of `.` is left out of the path that the error shows.
    let is_whole = below == path && path.is_absolute() || root == Path::new(".");
    let mut reached = if is_whole { PathBuf::new() } else { root.to_owned() };
    for part in below.components() {
        reached.push(part);
        if matches!(part, Component::Normal(_)) {
            refuse_link(&reached)?;
        }
    }
    Ok(())
}

/// Requires that the folder of a file is inside another, after all links are followed.
pub fn require_inside(root: &Path, file: &Path) -> io::Result<()> {
    let (root, folder) = (folder_of(root), file.parent().map_or_else(|| PathBuf::from("."), folder_of));
    let (root, folder) = (fs::canonicalize(root)?, fs::canonicalize(folder)?);
    if folder.starts_with(&root) {
        return Ok(());
    }
    Err(io::Error::other(format!("a link leads out of `{}`, to `{}`", root.display(), folder.display())))
}

/// The error that names the link, where it leads, and what to do.
pub(crate) fn is_a_link(path: &Path) -> io::Error {
    let target = fs::read_link(path).map_or_else(|_| "somewhere else".to_owned(), |to| format!("`{}`", to.display()));
    let path = path.display();
    io::Error::other(format!("`{path}` is a symbolic link to {target}, which is not followed: remove the link"))
}

fn folder_of(folder: &Path) -> PathBuf {
    if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink, path::Path};

    use super::{refuse_link, require_unlinked};

    #[test]
    fn a_link_below_the_root_is_refused_and_one_above_it_is_not() {
        let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir(outside.path().join("repository")).unwrap();
        let root = folder.path().join("way");
        symlink(outside.path().join("repository"), &root).unwrap();
        fs::create_dir(root.join(".servanda")).unwrap();
        let file = root.join(".servanda/ledger.db");
        require_unlinked(&root, &file).unwrap();
        for target in ["/etc/passwd", "nowhere"] {
            symlink(target, &file).unwrap();
            let error = require_unlinked(&root, &file).unwrap_err().to_string();
            assert!(error.contains("ledger.db` is a symbolic link to") && error.contains(target), "{error}");
            fs::remove_file(&file).unwrap();
        }
        symlink(outside.path(), root.join("state")).unwrap();
        assert!(require_unlinked(&root, &root.join("state/x")).is_err());
        assert!(require_unlinked(Path::new("."), Path::new("Cargo.toml")).is_ok());
        refuse_link(&root.join("absent")).unwrap();
    }
}
