//! A file or a folder as a digest: for a file, of its content; for a folder, of the name, kind, size and content of everything in it. Links
//! are not followed: a link counts as the path that it points to. Times and permissions are not read.

use std::{
    fs::{self, File, Metadata},
    io::{self, Read as _},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use servanda_contract::{Digest, digest::DigestDomain};
use sha2::{Digest as _, Sha256};

use super::verdict::ProbeSnapshot;

/// How much of a path is read.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_field_names, reason = "limits are named after what they limit")]
pub(crate) struct PathLimits {
    pub(crate) bytes_max: u64,
    pub(crate) entries_max: usize,
    pub(crate) depth_max: usize,
}

impl Default for PathLimits {
    fn default() -> Self {
        Self { bytes_max: 64 << 20, entries_max: 10_000, depth_max: 32 }
    }
}

/// Looks at a path. Blocks; ends soon after `stop` is set.
pub(crate) fn look(path: &Path, limits: PathLimits, stop: &AtomicBool) -> ProbeSnapshot {
    let mut survey = PathDigester { parts: Vec::new(), entries: 0, bytes: 0, limits, stop };
    let looked = match fs::symlink_metadata(path) {
        // A missing path is a state like any other.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            survey.put(&[b"missing"]);
            Ok(())
        }
        Err(error) => Err(PathReadError::Failed(error)),
        Ok(metadata) => survey.visit(path, b"", &metadata, 0),
    };
    match looked {
        Ok(()) => {
            let parts: Vec<&[u8]> = survey.parts.iter().map(Vec::as_slice).collect();
            ProbeSnapshot::Digest(Digest::compute(DigestDomain::Seen, &parts))
        }
        Err(PathReadError::TooLarge(what)) => ProbeSnapshot::NotTaken(format!("too large: {what}")),
        Err(PathReadError::Stopped) => ProbeSnapshot::NotTaken("it took too long".to_owned()),
        Err(PathReadError::Failed(error)) => ProbeSnapshot::NotTaken(format!("it could not be read: {}", error.kind())),
    }
}

enum PathReadError {
    TooLarge(String),
    Stopped,
    Failed(io::Error),
}

impl From<io::Error> for PathReadError {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

struct PathDigester<'a> {
    parts: Vec<Vec<u8>>,
    entries: usize,
    bytes: u64,
    limits: PathLimits,
    stop: &'a AtomicBool,
}

impl PathDigester<'_> {
    fn put(&mut self, parts: &[&[u8]]) {
        self.parts.extend(parts.iter().map(|part| part.to_vec()));
    }

    fn visit(&mut self, path: &Path, name: &[u8], metadata: &Metadata, depth: usize) -> Result<(), PathReadError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(PathReadError::Stopped);
        }
        self.entries += 1;
        if self.entries > self.limits.entries_max {
            return Err(PathReadError::TooLarge(format!("more than {} entries", self.limits.entries_max)));
        }
        let kind = metadata.file_type();
        if kind.is_symlink() {
            let target = fs::read_link(path)?;
            self.put(&[name, b"link", target.as_os_str().as_encoded_bytes()]);
        } else if kind.is_file() {
            let (size, content) = self.content(path)?;
            self.put(&[name, b"file", &size.to_be_bytes(), &content]);
        } else if kind.is_dir() {
            self.put(&[name, b"folder"]);
            self.inside(path, name, depth)?;
        } else {
            // A pipe or a device: opening it could block, or do something.
            self.put(&[name, b"other"]);
        }
        Ok(())
    }

    fn inside(&mut self, folder: &Path, name: &[u8], depth: usize) -> Result<(), PathReadError> {
        if depth >= self.limits.depth_max {
            return Err(PathReadError::TooLarge(format!("more than {} folders deep", self.limits.depth_max)));
        }
        let mut names = Vec::new();
        for entry in fs::read_dir(folder)? {
            names.push(entry?.file_name());
            if names.len() > self.limits.entries_max {
                return Err(PathReadError::TooLarge(format!("more than {} entries", self.limits.entries_max)));
            }
        }
        names.sort();
        for inner in names {
            let path = folder.join(&inner);
            let relative = [name, b"/", inner.as_encoded_bytes()].concat();
            match fs::symlink_metadata(&path) {
                Ok(metadata) => self.visit(&path, &relative, &metadata, depth + 1)?,
                // It was removed while the folder was read.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(PathReadError::Failed(error)),
            }
        }
        Ok(())
    }

    /// The length and the digest of a file's content.
    fn content(&mut self, path: &Path) -> Result<(u64, [u8; 32]), PathReadError> {
        let mut file = File::open(path)?;
        let mut hasher = Sha256::new();
        let mut buffer = vec![0; 64 << 10];
        let mut size = 0_u64;
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Err(PathReadError::Stopped);
            }
            let read = file.read(&mut buffer)?;
            let Some(piece) = buffer.get(..read).filter(|piece| !piece.is_empty()) else { break };
            hasher.update(piece);
            let length = u64::try_from(read).unwrap_or(u64::MAX);
            size = size.saturating_add(length);
            self.bytes = self.bytes.saturating_add(length);
            if self.bytes > self.limits.bytes_max {
                return Err(PathReadError::TooLarge(format!("more than {} bytes", self.limits.bytes_max)));
            }
        }
        Ok((size, hasher.finalize().into()))
    }
}
