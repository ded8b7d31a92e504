//! Checks the log reader against logs that SQLite wrote.

use rusqlite::Connection;

use super::{FRAME_HEADER_BYTES, HEADER_BYTES, LogReport, LogStop, read};

/// A log of five commits of one page each, as a killed process leaves it, and the database file beside it.
fn log() -> (Vec<u8>, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.db");
    let connection = Connection::open(&path).unwrap();
    connection.pragma_update(None, "journal_mode", "wal").unwrap();
    connection.execute_batch("create table t (x integer primary key)").unwrap();
    connection.query_row("pragma wal_checkpoint(truncate)", [], |_| Ok(())).unwrap();
    for x in 0..5 {
        connection.execute("insert into t values (?1)", [x]).unwrap();
    }
    let copy = (std::fs::read(&path).unwrap(), std::fs::read(folder.path().join("x.db-wal")).unwrap());
    drop(connection);
    copy
}

fn rows(file: &[u8], log: &[u8]) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.db");
    std::fs::write(&path, file).unwrap();
    std::fs::write(folder.path().join("x.db-wal"), log).unwrap();
    let connection = Connection::open(&path).unwrap();
    connection.query_row("select count(*) from t", [], |row| row.get::<_, i64>(0)).unwrap().unsigned_abs()
}

fn report(log: &[u8]) -> LogReport {
    read(log).unwrap()
}

#[test]
fn every_cut_and_every_flipped_byte_is_found_and_sqlite_reads_what_we_say_it_does() {
    let (file, log) = log();
    let frame_bytes = FRAME_HEADER_BYTES + 4_096;
    let whole = report(&log);
    assert_eq!((whole.frames, whole.frames_valid, whole.commits_valid, whole.stop), (5, 5, 5, None));
    assert_eq!(rows(&file, &log), 5);
    for cut in [1, 3, 100, frame_bytes - 1, frame_bytes, frame_bytes + 1, 3 * frame_bytes] {
        let cut_off = &log[..log.len() - cut];
        let found = report(cut_off);
        assert_eq!(found.commits_valid, rows(&file, cut_off), "{cut}: {found}");
        assert_eq!(found.stop.is_some(), cut % frame_bytes != 0, "{cut}: {found}");
    }
    for at in [HEADER_BYTES, HEADER_BYTES + 17, HEADER_BYTES + frame_bytes + 500, log.len() - 1] {
        let mut flipped = log.clone();
        flipped[at] ^= 0x10;
        let found = report(&flipped);
        let frame = u64::try_from((at - HEADER_BYTES) / frame_bytes).unwrap();
        assert_eq!(found.stop, Some(LogStop::Checksum(frame + 1)), "{at}: {found}");
        assert_eq!((found.commits_valid, found.commits_behind), (frame, 5 - frame), "{at}: {found}");
        assert_eq!(found.commits_valid, rows(&file, &flipped), "{at}: {found}");
    }
    let mut flipped = log.clone();
    flipped[9] ^= 1;
    assert_eq!(report(&flipped).stop, Some(LogStop::Header));
    assert_eq!(rows(&file, &flipped), 0);
}

#[test]
fn frames_left_over_from_an_earlier_cycle_are_no_damage() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.db");
    let connection = Connection::open(&path).unwrap();
    connection.pragma_update(None, "journal_mode", "wal").unwrap();
    connection.execute_batch("create table t (x integer primary key)").unwrap();
    for x in 0..5 {
        connection.execute("insert into t values (?1)", [x]).unwrap();
    }
    connection.query_row("pragma wal_checkpoint(restart)", [], |_| Ok(())).unwrap();
    connection.execute("insert into t values (9)", []).unwrap();
    let log = std::fs::read(folder.path().join("x.db-wal")).unwrap();
    let found = report(&log);
    assert_eq!((found.frames, found.commits_valid, found.stop), (1, 1, None), "{found}");
    assert!(log.len() > 3 * 4_096, "there are frames left over");
    assert_eq!(report(&[]).stop, None);
}

#[test]
fn a_report_names_the_frame() {
    let (_, log) = log();
    let mut flipped = log.clone();
    flipped[HEADER_BYTES + 2 * (FRAME_HEADER_BYTES + 4_096) + 99] ^= 1;
    let said = report(&flipped).to_string();
    assert_eq!(
        said,
        "the write-ahead log holds 2 valid commits in 5 frames; frame 3 fails its checksum, and 3 commits from there on"
    );
    let said = report(&log[..log.len() - 7]).to_string();
    assert!(said.ends_with("it is cut off inside frame 5, and 1 commits from there on"), "{said}");
}
