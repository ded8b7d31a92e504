//! Tickets as they are on disk.

use bytes::Bytes;
use servanda_approval::{
    ApprovalVerdict, StateBefore, Ticket, TicketContext, TicketEvent, TicketId, TicketPreview, TicketState, step,
};
use servanda_contract::preview::UpstreamPreview;

use super::ticket_samples::{approver, decide, demand, request, usage};
use crate::{
    Ledger, LedgerError, Upkeep,
    ticket_rows::{StoredTicket, TicketRow},
};

/// A ticket that two people approved and a call used, with everything that a ticket can have.
fn used() -> Ticket {
    let at = |now_ms| TicketContext { now_ms, ledger_ms: now_ms + 7, run: servanda_approval::RunDenials::default() };
    let mut asked = request("pay");
    (asked.id, asked.demand) = (TicketId::from("apr_1".to_owned()), demand(2));
    asked.subject.consequence = Some("pays 12 EUR \u{0} to bob".to_owned());
    let state = Ok(serde_json::json!({ "balance": 3 }));
    asked.subject.before = Some(StateBefore {
        tool: "bank.balance".to_owned(),
        at_ms: 900,
        state,
        sensitive: [("/balance".to_owned(), "financial".to_owned())].into(),
    });
    asked.subject.upstream_preview = Some(TicketPreview {
        at_ms: 950,
        preview: UpstreamPreview::Said(serde_json::json!({ "balance_after": -9 })),
        sensitive: [("/balance_after".to_owned(), "financial".to_owned())].into(),
    });
    let mut ticket = step(None, &TicketEvent::Request(Box::new(asked)), &at(1_000)).changes.remove(0);
    for (name, now_ms) in [("bob", 2_000), ("eve", 3_000)] {
        let event = decide(&ticket, approver(name), ApprovalVerdict::Approve);
        ticket = step(Some(&ticket), &event, &at(now_ms)).changes.remove(0);
    }
    let event = TicketEvent::Consume { usage: usage(&ticket, "call_1"), effect_id: "eff_1".to_owned() };
    step(Some(&ticket), &event, &at(4_000)).changes.remove(0)
}

fn stored(row: TicketRow<'_>) -> StoredTicket {
    StoredTicket {
        ticket_id: row.ticket_id.to_owned(),
        key: row.key.as_bytes().to_vec(),
        state: row.state.to_owned(),
        changed_ms: row.changed_ms,
        body: row.body,
        arguments: Some(row.arguments.to_vec()),
    }
}

/// Later versions read what is on disk, so it must not change silently.
#[test]
fn the_stored_shape_of_tickets_is_golden() {
    let ticket = used();
    let row = TicketRow::new(&ticket).unwrap();
    let columns = format!(
        "ticket_id {}\nkey_digest {}\ntenant {}\nrun {}\nstate {}\ncreated_ms {}\ndecided_ms {:?}\ndue_ms {:?}\ndue_ledger_ms {:?}\nchanged_ms {}\narguments {:?}\nbody {}\n",
        row.ticket_id,
        row.key,
        row.tenant,
        row.run,
        row.state,
        row.created_ms,
        row.decided_ms,
        row.due_ms,
        row.due_ledger_ms,
        row.changed_ms,
        Bytes::copy_from_slice(row.arguments),
        row.body,
    );
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests/stored_ticket.golden.txt");
    assert_eq!(columns, std::fs::read_to_string(path).unwrap_or_default());
    assert_eq!(stored(row).decode().unwrap(), ticket);
}

#[test]
fn a_ticket_that_contradicts_itself_is_refused() {
    let ticket = used();
    let row = || stored(TicketRow::new(&ticket).unwrap());
    assert!(row().decode().is_ok());
    let contradictions = [
        StoredTicket { state: "approved".to_owned(), ..row() },
        StoredTicket { changed_ms: 7, ..row() },
        StoredTicket { ticket_id: "apr_other".to_owned(), ..row() },
        StoredTicket { key: vec![0; 32], ..row() },
        StoredTicket { body: "{}".to_owned(), ..row() },
    ];
    for stored in contradictions {
        assert!(matches!(stored.decode(), Err(LedgerError::Ticket { .. })));
    }
}

/// The columns say when time does something to a ticket for as long as it is open, and never afterwards. Until people were told what it came
/// to, it is due.
#[test]
fn only_open_tickets_and_untold_ones_are_due() {
    let told = Ticket { outcome_sent: true, ..used() };
    for state in TicketState::ALL {
        let untold = Ticket { state, outcome_sent: false, ..told.clone() };
        assert!(TicketRow::new(&untold).unwrap().due_ms.is_some(), "{state:?}");
        let ticket = Ticket { state, ..told.clone() };
        let row = TicketRow::new(&ticket).unwrap();
        assert_eq!(
            (row.due_ms.is_some(), row.due_ledger_ms.is_some()),
            (state.is_open(), state.is_open()),
            "{state:?}"
        );
    }
}

/// A batch may read an older ticket of a key beside the latest one, in any order.
#[test]
fn the_latest_ticket_of_a_key_has_the_largest_number() {
    let older = Ticket { id: TicketId::from("apr_z".to_owned()), ..used() };
    let newer = Ticket { id: TicketId::from("apr_a".to_owned()), ..used() };
    let now = servanda_effects::effect::LedgerNow::plain(5_000);
    for is_newer_first in [false, true] {
        let mut page = crate::ticket_page::TicketPage::default();
        let mut rows = vec![(older.clone(), 1), (newer.clone(), 2)];
        rows.rotate_left(usize::from(is_newer_first));
        for (ticket, number) in rows {
            page.read(ticket, number);
        }
        let target = servanda_effects::ticket_store::TicketTarget::Key(newer.key);
        assert_eq!(page.apply(&target, &TicketEvent::Tick, now).ticket.unwrap().id, newer.id);
    }
}

/// A state that was written into the file by hand approves nothing: every reader refuses the row.
#[tokio::test]
async fn a_row_that_was_changed_by_hand_is_refused_and_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    let ledger = Ledger::open(&path).unwrap();
    let (_, ticket) = super::ticket_samples::ask(&ledger, request("pay")).await;
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.execute("update tickets set state = 'approved'", []).unwrap();
    let target = servanda_effects::ticket_store::TicketTarget::Id(ticket.id);
    let error = servanda_effects::TicketStore::find_ticket(&ledger, target.clone()).await.unwrap_err();
    assert!(error.reason().contains("its columns and its body disagree"), "{error}");
    let event = TicketEvent::Tick;
    assert!(servanda_effects::TicketStore::apply_ticket(&ledger, target, event).await.unwrap_err().is_bad_content());
    let verified = Upkeep::file(path, folder.path().join("servanda.position")).verify().await.unwrap();
    assert!(verified.problems.iter().any(|problem| problem.contains("disagree")), "{:?}", verified.problems);
    ledger.close().await;
}
