//! Tickets of approvals in the file: read, stepped and written inside the writer's transaction, so that nothing can come in between.

use rusqlite::{Connection, OptionalExtension as _, Row, params};
use servanda_approval::{ApprovalUse, Ticket, TicketEvent, TicketId, TicketReply, TicketState};
use servanda_contract::Digest;
use servanda_effects::{
    effect::LedgerNow,
    ticket_store::{AppliedTicket, TicketQuery, TicketTarget},
};

use super::additions::BatchAdditions;
use crate::{
    LedgerError,
    codec::{signed, unsigned},
    ticket_page::{DECISIONS_READ_MAX, DENIALS_READ_MAX, TicketPage, run_of},
    ticket_rows::{StoredTicket, TicketRow, listed_before, listed_max, listed_states, unusable},
};

/// The ticket, if there is one.
pub(super) fn find(connection: &Connection, target: &TicketTarget) -> Result<Option<Ticket>, LedgerError> {
    let found = match target {
        TicketTarget::Id(id) => connection
            .prepare_cached(include_str!("../../sql/sqlite/ticket_of_id.sql"))?
            .query_row(params![id.as_str()], stored),
        TicketTarget::Key(key) => connection
            .prepare_cached(include_str!("../../sql/sqlite/ticket_of_key.sql"))?
            .query_row(params![key.digest().as_bytes()], stored),
    };
    found.optional()?.map(StoredTicket::decode).transpose()
}

/// Applies an event.
pub(super) fn apply(
    transaction: &Connection,
    additions: &mut BatchAdditions,
    (target, event): (&TicketTarget, &TicketEvent),
    now: LedgerNow,
) -> Result<AppliedTicket, LedgerError> {
    let mut page = page(transaction, target)?;
    if let Some(run) = run_of(event) {
        read_decisions(transaction, &mut page, run)?;
    }
    let applied = page.apply(target, event, now);
    write(transaction, &page)?;
    page.leaf_changes().iter().try_for_each(|change| additions.ticket(change))?;
    Ok(applied)
}

/// Uses an approval up, in the transaction that dispatches its call.
pub(super) fn consume(
    transaction: &Connection,
    additions: &mut BatchAdditions,
    usage: &ApprovalUse,
    (effect_id, now): (&str, LedgerNow),
) -> Result<TicketReply, LedgerError> {
    let mut page = page(transaction, &TicketTarget::Id(usage.ticket.clone()))?;
    let reply = page.consume(usage, effect_id, now);
    write(transaction, &page)?;
    page.leaf_changes().iter().try_for_each(|change| additions.ticket(change))?;
    Ok(reply)
}

/// Lists tickets, newest first. Each state is found by itself.
pub(super) fn list(connection: &Connection, query: &TicketQuery) -> Result<Vec<Ticket>, LedgerError> {
    let (before, rows_max) = (listed_before(query), listed_max(query));
    let mut found = Vec::new();
    for state in listed_states(query) {
        found.extend(if let Some(tenant) = &query.tenant {
            let sql = include_str!("../../sql/sqlite/tickets_of_tenant.sql");
            many(connection, sql, params![state, before, rows_max, tenant])?
        } else {
            let sql = include_str!("../../sql/sqlite/tickets_of_state.sql");
            many(connection, sql, params![state, before, rows_max])?
        });
    }
    found.sort_by(|one, other| other.id.cmp(&one.id));
    found.truncate(usize::try_from(rows_max).unwrap_or_default());
    Ok(found)
}

/// How many tickets wait for a decision, counted up to a limit.
pub(super) fn count_pending(connection: &Connection, tenant: Option<&str>, limit: u32) -> Result<u32, LedgerError> {
    let count = if let Some(tenant) = tenant {
        let sql = "select count(*) from (select 1 from tickets where tenant = ?1 and state = 'pending' order by ticket_id limit ?2) as waiting";
        connection.prepare_cached(sql)?.query_row(params![tenant, limit], |row| row.get(0))?
    } else {
        let sql = "select count(*) from (select 1 from tickets where state = 'pending' order by ticket_id limit ?1) as waiting";
        connection.prepare_cached(sql)?.query_row(params![limit], |row| row.get(0))?
    };
    Ok(count)
}

/// Open tickets to which something happens by itself until now.
pub(super) fn due(connection: &Connection, now: LedgerNow, limit: u32) -> Result<Vec<Ticket>, LedgerError> {
    let sql = include_str!("../../sql/sqlite/due_tickets.sql");
    many(connection, sql, params![signed(now.now_ms), signed(now.ledger_ms), limit])
}

fn page(transaction: &Connection, target: &TicketTarget) -> Result<TicketPage, LedgerError> {
    let mut page = TicketPage::default();
    if let Some(ticket) = find(transaction, target)? {
        page.read(ticket, 0);
    }
    Ok(page)
}

fn read_decisions(transaction: &Connection, page: &mut TicketPage, run: Digest) -> Result<(), LedgerError> {
    let mut statement = transaction.prepare_cached(include_str!("../../sql/sqlite/run_decisions.sql"))?;
    let mut rows = statement.query(params![run.as_bytes(), DECISIONS_READ_MAX, DENIALS_READ_MAX])?;
    while let Some(row) = rows.next()? {
        let (id, state): (String, String) = (row.get(0)?, row.get(2)?);
        let state = TicketState::from_name(&state).ok_or_else(|| unusable(&id, format!("it is `{state}`")))?;
        page.read_decision(run, TicketId::from(id), unsigned(row.get(1)?), state);
    }
    Ok(())
}

fn write(transaction: &Connection, page: &TicketPage) -> Result<(), LedgerError> {
    for ticket in page.changed() {
        let row = TicketRow::new(ticket)?;
        let changed =
            transaction.prepare_cached(include_str!("../../sql/sqlite/change_ticket.sql"))?.execute(params![
                row.ticket_id,
                row.state,
                row.decided_ms,
                row.due_ms,
                row.due_ledger_ms,
                row.changed_ms,
                row.body,
            ])?;
        if changed != 1 {
            return Err(unusable(row.ticket_id, "it went away between being read and being written".to_owned()));
        }
    }
    for ticket in page.opened() {
        let row = TicketRow::new(ticket)?;
        transaction.prepare_cached(include_str!("../../sql/sqlite/put_ticket.sql"))?.execute(params![
            row.ticket_id,
            row.key.as_bytes(),
            row.tenant,
            row.run.as_bytes(),
            row.state,
            row.created_ms,
            row.decided_ms,
            row.due_ms,
            row.due_ledger_ms,
            row.changed_ms,
            row.body,
            row.arguments,
        ])?;
    }
    Ok(())
}

fn many(connection: &Connection, sql: &str, params: impl rusqlite::Params) -> Result<Vec<Ticket>, LedgerError> {
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(params, stored)?.collect::<Result<Vec<_>, _>>()?;
    rows.into_iter().map(StoredTicket::decode).collect()
}

/// A ticket from its columns: id, key, state, time of its last change, body, arguments.
pub(super) fn stored(row: &Row<'_>) -> Result<StoredTicket, rusqlite::Error> {
    Ok(StoredTicket {
        ticket_id: row.get(0)?,
        key: row.get(1)?,
        state: row.get(2)?,
        changed_ms: row.get(3)?,
        body: row.get(4)?,
        arguments: row.get(5)?,
    })
}
