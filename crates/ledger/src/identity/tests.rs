//! The rule for refusing a ledger as a table, and the position file.

use std::{fs, path::Path, sync::Arc, thread};

use super::{
    Adoption, AdoptionRequest, FoundLedger, LedgerDamage, LedgerPosition, PositionFile, PositionWitness, judge,
    position_file::read,
};

fn at(ledger_id: &str, position: u64) -> LedgerPosition {
    LedgerPosition { ledger_id: ledger_id.to_owned(), position, written_ms: 1_000 + position, made_ms: 1_000 }
}

fn known(position: u64) -> PositionWitness {
    PositionWitness::Known { position: at("a", position), ended_cleanly: false }
}

fn ledger(ledger_id: &str, position: u64, former_ids: &[&str]) -> FoundLedger {
    let former_ids = former_ids.iter().map(ToString::to_string).collect();
    FoundLedger::Ledger { position: Some(at(ledger_id, position)), former_ids }
}

#[test]
fn a_ledger_that_is_not_all_of_the_known_one_is_refused() {
    let unidentified = FoundLedger::Ledger { position: None, former_ids: Vec::new() };
    let broken = || FoundLedger::Unreadable("torn".to_owned());
    let table = [
        // Without a position file nothing can be missing.
        (PositionWitness::Nothing, FoundLedger::Missing, Ok(())),
        (PositionWitness::Nothing, FoundLedger::Empty, Ok(())),
        (PositionWitness::Nothing, unidentified.clone(), Ok(())),
        (PositionWitness::Nothing, ledger("a", 7, &[]), Ok(())),
        (PositionWitness::Nothing, broken(), Err(LedgerDamage::Unreadable("torn".to_owned()))),
        (known(7), FoundLedger::Missing, Err(LedgerDamage::Missing)),
        (known(7), FoundLedger::Empty, Err(LedgerDamage::Empty)),
        (known(7), broken(), Err(LedgerDamage::Unreadable("torn".to_owned()))),
        (known(7), unidentified, Err(LedgerDamage::Foreign(None))),
        (known(7), ledger("b", 9, &[]), Err(LedgerDamage::Foreign(Some("b".to_owned())))),
        (known(7), ledger("a", 6, &[]), Err(LedgerDamage::Behind(6))),
        (known(7), ledger("a", 7, &[]), Ok(())),
        // After a power cut the position file may be behind.
        (known(7), ledger("a", 9, &[]), Ok(())),
        // The operator of another gateway accepted it.
        (known(7), ledger("b", 2, &["x", "a"]), Ok(())),
        (
            PositionWitness::Unreadable("torn".to_owned()),
            ledger("a", 9, &[]),
            Err(LedgerDamage::Witness("torn".to_owned())),
        ),
    ];
    for (witness, found, expected) in table {
        assert_eq!(judge(&witness, &found), expected, "{witness:?} {found:?}");
    }
}

fn position_in(path: &Path) -> u64 {
    let PositionWitness::Known { position, .. } = read(path) else { panic!("{:?}", read(path)) };
    position.position
}

#[test]
fn the_file_only_goes_upwards_and_says_how_the_ledger_ended() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("servanda.position");
    assert_eq!(read(&path), PositionWitness::Nothing);
    let file = PositionFile::open(&path, &at("a", 3)).unwrap();
    file.advance(9, 1_009);
    file.advance(8, 1_008);
    assert_eq!(read(&path), PositionWitness::Known { position: at("a", 9), ended_cleanly: false });
    file.end().unwrap();
    assert_eq!(read(&path), PositionWitness::Known { position: at("a", 9), ended_cleanly: true });
    // A ledger that is ahead of the file, or level with it, is opened; one that is behind was refused before.
    drop(PositionFile::open(&path, &at("a", 9)).unwrap());
    assert_eq!(read(&path), PositionWitness::Known { position: at("a", 9), ended_cleanly: false });
    // The file of another ledger is replaced as a whole: a person accepted the new ledger.
    drop(PositionFile::open(&path, &at("b", 2)).unwrap());
    assert_eq!(read(&path), PositionWitness::Known { position: at("b", 2), ended_cleanly: false });
}

#[test]
fn processes_that_share_the_file_never_take_it_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = Arc::new(folder.path().join("servanda.position"));
    drop(PositionFile::open(&path, &at("a", 0)).unwrap());
    // Each opens the file by itself, as processes do; one writes the even positions, the other the odd ones.
    let writers: Vec<_> = (0..2)
        .map(|odd| {
            let path = Arc::clone(&path);
            thread::spawn(move || {
                let file = PositionFile::open(&path, &at("a", 0)).unwrap();
                let mut highest = 0;
                for half in 0..2_000_u64 {
                    file.advance(2 * half + odd, 0);
                    let there = position_in(&path);
                    assert!(there >= highest, "{there} after {highest}");
                    highest = there;
                }
            })
        })
        .collect();
    for writer in writers {
        writer.join().unwrap();
    }
    assert_eq!(position_in(&path), 3_999);
}

#[test]
fn a_file_that_was_deleted_is_made_again_and_one_that_was_changed_is_not_believed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("servanda.position");
    let file = PositionFile::open(&path, &at("a", 3)).unwrap();
    fs::remove_file(&path).unwrap();
    file.advance(4, 1_004);
    file.sync().unwrap();
    assert_eq!(position_in(&path), 4);
    file.advance(5, 1_005);
    assert_eq!(position_in(&path), 5, "it is written to from then on");
    let text = fs::read_to_string(&path).unwrap();
    for changed in [text.replace("0005", "0002"), text[..40].to_owned(), String::new(), "x".repeat(10_000)] {
        fs::write(&path, &changed).unwrap();
        assert!(matches!(read(&path), PositionWitness::Unreadable(_)), "{changed}");
    }
}

/// The lost window begins at the last commit that is still there, whatever was accepted in between.
#[test]
fn the_lost_time_of_a_copy_begins_with_its_last_commit() {
    let terms = AdoptionRequest { by: "ada".to_owned(), evidence: "a trial".to_owned(), in_force_ms: 1_000_000 };
    let accept = |positions, before: &[Adoption], id: &str, now_ms| {
        Adoption::new(&terms, String::new(), positions, before, id.to_owned(), now_ms)
    };
    let (first, copy) = (at("a", 500), at("a", 100));
    // The first ledger was deleted, and an empty one accepted.
    let emptied = accept((Some(&first), None), &[], "b", 2_000);
    assert_eq!((emptied.lost_from_ms, emptied.lost_until_ms), (first.made_ms, 2_000));
    // Then a copy of the first is found. The empty one knew nothing of what was lost before.
    let empty = LedgerPosition { ledger_id: "b".to_owned(), position: 1, written_ms: 2_001, made_ms: 2_000 };
    let restored = accept((Some(&empty), Some(&copy)), std::slice::from_ref(&emptied), "c", 3_000);
    assert_eq!(restored.lost_from_ms, first.made_ms, "what was lost then is not settled");
    let settled = Adoption { settled_ms: Some(2_500), ..emptied };
    let restored = accept((Some(&empty), Some(&copy)), std::slice::from_ref(&settled), "c", 3_000);
    assert_eq!((restored.lost_from_ms, restored.lost_until_ms), (copy.written_ms, 3_000));
    // The position of another ledger is no evidence of what this one did: everything since this one was made
    // counts as lost.
    let foreign = LedgerPosition { ledger_id: "x".to_owned(), position: 9, written_ms: 2_900, made_ms: 2_800 };
    assert_eq!(accept((Some(&first), Some(&foreign)), &[], "d", 3_000).lost_from_ms, first.made_ms);
}
