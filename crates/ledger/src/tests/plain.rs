//! Things that are not regular private files in the place of the ledger's files: links, pipes, and files that
//! others may use.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::{Ledger, LedgerError, LedgerReader, Upkeep, make_private};

fn temporary() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join(".servanda")).unwrap();
    let path = folder.path().join(".servanda/ledger.db");
    (folder, path)
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    PathBuf::from(format!("{}{ending}", path.display()))
}

/// Opens a ledger in every possible way. No way may hang or succeed.
#[track_caller]
fn assert_refused(path: &Path, position_file: &Path, part: &str) {
    let upkeep = Upkeep::file(path.to_owned(), position_file.to_owned());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let opened = [
        Ledger::open(path).map(drop),
        LedgerReader::open(path).map(drop),
        runtime.block_on(upkeep.status()).map(drop),
        runtime.block_on(upkeep.plan()).map(drop),
        runtime.block_on(upkeep.probe()).map(drop),
    ];
    for opened in opened {
        let error = opened.unwrap_err();
        assert!(matches!(error, LedgerError::NotPlain { .. }) && error.to_string().contains(part), "{error}");
    }
}

#[test]
fn links_and_pipes_in_the_place_of_its_files_are_refused() {
    for ending in ["", "-wal", "-shm", "-journal", "-lock"] {
        let (folder, path) = temporary();
        let (file, position_file) = (beside(&path, ending), folder.path().join("servanda.position"));
        mknodat(CWD, &file, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        assert_refused(&path, &position_file, "regular");
        if ending.is_empty() {
            continue;
        }
        for target in ["theirs", "nowhere"] {
            fs::remove_file(&file).unwrap();
            fs::write(folder.path().join("theirs"), "mine").unwrap();
            symlink(folder.path().join(target), &file).unwrap();
            assert_refused(&path, &position_file, "is a symbolic link to");
            assert_eq!(fs::read_to_string(folder.path().join("theirs")).unwrap(), "mine");
            assert!(!folder.path().join("nowhere").exists());
        }
    }
}

/// The probe of `doctor` overwrites no other file, under any name.
#[test]
fn a_probe_writes_to_a_file_of_its_own() {
    let (folder, path) = temporary();
    drop(Ledger::open(&path).unwrap());
    let theirs = folder.path().join("theirs");
    fs::write(&theirs, "mine").unwrap();
    for name in ["servanda-probe-probe", ".servanda/servanda-probe-probe", ".servanda/ledger.db-probe"] {
        symlink(&theirs, folder.path().join(name)).unwrap();
    }
    let names = || {
        let mut names: Vec<_> =
            fs::read_dir(path.parent().unwrap()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = names();
    let upkeep = Upkeep::file(path.clone(), folder.path().join("servanda.position"));
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(upkeep.probe()).unwrap();
    Upkeep::file(folder.path().join("absent/ledger.db"), PathBuf::new()).probe_place().unwrap();
    assert_eq!(fs::read_to_string(&theirs).unwrap(), "mine");
    assert!(names().iter().all(|name| before.contains(name) || name.to_string_lossy().starts_with("ledger.db-")));
}

#[test]
fn files_that_others_may_use_are_mended_and_reported_even_the_lock() {
    let (_folder, path) = temporary();
    let ledger = Ledger::open(&path).unwrap();
    let open = [path.parent().unwrap().to_owned(), path.clone(), beside(&path, "-wal"), beside(&path, "-lock")];
    for file in &open {
        fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mended = make_private(&path).unwrap();
    assert_eq!(mended.iter().map(|one| one.path.clone()).collect::<Vec<_>>(), open);
    for file in &open {
        assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o700);
    }
    assert_eq!(make_private(&path).unwrap(), []);
    drop(ledger);
}

#[test]
fn a_position_file_that_is_a_pipe_is_not_waited_for_and_a_link_beside_it_not_followed() {
    let (folder, path) = temporary();
    let position_file = folder.path().join("servanda.position");
    mknodat(CWD, &position_file, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let guard = crate::LedgerGuard { position_file: Some(position_file.clone()), ..crate::LedgerGuard::default() };
    assert!(Ledger::open_guarded(&path, &guard).is_err());
    fs::remove_file(&position_file).unwrap();
    let guessed = position_file.with_extension(format!("position.{}", std::process::id()));
    symlink(folder.path().join("theirs"), &guessed).unwrap();
    drop(Ledger::open_guarded(&path, &guard).unwrap());
    assert!(!folder.path().join("theirs").exists());
}
