//! Checks whether a program can be started, before a supervisor is started for it. It looks where `execvp` would.

use std::{
    ffi::{OsStr, OsString},
    io,
    path::{Path, PathBuf},
};

use rustix::fs::{Access, access};

/// What `execvp` searches if there is no `PATH`.
const USUAL_PATH: &str = "/bin:/usr/bin";

/// Fails if the program could not be started from this folder with this `PATH`, as far as that is known now.
pub(crate) fn find(command: &str, path: Option<&OsString>, cwd: Option<&Path>) -> io::Result<()> {
    let cwd = cwd.unwrap_or(Path::new("."));
    let candidates: Vec<PathBuf> = if command.contains('/') {
        vec![cwd.join(command)]
    } else {
        let path = path.map_or(OsStr::new(USUAL_PATH), OsString::as_os_str);
        std::env::split_paths(path).map(|folder| cwd.join(folder).join(command)).collect()
    };
    // As with `execvp`, a file that is not executable is reported only if there is no other candidate.
    let mut why = io::Error::from(rustix::io::Errno::NOENT);
    for candidate in candidates {
        match access(&candidate, Access::EXEC_OK) {
            Ok(()) if candidate.is_dir() => why = rustix::io::Errno::ACCESS.into(),
            Ok(()) => return Ok(()),
            Err(rustix::io::Errno::ACCESS) => why = rustix::io::Errno::ACCESS.into(),
            Err(_) => {}
        }
    }
    Err(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_looked_for_where_it_would_be_started() {
        let folder = tempfile::tempdir().unwrap();
        let (path, cwd) = (OsString::from(format!("/nonexistent:{}", folder.path().display())), Some(folder.path()));
        let file = folder.path().join("server");
        let told = |command: &str| find(command, Some(&path), cwd).map_err(|error| error.kind());
        assert_eq!(told("server"), Err(std::io::ErrorKind::NotFound));
        std::fs::write(&file, "").unwrap();
        // Root may read and write any file, but not even root may execute a file without an execute permission.
        assert_eq!(told("server"), Err(std::io::ErrorKind::PermissionDenied));
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        assert_eq!((told("server"), told("./server")), (Ok(()), Ok(())));
        assert_eq!(told("./other"), Err(std::io::ErrorKind::NotFound));
        assert_eq!(told("/"), Err(std::io::ErrorKind::PermissionDenied), "a folder is no program");
    }
}
