//! What only a file has: which processes hold it, whether it is still there, how it syncs, and its earlier
//! versions.

use servanda_contract::{CallRecord, Timestamp, record::Outcome};
use servanda_effects::{
    Journal as _, Note, NoteKind, Notebook as _, RecordsRefused,
    effect::{EffectId, EffectQuery, EffectState},
};

use super::{
    kept::Kept,
    open,
    samples::{key, read_record, record},
};
use crate::{CallQuery, Ledger, LedgerError, LedgerReader, Retention, sqlite::configure};

fn temporary() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state/ledger.db");
    (folder, path)
}

#[tokio::test]
async fn a_ledger_that_was_deleted_keeps_nothing_and_says_so() {
    let (_folder, path) = temporary();
    let ledger = Ledger::open(&path).unwrap();
    ledger.record_finished(record("call_1", Outcome::Dispatching, 1), None, true).await.unwrap();
    std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
    let refused = ledger.record_finished(record("call_2", Outcome::Dispatching, 1), None, true).await.unwrap_err();
    assert!(refused.to_string().contains("deleted or replaced"), "{refused}");
    assert_eq!(ledger.lost_count(), 0, "the file may come back");
    ledger.close().await;
    assert_eq!(ledger.lost_count(), 1);
}

#[tokio::test]
async fn records_wait_for_a_file_that_is_away_in_their_order() {
    let (_folder, path) = temporary();
    let ledger = Ledger::open(&path).unwrap();
    let elsewhere = path.with_extension("elsewhere");
    std::fs::rename(&path, &elsewhere).unwrap();
    // More than one batch, and the last one says that none is durable.
    for number in 0..1_300 {
        let read = record(&format!("call_{number:04}"), Outcome::Completed, number);
        ledger.record_finished(read, None, false).await.unwrap();
    }
    let last = record("call_last", Outcome::Completed, 2_000);
    ledger.record_finished(last, None, true).await.unwrap_err();
    std::fs::rename(&elsewhere, &path).unwrap();
    ledger.record_finished(record("call_after", Outcome::Completed, 3_000), None, true).await.unwrap();
    let order = rusqlite::Connection::open(&path).unwrap();
    let mut order = order.prepare("select call_id from calls order by rowid").unwrap();
    let order: Vec<String> = order.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    assert_eq!(order.len(), 1_302);
    assert!(order.iter().take(1_300).is_sorted(), "oldest first");
    assert_eq!((order[1_300].as_str(), order[1_301].as_str()), ("call_last", "call_after"));
    assert_eq!(ledger.lost_count(), 0);
}

#[tokio::test]
async fn a_ledger_that_holds_too_many_records_refuses_calls_until_they_are_written() {
    let (_folder, path) = temporary();
    let ledger = Ledger::open(&path).unwrap();
    let elsewhere = path.with_extension("elsewhere");
    std::fs::rename(&path, &elsewhere).unwrap();
    for number in 0..crate::inbox::RECORDS_WAITING_MAX {
        assert_eq!(ledger.refuses_records(), None, "after {number}");
        let read = record(&format!("call_{number:04}"), Outcome::Completed, 1);
        ledger.record_finished(read, None, false).await.unwrap();
    }
    // A job that waits for its answer comes after the others.
    ledger.record_finished(record("call_last", Outcome::Completed, 1), None, true).await.unwrap_err();
    // The writer says how much it keeps right after it has answered.
    while ledger.refuses_records().is_none() {
        tokio::task::yield_now().await;
    }
    assert!(matches!(ledger.refuses_records(), Some(RecordsRefused::Waiting(_))));
    std::fs::rename(&elsewhere, &path).unwrap();
    ledger.record_finished(record("call_after", Outcome::Completed, 1), None, true).await.unwrap();
    let counted = ledger.reader().await.unwrap().count().await.unwrap();
    assert_eq!(usize::try_from(counted).unwrap(), crate::inbox::RECORDS_WAITING_MAX + 2);
    while ledger.refuses_records().is_some() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_file_that_another_process_holds_is_waited_for() {
    let (_folder, path) = temporary();
    let ledger = Ledger::open(&path).unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("begin immediate").unwrap();
    let waiting = ledger.record_finished(record("call_1", Outcome::Dispatching, 1), None, true);
    let release = async {
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        other.execute_batch("commit").unwrap();
    };
    let (kept, ()) = tokio::join!(waiting, release);
    kept.unwrap();
    assert_eq!(ledger.reader().await.unwrap().count().await.unwrap(), 1);
}

#[test]
fn a_newer_database_is_refused() {
    let (_folder, path) = temporary();
    drop(Ledger::open(&path).unwrap());
    rusqlite::Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let error = Ledger::open(&path).unwrap_err();
    assert!(matches!(error, LedgerError::Newer { found: 99, known: 17 }), "{error}");
    assert!(LedgerReader::open(&path).is_err());
}

#[tokio::test]
async fn commits_are_synced_and_readers_never_wait() {
    let (_folder, path) = temporary();
    let connection = rusqlite::Connection::open(std::path::Path::new(":memory:")).unwrap();
    configure(&connection).unwrap();
    let level: i64 = connection.pragma_query_value(None, "synchronous", |row| row.get(0)).unwrap();
    assert_eq!(level, 2, "synchronous must be FULL: NORMAL may forget acknowledged effects");
    let ledger = Ledger::open(&path).unwrap();
    assert_eq!(ledger.may_lose_commits(), None);
    drop(ledger);
    let mode: String =
        rusqlite::Connection::open(&path).unwrap().pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
    assert_eq!(mode, "wal");
}

/// A condition with a list of names, even in an index, makes and drops a temporary table for every row. That
/// doubled the time of settling.
#[test]
fn no_statement_of_a_call_needs_a_temporary_table() {
    let (_folder, path) = temporary();
    drop(Ledger::open(&path).unwrap());
    let connection = rusqlite::Connection::open(&path).unwrap();
    for sql in [
        include_str!("../../sql/sqlite/put_effect.sql"),
        include_str!("../../sql/sqlite/change_effect.sql"),
        include_str!("../../sql/sqlite/put_call.sql"),
    ] {
        let mut program = connection.prepare(&format!("explain {sql}")).unwrap();
        let steps = program.raw_query().mapped(|row| row.get(1)).collect::<Result<Vec<String>, _>>().unwrap();
        assert!(steps.iter().any(|step| step == "OpenWrite"), "{steps:?}");
        assert!(!steps.iter().any(|step| step == "OpenEphemeral"), "{sql}");
    }
    let expired = include_str!("../../sql/sqlite/expired_effects.sql");
    let mut plan = connection.prepare(&format!("explain query plan {expired}")).unwrap();
    let plan: String = plan.raw_query().next().unwrap().unwrap().get(3).unwrap();
    assert!(plan.contains("effects_settled"), "{plan}");
}

#[tokio::test]
async fn a_ledger_of_the_first_version_is_brought_up_to_date() {
    let (_folder, path) = temporary();
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let old = rusqlite::Connection::open(&path).unwrap();
    old.execute_batch(include_str!("../../sql/sqlite/0001_calls.sql")).unwrap();
    old.pragma_update(None, "user_version", 1).unwrap();
    drop(old);
    let ledger = Ledger::open(&path).unwrap();
    let era = Note { kind: NoteKind::Era, key: "x".to_owned(), value: "modern".to_owned(), expires_at: None };
    ledger.write(era).await.unwrap();
    ledger.record_finished(record("call_1", Outcome::Completed, 1), None, true).await.unwrap();
    assert_eq!(ledger.reader().await.unwrap().count().await.unwrap(), 1);
}

/// Migrations only add: what a ledger of the third version holds is there in every later version, opens in the newest, and ends as usual.
#[tokio::test]
async fn a_ledger_of_any_version_since_the_third_comes_over() {
    for version in 3..crate::sqlite::newest() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.db");
        let old = rusqlite::Connection::open(&path).unwrap();
        crate::sqlite::to_version(&old, 3).unwrap();
        let open::Left { effect_id, body, record } = open::left_behind();
        let digest = crate::codec::key_digest(&key("k"));
        let effect = "insert into effects values (?1, ?2, 'acme', 'ada', 'bank.pay', 1, 'key:k', x'00', 'dispatching', 1, 'own_a', \
                      1, 1, 1, ?3, x'7b7d', null)";
        old.execute(effect, rusqlite::params![effect_id, digest.as_bytes(), body]).unwrap();
        let call =
            "insert into calls values ('call_k', 'default', 'local', 'bank__pay', 'dispatching', null, 1, null, ?1)";
        old.execute(call, [record]).unwrap();
        crate::sqlite::to_version(&old, version).unwrap();
        drop(old);
        println!("version {version}");
        open::comes_over(Kept::of_file(path, std::sync::Arc::new(folder)), &effect_id).await;
    }
}

/// Records of the previous version are JSON. They are read as they are, and removed when their retention is
/// over.
#[tokio::test]
async fn records_of_the_version_before_stay_as_they_are() {
    let (folder, path) = temporary();
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let old = rusqlite::Connection::open(&path).unwrap();
    crate::sqlite::to_version(&old, 11).unwrap();
    let stored = |record: &CallRecord| {
        let (id, outcome) = (record.call_id.as_str(), record.outcome.name());
        let values = rusqlite::params![
            id,
            outcome,
            crate::codec::signed(record.received_at.unix_ms()),
            serde_json::to_string(record).unwrap()
        ];
        let sql = "insert into calls values (?1, 'acme', 'ada', 'x', ?2, null, ?3, null, ?4)";
        old.execute(sql, values).unwrap();
    };
    let (ended, sent) = (read_record(1), record("call_sent", Outcome::Dispatching, 5));
    [&ended, &sent].into_iter().for_each(stored);
    drop(old);
    let ledger = Ledger::open(&path).unwrap();
    let reader = ledger.reader().await.unwrap();
    let found = async |id: &str| reader.find(&CallQuery::Id(id.to_owned()), 2).await.unwrap();
    let only = std::slice::from_ref(&ended);
    assert_eq!(found(ended.call_id.as_str()).await, only);
    assert_eq!(ledger.find_record(ended.call_id.as_str()).await.unwrap(), Some(ended.clone()));
    let again = CallRecord { outcome: Outcome::Refused, ..ended.clone() };
    ledger.record_finished(again, None, true).await.unwrap();
    assert_eq!(found(ended.call_id.as_str()).await, only, "a finished call is never overwritten");
    let finished = CallRecord { outcome: Outcome::Completed, ..sent };
    ledger.record_finished(finished.clone(), None, true).await.unwrap();
    assert_eq!(found("call_sent").await, [finished], "one that had not ended is finished once");
    let retention = Retention { records_ms: Some(1), tombstones_ms: None };
    ledger.prune(retention, Timestamp::from_unix_ms(ended.received_at.unix_ms() + 2)).await.unwrap();
    assert_eq!(reader.count().await.unwrap(), 0);
    drop(folder);
}

/// What one read costs on disk, including indexes: the goal of issue 18.
#[tokio::test]
async fn the_record_of_a_read_takes_at_most_600_bytes() {
    const READS: u64 = 2_000;
    let (_folder, path) = temporary();
    let bytes = async |numbers: std::ops::Range<u64>| {
        let ledger = Ledger::open(&path).unwrap();
        for number in numbers {
            ledger.record_finished(read_record(number), None, false).await.unwrap();
        }
        ledger.close().await;
        std::fs::metadata(&path).unwrap().len()
    };
    let before = bytes(0..1).await;
    let grown = bytes(1..READS + 1).await - before;
    println!("{} bytes a record", grown / READS);
    assert!(grown / READS <= 600, "{} bytes a record", grown / READS);
    let reader = LedgerReader::open(&path).unwrap();
    let found = reader.find(&CallQuery::Latest, 1).await.unwrap();
    let written = read_record(READS);
    assert_eq!(found, [CallRecord { call_id: found[0].call_id.clone(), ..written }], "nothing is missing");
}

/// Pages of unknown effects are found without walking through the known ones.
#[tokio::test]
async fn unknown_effects_are_listed_by_their_own_index() {
    let (_folder, path) = temporary();
    Ledger::open(&path).unwrap().close().await;
    let connection = rusqlite::Connection::open(&path).unwrap();
    for after in [None, Some(EffectId::new())] {
        let query =
            EffectQuery { states: vec![EffectState::OutcomeUnknown], after, limit: 5, ..EffectQuery::default() };
        let sql = format!("explain query plan {}", crate::sqlite::list_sql(&query));
        let mut statement = connection.prepare(&sql).unwrap();
        let plan = statement.query_map(rusqlite::params!["x", 5], |row| row.get::<_, String>(3)).unwrap();
        let plan: Vec<String> = plan.collect::<Result<_, _>>().unwrap();
        assert!(plan.len() == 1 && plan[0].contains("effects_unknown_latest"), "{plan:?}");
    }
}
