//! MCPB bundles (`.mcpb`, `.dxt`): a zip with a manifest that says how to start the server inside. It is unpacked into a folder of ours and
//! started from there. A signature is not checked; a SHA-256 that the user gives is.

mod manifest;
#[cfg(test)]
mod tests;
mod unpack;
mod unpacked_bundle;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde_json::Value;
use servanda_catalog::names;
use servanda_clients::{
    file::shown,
    json::{self, JsoncError},
};
use servanda_files as files;

use self::manifest::{Manifest, ManifestSettings};
pub use self::{
    manifest::ManifestError,
    unpack::{EntryFault, EntryNameError, UnpackError},
    unpacked_bundle::UnpackedBundle,
};
use crate::{ImportError, ImportResult, ImportSource};

/// How large a bundle may be.
pub(super) const ARCHIVE_BYTES_MAX: u64 = 256 << 20;
/// Only the owner of the folder needs to know which bundle was unpacked.
const MARK_MODE: u32 = 0o600;
/// The folder for unpacked bundles, beside our configuration.
const FOLDER: &str = ".servanda/bundles";
/// How many earlier folders of one bundle are kept.
const KEPT_MAX: u32 = 1_000;
/// The marks around a signature, after the zip.
const SIGNATURE: (&[u8], &[u8]) = (b"MCPB_SIG_V1", b"MCPB_SIG_END");

/// Why a bundle cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// It cannot be unpacked.
    #[error(transparent)]
    Unpack(#[from] UnpackError),
    /// Its manifest is not JSON.
    #[error("manifest.json: {0}")]
    ManifestText(JsoncError),
    /// Its manifest cannot be used.
    #[error("manifest.json: {0}")]
    Manifest(#[from] ManifestError),
    /// Its server cannot be used.
    #[error(transparent)]
    Server(#[from] BundleServerError),
    /// A link is where it would be unpacked.
    #[error("{0}")]
    Linked(io::Error),
}

/// Why the server of a bundle cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BundleServerError {
    /// The manifest does not describe one.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// Its program cannot be made executable.
    #[error("`{}`: {source}", program.display())]
    Program {
        /// The program.
        program: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// Unpacks a bundle and imports its server.
pub(super) fn import(source: &ImportSource<'_>, bytes: &[u8], digest: &str) -> Result<ImportResult, ImportError> {
    let bad = |error: BundleError| ImportError::Bundle { file: source.file.to_owned(), source: error };
    let (zip, signed) = without_signature(bytes);
    let text = unpack::manifest(zip).map_err(|error| bad(error.into()))?;
    let document = json::parse(&text).map_err(|error| bad(BundleError::ManifestText(error)))?;
    let manifest = Manifest::read(&document.value()).map_err(|error| bad(error.into()))?;
    let root = std::path::absolute(source.folder)?;
    let folder = root.join(FOLDER);
    let name = format!("{}-{}", plain(&manifest.name), plain(&manifest.version));
    let target = folder.join(&name);
    // Checked before anything is unpacked, so that a refused manifest leaves nothing behind.
    manifest.upstream(&mut ManifestSettings::new(&manifest, &target)).map_err(|error| bad(error.into()))?;
    let mark = folder.join(format!("{name}.sha256"));
    files::require_unlinked(&root, &target).map_err(|error| bad(BundleError::Linked(error)))?;
    let marked = files::read_text(&mark, files::TEXT_BYTES_MAX).ok();
    let there = marked.as_ref().is_some_and(|there| there.trim() == digest) && target.is_dir();
    let mut imported = ImportResult::default();
    if !there {
        let mut before = None;
        if target.exists() {
            if !source.anew {
                return Err(ImportError::Occupied { folder: target });
            }
            before = Some((keep(&target)?, marked));
        }
        // From here on everything in this folder belongs to this bundle, and is removed unless a person agrees to it.
        imported.unpacked = Some(UnpackedBundle::at(&root, &target, &mark, before));
        unpack::all(zip, (&root, &folder), &target).map_err(|error| bad(error.into()))?;
        files::write_inside(source.folder, &mark, &format!("{digest}\n"), MARK_MODE)?;
    }
    let words = if there { "was unpacked before" } else { "was unpacked" };
    imported.notes.push(format!("the bundle {words} in {}", shown(&target)));
    if source.sha256.is_none() {
        imported.notes.push(format!("its SHA-256 is {digest}; compare it with what its author published"));
    }
    if signed {
        imported.notes.push("its signature was not checked".to_owned());
    }
    take(&mut imported, &manifest, &target, Some(Path::new(FOLDER).join(&name))).map_err(|error| bad(error.into()))?;
    Ok(imported)
}

/// Imports the server of a bundle that is already unpacked, from where it is.
pub(super) fn import_unpacked(source: &ImportSource<'_>, document: &Value) -> Result<ImportResult, ImportError> {
    let bad = |error: BundleServerError| ImportError::BundleServer { file: source.file.to_owned(), source: error };
    let manifest = Manifest::read(document).map_err(|error| bad(error.into()))?;
    let file = std::path::absolute(source.file)?;
    let folder = file.parent().unwrap_or(Path::new("/"));
    let mut imported = ImportResult::default();
    take(&mut imported, &manifest, folder, None).map_err(bad)?;
    Ok(imported)
}

fn take(
    imported: &mut ImportResult,
    manifest: &Manifest,
    folder: &Path,
    cwd: Option<PathBuf>,
) -> Result<(), BundleServerError> {
    let mut settings = ManifestSettings::new(manifest, folder);
    let mut upstream = manifest.upstream(&mut settings)?;
    upstream.cwd = Some(cwd.unwrap_or_else(|| folder.to_owned()));
    if let Some(command) = upstream.command.as_deref().map(Path::new) {
        unpack::make_executable(command, folder)
            .map_err(|source| BundleServerError::Program { program: command.to_owned(), source })?;
    }
    imported.notes.extend(settings.notes);
    imported.asked.extend(settings.asked);
    imported.take(&names::to_upstream_id(&manifest.name), upstream);
    Ok(())
}

/// The zip alone, and whether a signature followed it.
fn without_signature(bytes: &[u8]) -> (&[u8], bool) {
    let (head, foot) = SIGNATURE;
    if !bytes.ends_with(foot) {
        return (bytes, false);
    }
    let start = bytes.windows(head.len()).rposition(|window| window == head);
    start.and_then(|start| bytes.get(..start)).map_or((bytes, false), |zip| (zip, true))
}

/// A part of a folder's name, without characters that lead elsewhere.
fn plain(text: &str) -> String {
    let kept: String = text
        .chars()
        .map(|character| if character.is_ascii_alphanumeric() || "-_.+".contains(character) { character } else { '_' })
        .take(64)
        .collect();
    kept.trim_start_matches('.').to_owned()
}

/// Moves the existing folder aside, and returns where it is now.
fn keep(target: &Path) -> Result<PathBuf, ImportError> {
    for number in 1..=KEPT_MAX {
        let again = if number == 1 { String::new() } else { format!(".{number}") };
        let kept = PathBuf::from(format!("{}{again}.bak", target.display()));
        if !kept.exists() {
            fs::rename(target, &kept)?;
            return Ok(kept);
        }
    }
    Err(ImportError::KeptTooOften { folder: target.to_owned() })
}
