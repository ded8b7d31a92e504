//! Paths as digests, and the stored form of reports.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use servanda_contract::{Digest, Timestamp, digest::DigestDomain};

use super::{
    ProbeComparison, ProbeReport, ProbeResult, ProbeSnapshot, ProbeVerdict,
    path::{PathLimits, look},
};

/// A folder that is removed with the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("servanda-probe-{}", uuid::Uuid::new_v4()));
        fs::create_dir_all(path.join("inner")).unwrap();
        fs::write(path.join("inner/a"), "one").unwrap();
        fs::write(path.join("b"), "two").unwrap();
        Self(path)
    }

    fn seen(&self) -> ProbeSnapshot {
        see(&self.0)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn see(path: &Path) -> ProbeSnapshot {
    look(path, PathLimits::default(), &AtomicBool::new(false))
}

#[test]
fn whatever_changes_in_a_folder_changes_what_is_seen() {
    type Change = fn(&Path);
    let changes: [(&str, Change); 8] = [
        ("content", |folder| fs::write(folder.join("inner/a"), "eno").unwrap()),
        ("a new file", |folder| fs::write(folder.join("inner/c"), "").unwrap()),
        ("a new folder", |folder| fs::create_dir(folder.join("d")).unwrap()),
        ("a file less", |folder| fs::remove_file(folder.join("b")).unwrap()),
        ("another name", |folder| fs::rename(folder.join("b"), folder.join("c")).unwrap()),
        ("another place", |folder| fs::rename(folder.join("b"), folder.join("inner/b")).unwrap()),
        ("a link", |folder| std::os::unix::fs::symlink("/etc", folder.join("link")).unwrap()),
        ("all of it", |folder| fs::remove_dir_all(folder).unwrap()),
    ];
    for (what, change) in changes {
        let folder = Folder::new();
        let before = folder.seen();
        assert_eq!(before, folder.seen(), "{what}: nothing happened yet");
        assert!(matches!(before, ProbeSnapshot::Digest(_)), "{before:?}");
        change(&folder.0);
        assert_ne!(before, folder.seen(), "{what}");
    }
}

/// What is behind a link is not read, and what is too large is not read to its end.
#[test]
fn links_are_not_followed_and_limits_are_kept() {
    let (folder, other) = (Folder::new(), Folder::new());
    std::os::unix::fs::symlink(&other.0, folder.0.join("link")).unwrap();
    let before = folder.seen();
    fs::write(other.0.join("b"), "something else").unwrap();
    assert_eq!(before, folder.seen());
    assert_ne!(see(&folder.0.join("link")), see(&other.0));

    let of = PathLimits::default();
    let table = [
        (PathLimits { bytes_max: 5, ..of }, "too large: more than 5 bytes"),
        (PathLimits { entries_max: 2, ..of }, "too large: more than 2 entries"),
        (PathLimits { depth_max: 1, ..of }, "too large: more than 1 folders deep"),
    ];
    for (limits, why) in table {
        assert_eq!(look(&other.0, limits, &AtomicBool::new(false)), ProbeSnapshot::NotTaken(why.to_owned()));
    }
    let stop = AtomicBool::new(false);
    stop.store(true, Ordering::SeqCst);
    assert_eq!(look(&other.0, of, &stop), ProbeSnapshot::NotTaken("it took too long".to_owned()));
}

#[test]
fn the_stored_form() {
    let digest = |text: &[u8]| ProbeSnapshot::Digest(Digest::compute(DigestDomain::Seen, &[text]));
    let probe = |name: &str, found, before, after, again| ProbeResult {
        name: name.to_owned(),
        target: "`up.look`".to_owned(),
        found,
        before,
        after,
        again,
    };
    let mut observed = ProbeReport {
        version: 1,
        call_id: "call_1".to_owned(),
        tool: "up.echo".to_owned(),
        contract_digest: Digest::compute(DigestDomain::Contract, &[b"x"]),
        reads_only: true,
        outcome: "completed".to_owned(),
        alone: true,
        sample_percent: 100,
        verdict: ProbeVerdict::Violation,
        at_ms: 1_800_000_000_000,
        probes: vec![
            probe("books", ProbeComparison::Changed, digest(b"a"), digest(b"b"), Some(digest(b"b"))),
            probe(
                "gone",
                ProbeComparison::NotCompared,
                ProbeSnapshot::Nothing,
                ProbeSnapshot::NotTaken("it took too long".to_owned()),
                None,
            ),
        ],
    };
    let now = Timestamp::from_unix_ms(1_800_000_000_000);
    let note = observed.note(now).unwrap();
    assert_eq!(note.expires_at, None, "a report that accuses a tool is kept");
    let stored: serde_json::Value = serde_json::from_str(&note.value).unwrap();
    let text = format!("{}\n{stored:#}\n", note.key);
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/src/probes/stored_observed.golden.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(file, &text).unwrap();
    }
    assert_eq!(text, fs::read_to_string(file).unwrap());
    assert_eq!(ProbeReport::read(&note).as_ref(), Some(&observed));
    observed.verdict = ProbeVerdict::AsDeclared;
    assert!(observed.note(now).unwrap().expires_at.is_some());
}
