//! The places where a secret may be kept, and the vault that knows all of them.

use std::{
    fmt,
    io::Read as _,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use servanda_authority::Secret;
use zeroize::Zeroizing;

use crate::{LocalStore, SecretError, SecretName, SecretReference};

/// The length of the longest secret in bytes.
pub const SECRET_BYTES_MAX: usize = servanda_authority::scrubber::SECRET_BYTES_MAX;

/// One place that keeps secrets under names. Another place needs an implementation of this trait, a variant of [`SecretReference`], and a
/// line in [`Vault::get`].
pub trait SecretStore: Send + Sync + fmt::Debug {
    /// The secret of that name.
    fn get(&self, name: &str) -> Result<Secret, SecretError>;
}

/// The gateway's environment.
#[derive(Debug, Clone, Copy, Default)]
pub struct EnvironmentStore;

/// Files, relative to a folder.
#[derive(Debug, Clone)]
pub struct FileStore {
    folder: PathBuf,
}

/// Every place. Clones share the encrypted store.
#[derive(Debug, Clone)]
pub struct Vault {
    files: FileStore,
    local: Option<Arc<LocalStore>>,
}

impl SecretStore for EnvironmentStore {
    fn get(&self, name: &str) -> Result<Secret, SecretError> {
        let reference = || SecretReference::Environment(name.to_owned());
        let value = std::env::var_os(name).ok_or_else(|| SecretError::Missing(reference()))?;
        checked(Secret::new(value.into_encoded_bytes()), reference)
    }
}

impl FileStore {
    /// Files whose paths are relative to that folder.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    fn read(&self, path: &Path) -> Result<Secret, SecretError> {
        let reference = || SecretReference::File(path.to_owned());
        let full = self.folder.join(path);
        let unreadable = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::NotFound => SecretError::Missing(reference()),
            _ => SecretError::Unreadable { path: full.clone(), source: error },
        };
        // Links are followed, because an operator names the file, and some systems hand out secrets behind links.
        let file = servanda_files::open(&full).map_err(unreadable)?;
        // The opened file is checked, because the path may lead to another file meanwhile.
        let metadata = file.metadata().map_err(unreadable)?;
        if metadata.permissions().mode() & 0o077 != 0 {
            return Err(SecretError::Exposed { path: full });
        }
        let mut bytes = Zeroizing::new(Vec::with_capacity(SECRET_BYTES_MAX + 2));
        file.take(SECRET_BYTES_MAX as u64 + 2).read_to_end(&mut bytes).map_err(unreadable)?;
        let text = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        checked(Secret::new(text.strip_suffix(b"\r").unwrap_or(text)), reference)
    }
}

impl SecretStore for FileStore {
    fn get(&self, name: &str) -> Result<Secret, SecretError> {
        self.read(Path::new(name))
    }
}

impl Vault {
    /// The places for a configuration in that folder.
    pub fn new(folder: impl Into<PathBuf>, local: Option<Arc<LocalStore>>) -> Self {
        Self { files: FileStore::new(folder), local }
    }

    /// The encrypted store, if there is one.
    pub fn local(&self) -> Option<&Arc<LocalStore>> {
        self.local.as_ref()
    }

    /// The secret. It is looked up every time, so that a new value takes effect without a restart.
    pub fn get(&self, reference: &SecretReference) -> Result<Secret, SecretError> {
        match reference {
            SecretReference::Environment(name) => EnvironmentStore.get(name),
            SecretReference::File(path) => self.files.read(path),
            SecretReference::Store(name) => {
                let store = self.local.as_ref().ok_or_else(|| SecretError::NoStore(reference.clone()))?;
                store.get(name.as_str())
            }
        }
    }
}

impl SecretStore for LocalStore {
    fn get(&self, name: &str) -> Result<Secret, SecretError> {
        let name: SecretName = name.parse()?;
        let secret = self.read(&name)?.ok_or_else(|| SecretError::Missing(SecretReference::Store(name.clone())))?;
        checked(secret, || SecretReference::Store(name.clone()))
    }
}

/// Checks the length of a secret.
fn checked(secret: Secret, reference: impl Fn() -> SecretReference) -> Result<Secret, SecretError> {
    match secret.expose().len() {
        0 => Err(SecretError::Empty(reference())),
        1..=SECRET_BYTES_MAX => Ok(secret),
        _ => Err(SecretError::TooLong { reference: reference(), bytes_max: SECRET_BYTES_MAX }),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    fn file(folder: &Path, name: &str, text: &[u8], mode: u32) {
        let path = folder.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn files_that_others_can_read_are_refused_and_one_line_end_is_not_part_of_the_secret() {
        let folder = tempfile::tempdir().unwrap();
        let store = FileStore::new(folder.path());
        for (text, expected) in [(&b"s3cret\n"[..], &b"s3cret"[..]), (b"s3cret\r\n", b"s3cret"), (b" a\n\n", b" a\n")] {
            file(folder.path(), "good", text, 0o600);
            assert_eq!(store.get("good").unwrap().expose(), expected);
        }
        for mode in [0o640, 0o604, 0o644, 0o660] {
            file(folder.path(), "open", b"s3cret", mode);
            let error = store.get("open").unwrap_err();
            assert!(matches!(error, SecretError::Exposed { .. }), "{error}");
            assert!(error.hint().starts_with("chmod 600 "), "{}", error.hint());
        }
        file(folder.path(), "empty", b"\n", 0o600);
        file(folder.path(), "long", &vec![b'x'; SECRET_BYTES_MAX + 1], 0o600);
        assert!(matches!(store.get("empty").unwrap_err(), SecretError::Empty(_)));
        assert!(matches!(store.get("long").unwrap_err(), SecretError::TooLong { .. }));
        assert!(matches!(store.get("absent").unwrap_err(), SecretError::Missing(_)));
        file(folder.path(), "longest", &[vec![b'x'; SECRET_BYTES_MAX], b"\n".to_vec()].concat(), 0o400);
        assert_eq!(store.get("longest").unwrap().expose().len(), SECRET_BYTES_MAX);
    }

    #[test]
    fn only_a_regular_file_or_a_link_to_one_is_a_secret() {
        let folder = tempfile::tempdir().unwrap();
        let store = FileStore::new(folder.path());
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        symlink("/dev/zero", folder.path().join("device")).unwrap();
        for name in ["pipe", "device", "."] {
            let error = store.get(name).unwrap_err();
            assert!(error.to_string().contains("not a regular file"), "{error}");
        }
        file(folder.path(), "good", b"s3cret", 0o600);
        symlink("good", folder.path().join("link")).unwrap();
        assert_eq!(store.get("link").unwrap().expose(), b"s3cret");
    }

    #[test]
    fn a_missing_secret_says_how_to_set_it() {
        let vault = Vault::new("/", None);
        let table = [
            ("env:SERVANDA_TEST_NO_SUCH", "export SERVANDA_TEST_NO_SUCH=... where servanda is started"),
            ("file:/nonexistent/x", "write it to /nonexistent/x and chmod 600"),
            ("store:crm", "run servanda in the folder of its configuration"),
        ];
        for (reference, hint) in table {
            let error = vault.get(&reference.parse().unwrap()).unwrap_err();
            assert_eq!(error.hint(), hint, "{error}");
        }
    }
}
