//! Reading: regular files only, up to a size, and never waiting for the writer of a pipe.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use rustix::fs::OFlags;

use crate::links::is_a_link;

/// Most bytes that are read from a file written by a person.
pub const TEXT_BYTES_MAX: u64 = 16 << 20;

/// Opens a regular file for reading, through links too: an operator may keep the file elsewhere.
pub fn open(file: &Path) -> io::Result<File> {
    open_regular(file, OpenOptions::new().read(true), OFlags::empty())
}

/// Opens an existing regular file for reading and writing in place, through links too.
pub fn open_for_update(file: &Path) -> io::Result<File> {
    open_regular(file, OpenOptions::new().read(true).write(true), OFlags::empty())
}

/// Opens one of the gateway's own files for reading. A link in its place is refused.
pub fn open_own(file: &Path) -> io::Result<File> {
    open_regular(file, OpenOptions::new().read(true), OFlags::NOFOLLOW)
}

/// The same for reading and writing. If there is no file, it is created for its owner alone.
pub fn open_own_or_new(file: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    open_regular(file, &mut options, OFlags::NOFOLLOW)
}

/// The bytes of a regular file of at most `bytes_max` bytes.
pub fn read(file: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(file)?.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(io::Error::other(format!("it is larger than {bytes_max} bytes")));
    }
    Ok(bytes)
}

/// The text of a regular file of at most `bytes_max` bytes.
pub fn read_text(file: &Path, bytes_max: u64) -> io::Result<String> {
    String::from_utf8(read(file, bytes_max)?).map_err(|_| io::Error::other("it is not UTF-8 text"))
}

fn open_regular(file: &Path, options: &mut OpenOptions, more: OFlags) -> io::Result<File> {
    // Checked before opening, because opening a device may do something, and after, because the path may lead to another file by then.
    match fs::metadata(file) {
        Ok(there) => require_regular(&there)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    // `NONBLOCK`, because opening a pipe without a writer would wait for one.
    let flags = i32::try_from((more | OFlags::NONBLOCK | OFlags::NOCTTY).bits()).map_err(io::Error::other)?;
    let opened = options.custom_flags(flags).open(file).map_err(|error| {
        if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) { is_a_link(file) } else { error }
    })?;
    require_regular(&opened.metadata()?)?;
    Ok(opened)
}

fn require_regular(metadata: &fs::Metadata) -> io::Result<()> {
    if metadata.is_file() { Ok(()) } else { Err(io::Error::other("it is not a regular file")) }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink, path::Path};

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::{open, open_for_update, open_own, open_own_or_new, read_text};

    #[test]
    fn only_regular_files_of_a_size_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let (file, pipe) = (folder.path().join("a"), folder.path().join("pipe"));
        mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        fs::write(&file, "12345").unwrap();
        assert_eq!(read_text(&file, 5).unwrap(), "12345");
        assert!(read_text(&file, 4).unwrap_err().to_string().contains("larger than 4"));
        for other in [folder.path(), Path::new("/dev/zero"), &pipe] {
            for opened in [open(other), open_for_update(other), open_own(other), open_own_or_new(other)] {
                assert!(opened.unwrap_err().to_string().contains("regular"), "{}", other.display());
            }
        }
    }

    #[test]
    fn files_of_our_own_are_reached_through_no_link() {
        let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (theirs, link) = (outside.path().join("theirs"), folder.path().join("link"));
        fs::write(&theirs, "mine").unwrap();
        for target in [theirs.clone(), outside.path().join("later")] {
            symlink(&target, &link).unwrap();
            for opened in [open_own(&link), open_own_or_new(&link)] {
                let error = opened.unwrap_err();
                assert!(error.to_string().contains("is a symbolic link to"), "{error}");
            }
            fs::remove_file(&link).unwrap();
        }
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1, "nothing was created there");
        open(&theirs).unwrap();
        open_own_or_new(&folder.path().join("new")).unwrap();
    }
}
