//! Units in chunks: one process, and several that die at random.

use proptest::prelude::*;

use super::{Books, HOUR_MS, NOW_MS, account, draw};
use crate::budget::{
    Account, AccountEntry, BudgetDimension, Chunks, Draw, EntryReply, ExhaustedAccount, Period, TakeOutcome,
    UnitTicket, chunk_size,
};

fn reads() -> Account {
    account(BudgetDimension::Read, Period::Hour)
}

fn one_read(limit: u64) -> Vec<Draw> {
    vec![draw(reads(), limit, 1)]
}

/// Does what the caller of `Chunks` does: makes the missing entries in the accounts.
fn take(
    chunks: &mut Chunks,
    books: &mut Books,
    draws: &[Draw],
    now_ms: u64,
) -> Result<UnitTicket, Box<ExhaustedAccount>> {
    take_apart(chunks, books, draws, (now_ms, now_ms))
}

/// The same if the clocks of the process and the store differ.
fn take_apart(
    chunks: &mut Chunks,
    books: &mut Books,
    draws: &[Draw],
    (now_ms, store_ms): (u64, u64),
) -> Result<UnitTicket, Box<ExhaustedAccount>> {
    for _ in 0..3 {
        match chunks.take(draws, now_ms) {
            TakeOutcome::Taken(ticket) => return Ok(ticket),
            TakeOutcome::Exhausted(exhausted) => return Err(Box::new(exhausted)),
            TakeOutcome::First(entries) => {
                for entry in entries {
                    let booked = books.book(&entry, store_ms);
                    chunks.record_reply(&entry, Some(&booked), now_ms);
                }
            }
            other => panic!("{other:?}"),
        }
    }
    panic!("the accounts were asked in vain")
}

/// A credential that was attenuated offline shares the account of its parent, with a limit of its own.
#[test]
fn a_lower_limit_on_an_account_takes_no_units_of_others_and_locks_no_one_out() {
    let (mut chunks, mut books) = (Chunks::default(), Books::default());
    take(&mut chunks, &mut books, &one_read(640), NOW_MS).unwrap();
    for limit in [0, 1, 9] {
        let exhausted = take(&mut chunks, &mut books, &one_read(limit), NOW_MS).unwrap_err();
        assert_eq!(exhausted.left, 0, "{limit}");
        take(&mut chunks, &mut books, &one_read(640), NOW_MS).unwrap();
    }
    // Ten are leased; a limit of twelve leaves two.
    for _ in 0..2 {
        take(&mut chunks, &mut books, &one_read(12), NOW_MS).unwrap();
    }
    take(&mut chunks, &mut books, &one_read(12), NOW_MS).unwrap_err();
}

/// The store decides how long units last, whatever the process's clock shows.
#[test]
fn units_last_by_the_stores_time() {
    let end_ms = NOW_MS - NOW_MS % HOUR_MS + HOUR_MS;
    let store_ms = end_ms - 1_000;
    for now_ms in [store_ms - 30_000, store_ms, store_ms + 30_000] {
        let (mut chunks, mut books) = (Chunks::default(), Books::default());
        for _ in 0..5 {
            take_apart(&mut chunks, &mut books, &one_read(640), (now_ms, store_ms)).unwrap();
        }
        assert_eq!(books.stands(&reads()), (0, 0, 10, 0), "one chunk");
        assert_eq!(chunks.take_expired(now_ms + 999).len(), 0);
        assert_eq!(chunks.take_expired(now_ms + 1_000).len(), 1, "its window is over");
    }
}

#[test]
fn a_chunk_is_a_part_of_the_limit_within_bounds() {
    for (limit, chunk) in [(0, 1), (1, 1), (127, 1), (128, 2), (6_400, 100), (u64::MAX, 1_024)] {
        assert_eq!(chunk_size(limit), chunk, "{limit}");
    }
}

#[test]
fn one_process_gets_exactly_the_limit_and_every_window_anew() {
    let (mut chunks, mut books) = (Chunks::default(), Books::default());
    for window in 0..2 {
        let now_ms = NOW_MS + window * HOUR_MS;
        for number in 0..200 {
            assert!(take(&mut chunks, &mut books, &one_read(200), now_ms).is_ok(), "{number}");
        }
        let exhausted = take(&mut chunks, &mut books, &one_read(200), now_ms).unwrap_err();
        assert_eq!((exhausted.account, exhausted.left), (reads(), 0));
        assert!(exhausted.renews_at_ms.is_some_and(|renews_at_ms| renews_at_ms > now_ms));
        // The store is not asked every time.
        assert!(matches!(chunks.take(&one_read(200), now_ms + 999), TakeOutcome::Exhausted(_)));
        let TakeOutcome::First(entries) = chunks.take(&one_read(200), now_ms + 1_000) else { panic!() };
        chunks.record_reply(&entries[0], Some(&EntryReply::NotFound), now_ms);
    }
}

#[test]
fn units_of_calls_never_made_are_put_back_and_idle_units_are_given_back() {
    let (mut chunks, mut books) = (Chunks::default(), Books::default());
    let ticket = take(&mut chunks, &mut books, &one_read(640), NOW_MS).unwrap();
    chunks.put_back(ticket);
    take(&mut chunks, &mut books, &one_read(640), NOW_MS).unwrap();
    assert_eq!(books.stands(&reads()), (0, 0, 10, 0));
    assert!(chunks.take_expired(NOW_MS + 1).is_empty());
    let given_back = chunks.take_expired(NOW_MS + HOUR_MS / 6);
    assert_eq!(given_back.len(), 1, "no call used it for ten minutes");
    for entry in given_back {
        books.book(&entry, NOW_MS);
    }
    assert_eq!(books.stands(&reads()), (1, 0, 0, 0), "one was used");
    take(&mut chunks, &mut books, &one_read(640), NOW_MS).unwrap();
    for entry in chunks.close() {
        books.book(&entry, NOW_MS);
    }
    assert_eq!(books.stands(&reads()), (2, 0, 0, 0));
}

#[test]
fn one_call_asks_for_all_that_wait_and_a_lost_answer_is_asked_for_again() {
    let (mut chunks, mut books) = (Chunks::default(), Books::default());
    let TakeOutcome::First(entries) = chunks.take(&one_read(640), NOW_MS) else { panic!() };
    assert_eq!(chunks.take(&one_read(640), NOW_MS), TakeOutcome::Wait);
    // The store granted the lease, and its answer was lost.
    books.book(&entries[0], NOW_MS);
    chunks.record_reply(&entries[0], None, NOW_MS);
    assert_eq!(chunks.take(&one_read(640), NOW_MS), TakeOutcome::First(entries.clone()), "the same again");
    assert_eq!(chunks.take(&one_read(640), NOW_MS), TakeOutcome::Wait);
    let booked = books.book(&entries[0], NOW_MS);
    chunks.record_reply(&entries[0], Some(&booked), NOW_MS);
    assert!(matches!(chunks.take(&one_read(640), NOW_MS), TakeOutcome::Taken(_)));
    assert_eq!(books.stands(&reads()), (0, 0, 10, 0), "leased once");
}

#[test]
fn of_several_accounts_all_or_none() {
    let (mut chunks, mut books) = (Chunks::default(), Books::default());
    let caller = account(BudgetDimension::Read, Period::Day);
    let both = [draw(reads(), 3, 1), draw(caller.clone(), 100, 1)];
    for _ in 0..3 {
        take(&mut chunks, &mut books, &both, NOW_MS).unwrap();
    }
    assert!(take(&mut chunks, &mut books, &both, NOW_MS).is_err());
    // The other account can still be drawn on: no half-finished request was left behind.
    take(&mut chunks, &mut books, &[draw(caller.clone(), 100, 1)], NOW_MS).unwrap();
    for entry in chunks.close() {
        books.book(&entry, NOW_MS);
    }
    assert_eq!(books.stands(&caller), (4, 0, 0, 0));
}

#[derive(Debug, Clone)]
enum Happening {
    Calls(usize),
    NeverMade(usize),
    Dies(usize),
    Ends(usize),
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    /// The bound: never over the limit, and when all want more, at most one chunk per dead process stays
    /// unused.
    #[test]
    fn processes_that_die_leave_a_chunk_each_at_the_most(
        limit in 1..700u64,
        happenings in proptest::collection::vec(prop_oneof![
            30 => (0..4usize).prop_map(Happening::Calls),
            3 => (0..4usize).prop_map(Happening::NeverMade),
            1 => (0..4usize).prop_map(Happening::Dies),
            1 => (0..4usize).prop_map(Happening::Ends),
        ], 1..300),
    ) {
        let mut books = Books::default();
        let mut processes: [Chunks; 4] = Default::default();
        let (mut made, mut died) = (0u64, 0u64);
        for happening in happenings {
            match happening {
                Happening::Calls(which) => {
                    made += u64::from(take(&mut processes[which], &mut books, &one_read(limit), NOW_MS).is_ok());
                }
                Happening::NeverMade(which) => {
                    if let Ok(ticket) = take(&mut processes[which], &mut books, &one_read(limit), NOW_MS) {
                        processes[which].put_back(ticket);
                    }
                }
                Happening::Dies(which) => {
                    processes[which] = Chunks::default();
                    died += 1;
                }
                Happening::Ends(which) => {
                    for entry in processes[which].close() {
                        books.book(&entry, NOW_MS);
                    }
                }
            }
            prop_assert!(made <= limit);
        }
        // All processes end, and a last one uses up what there is.
        for process in &mut processes {
            for entry in process.close() {
                books.book(&entry, NOW_MS);
            }
        }
        let mut last = Chunks::default();
        while take(&mut last, &mut books, &one_read(limit), NOW_MS).is_ok() {
            made += 1;
        }
        prop_assert!(made <= limit);
        prop_assert!(made + died * chunk_size(limit) >= limit, "{} of {} after {} deaths", made, limit, died);
    }
}

/// An entry that is not a lease has nothing to answer.
#[test]
fn answers_to_others_change_nothing() {
    let mut chunks = Chunks::default();
    let TakeOutcome::First(entries) = chunks.take(&one_read(9), NOW_MS) else { panic!() };
    let mut others = Chunks::default();
    others.record_reply(&entries[0], Some(&EntryReply::Leased { granted: 5, lasts_ms: None }), NOW_MS);
    assert!(
        matches!(others.take(&one_read(9), NOW_MS), TakeOutcome::First(_)),
        "this process did not ask for that lease"
    );
    assert!(matches!(entries[0], AccountEntry::Lease(_)));
}
