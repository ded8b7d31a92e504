//! A ledger that runs out of room says so before it is full, settles calls under way, and accepts new ones when
//! there is room again.

use servanda_contract::{Timestamp, record::Outcome};
use servanda_effects::{
    Journal as _, RecordsRefused,
    effect::{DispatchEnd, EffectReply, EffectStore as _, OwnerId},
};

use super::{
    kept::{Kept, Place},
    samples::{HOUR_MS, answer, begin, begun, mine, record, settled},
};
use crate::{Ledger, LedgerLimits, PruneReport, Retention};

async fn limited(ledger: &Ledger, bytes_max: Option<u64>, free_bytes_min: Option<u64>) -> Option<String> {
    ledger.set_limits(LedgerLimits { bytes_max, free_bytes_min }).await.unwrap();
    ledger.out_of_room()
}

#[tokio::test]
async fn a_full_disk_is_noticed_and_so_is_new_room() {
    let kept = Kept::in_file();
    let ledger = kept.ledger();
    assert_eq!(limited(ledger, None, Some(0)).await, None);
    let claim = mine(ledger.apply(begun(begin("k"))).await.unwrap().reply);
    // No disk is that large.
    let why = limited(ledger, None, Some(u64::MAX)).await.unwrap();
    assert!(why.contains("disk has"), "{why}");
    let done = ledger.apply(settled(&claim, DispatchEnd::Completed(answer("x")))).await.unwrap();
    assert_eq!(done.reply, EffectReply::Settled, "a call under way is settled from the reserve");
    // The reserve is for settling: no further read is answered, and the record of a refused call is counted and dropped.
    assert!(matches!(ledger.refuses_records(), Some(RecordsRefused::NoRoom(_))));
    ledger.record_finished(record("call_refused", Outcome::Refused, 1), None, false).await.unwrap();
    assert_eq!((ledger.lost_count(), kept.recorded().await.len()), (1, 1));
    // A read that was under way is on record like any answered call.
    ledger.record_finished(record("call_read", Outcome::Completed, 1), None, false).await.unwrap();
    assert_eq!(limited(ledger, None, Some(0)).await, None);
    assert_eq!(ledger.refuses_records(), None);
    ledger.record_finished(record("call_refused", Outcome::Refused, 1), None, false).await.unwrap();
    ledger.close().await;
    assert_eq!(kept.recorded().await.len(), 3);
}

#[tokio::test]
async fn a_ledger_at_its_limit_has_room_again_after_pruning_and_its_file_does_not_grow() {
    let kept = Kept::in_file();
    let ledger = kept.ledger();
    let bytes_max = 4 << 20;
    assert_eq!(limited(ledger, Some(bytes_max), Some(0)).await, None);
    let (mut now_ms, mut number, mut largest) = (0, 0, 0);
    // Pages of the file, including those still in its log.
    let pages = || {
        let Place::File(_, path, _) = &kept.place else { panic!("it is a file") };
        let connection = rusqlite::Connection::open(path).unwrap();
        connection.pragma_query_value(None, "page_count", |row| row.get::<_, i64>(0)).unwrap()
    };
    let owner = OwnerId::new();
    for round in 0..4 {
        while ledger.out_of_room().is_none() {
            for _ in 0..200 {
                ledger
                    .record_finished(record(&format!("call_{number:09}"), Outcome::Completed, now_ms), None, false)
                    .await
                    .unwrap();
                number += 1;
            }
            ledger
                .record_finished(record(&format!("call_{number:09}"), Outcome::Completed, now_ms), None, true)
                .await
                .unwrap();
            number += 1;
            ledger.heartbeat(owner.clone()).await.unwrap();
            assert!(number < 1_000_000, "it never ran out of room");
        }
        now_ms += HOUR_MS;
        let retention = Retention { records_ms: Some(1), tombstones_ms: Some(1) };
        while let PruneReport { is_behind: true, .. } =
            ledger.prune(retention, Timestamp::from_unix_ms(now_ms)).await.unwrap()
        {}
        ledger.heartbeat(owner.clone()).await.unwrap();
        assert_eq!(ledger.out_of_room(), None, "round {round}: pruning makes room");
        if round == 1 {
            largest = pages();
        }
    }
    assert!(pages() <= largest + largest / 10, "{} is more than {largest}: free pages were not used again", pages());
}

/// A slow reader does not hold up the others.
#[tokio::test]
async fn a_slow_read_holds_up_no_other() {
    let kept = Kept::in_file();
    let Place::File(_, path, _) = &kept.place else { panic!("it is a file") };
    let (let_go, waits) = std::sync::mpsc::channel::<()>();
    let pool = std::sync::Arc::new(crate::sqlite::SqliteReadPool::open(path).unwrap());
    let slow = pool.clone();
    let slow = tokio::spawn(async move {
        slow.ask(move |_| {
            waits.recv().unwrap();
            Ok(())
        })
        .await
    });
    let quick =
        |connection: &rusqlite::Connection| Ok(connection.query_row("select 1", [], |row| row.get::<_, i64>(0))?);
    for _ in 0..100 {
        assert_eq!(pool.ask(quick).await.unwrap(), 1);
    }
    let_go.send(()).unwrap();
    slow.await.unwrap().unwrap();
}
