//! Unpacks an untrusted zip. Every entry's name must lead into the folder, and every entry must be a file or a folder. Limits count the
//! bytes that really come out, not the sizes that the zip claims. A zip that breaks a rule leaves nothing behind.

use std::{
    fs,
    io::{self, Cursor, Read, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use servanda_config::state_folder;
use zip::{ZipArchive, read::ZipFile, result::ZipError};

/// The most files and folders of a bundle. Bundled Node modules have many.
const ENTRIES_MAX: usize = 50_000;
/// The most bytes of all its files, unpacked.
const UNPACKED_BYTES_MAX: u64 = 1 << 30;
/// The most bytes of its manifest.
const MANIFEST_BYTES_MAX: u64 = 1 << 20;
/// The deepest folder, and the longest name.
const DEPTH_MAX: usize = 64;
const NAME_CHARS_MAX: usize = 255;
/// The first bytes of an entry in a zip's directory.
const ENTRY_MARK: &[u8] = b"PK\x01\x02";
/// The first bytes of the directory's end, which has the number of entries.
const END_MARK: &[u8] = b"PK\x05\x06";
/// The bits of a mode that are the kind of file.
const KIND_MASK: u32 = 0o170_000;
const KIND_FILE: u32 = 0o100_000;
const KIND_FOLDER: u32 = 0o040_000;

/// How much may be unpacked.
#[derive(Debug, Clone, Copy)]
pub(super) struct UnpackLimits {
    pub(super) entries_max: usize,
    pub(super) unpacked_bytes_max: u64,
}

impl Default for UnpackLimits {
    fn default() -> Self {
        Self { entries_max: ENTRIES_MAX, unpacked_bytes_max: UNPACKED_BYTES_MAX }
    }
}

/// Why a zip is not unpacked.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// It is not a zip, or a broken one.
    #[error("{0}")]
    Zip(#[from] ZipError),
    /// Another reader may see other files in it.
    #[error("two of its files have the same name, or it does not say how many it has")]
    Ambiguous,
    /// It has too many files.
    #[error("it has more than {0} files")]
    TooManyFiles(usize),
    /// Its files are too large in total.
    #[error("it unpacks to more than {0} bytes")]
    TooLarge(u64),
    /// It has no manifest.
    #[error("there is no manifest.json at its top")]
    NoManifest,
    /// Its manifest cannot be read.
    #[error("manifest.json: {0}")]
    Manifest(io::Error),
    /// Its manifest is too large.
    #[error("manifest.json is larger than {MANIFEST_BYTES_MAX} bytes")]
    ManifestTooLarge,
    /// One of its entries breaks a rule.
    #[error("`{}`: {fault}", name.escape_debug())]
    Entry {
        /// Its name in the zip.
        name: String,
        /// Which rule.
        fault: EntryFault,
    },
    /// The folder for it cannot be made.
    #[error("{0}")]
    Folder(io::Error),
}

/// Why an entry of a zip is not unpacked.
#[derive(Debug, thiserror::Error)]
pub enum EntryFault {
    /// Its name leads elsewhere.
    #[error(transparent)]
    Name(#[from] EntryNameError),
    /// It is neither a file nor a folder.
    #[error("is a link or a device, and only files and folders are unpacked")]
    Special,
    /// It cannot be written.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// Why a name leads to no place inside a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EntryNameError {
    /// It has a control character or a backslash.
    #[error("has a character that no name should have")]
    Character,
    /// It has too many parts.
    #[error("lies too deep")]
    TooDeep,
    /// It leads out of the bundle, or to no certain place.
    #[error("leads out of the bundle")]
    Outside,
    /// One of its parts is too long.
    #[error("is too long")]
    TooLong,
}

/// The text of the manifest.
pub(super) fn manifest(zip: &[u8]) -> Result<String, UnpackError> {
    let mut archive = open(zip, UnpackLimits::default())?;
    let entry = archive.by_name("manifest.json").map_err(|_| UnpackError::NoManifest)?;
    let mut text = String::new();
    entry.take(MANIFEST_BYTES_MAX + 1).read_to_string(&mut text).map_err(UnpackError::Manifest)?;
    if text.len() as u64 > MANIFEST_BYTES_MAX {
        return Err(UnpackError::ManifestTooLarge);
    }
    Ok(text)
}

/// Unpacks everything into `target`, a new folder inside `folder`. A link on the way from `root` to it is refused.
pub(super) fn all(zip: &[u8], (root, folder): (&Path, &Path), target: &Path) -> Result<(), UnpackError> {
    within(zip, (root, folder), target, UnpackLimits::default())
}

/// The same with the caller's limits.
pub(super) fn within(
    zip: &[u8],
    (root, folder): (&Path, &Path),
    target: &Path,
    bounds: UnpackLimits,
) -> Result<(), UnpackError> {
    let mut archive = open(zip, bounds)?;
    state_folder::make(root, folder).map_err(UnpackError::Folder)?;
    // Beside the target and not in it, so that the target is either complete or missing.
    let fresh = folder.join(format!(".unpacking-{}", std::process::id()));
    fs::DirBuilder::new().mode(0o700).create(&fresh).map_err(UnpackError::Folder)?;
    let unpacked = unpack(&mut archive, &fresh, bounds);
    let moved = unpacked.and_then(|()| fs::rename(&fresh, target).map_err(UnpackError::Folder));
    if moved.is_err() {
        // A half-unpacked bundle is useless. A failure to remove it is ignored, because the first error matters more.
        let _ = fs::remove_dir_all(&fresh);
    }
    moved
}

/// Makes a bundle's program executable: zips made on some systems do not have that permission.
pub(super) fn make_executable(program: &Path, folder: &Path) -> io::Result<()> {
    let Ok(program) = program.canonicalize() else { return Ok(()) };
    if !program.starts_with(folder.canonicalize()?) {
        return Ok(());
    }
    let mode = fs::metadata(&program)?.permissions().mode();
    fs::set_permissions(&program, fs::Permissions::from_mode(mode | 0o111))
}

fn open(zip: &[u8], bounds: UnpackLimits) -> Result<ZipArchive<Cursor<&[u8]>>, UnpackError> {
    // Counted before the reader allocates memory for all of them.
    let entries = zip.windows(ENTRY_MARK.len()).filter(|window| *window == ENTRY_MARK).count();
    if entries > bounds.entries_max {
        return Err(UnpackError::TooManyFiles(bounds.entries_max));
    }
    let archive = ZipArchive::new(Cursor::new(zip))?;
    // Of several entries with one name the reader keeps the last, but another tool that inspected the zip may have shown the first.
    if counted(zip).is_some_and(|counted| counted != archive.len()) {
        return Err(UnpackError::Ambiguous);
    }
    Ok(archive)
}

/// How many entries a zip claims to have; none if the number does not fit its field.
fn counted(zip: &[u8]) -> Option<usize> {
    let end = zip.windows(END_MARK.len()).rposition(|window| window == END_MARK)?;
    let count = zip.get(end + 10..end + 12).and_then(|bytes| bytes.try_into().ok()).map(u16::from_le_bytes)?;
    (count != u16::MAX).then_some(usize::from(count))
}

fn unpack(archive: &mut ZipArchive<Cursor<&[u8]>>, into: &Path, bounds: UnpackLimits) -> Result<(), UnpackError> {
    let mut left = bounds.unpacked_bytes_max;
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index)?;
        let name = entry.name()?.into_owned();
        let written = unpack_entry(&mut entry, &name, into, left);
        let written = written.map_err(|fault| UnpackError::Entry { name, fault })?;
        left = left.checked_sub(written).ok_or(UnpackError::TooLarge(bounds.unpacked_bytes_max))?;
    }
    Ok(())
}

/// Unpacks one entry and returns its length.
fn unpack_entry(entry: &mut ZipFile<'_, impl Read>, name: &str, into: &Path, left: u64) -> Result<u64, EntryFault> {
    let path = into.join(inside(name)?);
    let mode = entry.unix_mode().unwrap_or_default();
    let kind = mode & KIND_MASK;
    if entry.is_symlink() || !matches!(kind, 0 | KIND_FILE | KIND_FOLDER) {
        return Err(EntryFault::Special);
    }
    if entry.is_dir() {
        fs::create_dir_all(&path)?;
        return Ok(0);
    }
    fs::create_dir_all(path.parent().unwrap_or(into))?;
    Ok(write(entry, &path, mode & 0o111 != 0, left)?)
}

/// Writes one file and returns its length, which may exceed the room that is left by one byte.
pub(super) fn write(entry: &mut impl Read, path: &Path, executable: bool, left: u64) -> io::Result<u64> {
    let mode = if executable { 0o755 } else { 0o644 };
    // A name that comes twice fails, because the file already exists.
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    let written = io::copy(&mut entry.take(left + 1), &mut file)?;
    file.flush()?;
    Ok(written)
}

/// The path of an entry inside the folder. Fails if it leads out of the folder or is ambiguous.
pub(super) fn inside(name: &str) -> Result<PathBuf, EntryNameError> {
    if name.contains('\\') || name.chars().any(char::is_control) {
        return Err(EntryNameError::Character);
    }
    let parts: Vec<&str> = name.strip_suffix('/').unwrap_or(name).split('/').collect();
    if parts.len() > DEPTH_MAX {
        return Err(EntryNameError::TooDeep);
    }
    for part in &parts {
        let drive = part.ends_with(':') && part.len() == 2;
        if part.is_empty() || *part == "." || *part == ".." || drive {
            return Err(EntryNameError::Outside);
        }
        if part.chars().count() > NAME_CHARS_MAX {
            return Err(EntryNameError::TooLong);
        }
    }
    Ok(parts.iter().collect())
}
