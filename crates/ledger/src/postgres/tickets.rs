//! Tickets of approvals in the shared database. A batch of events is one transaction: it takes turns with other requests of the same keys,
//! then locks its tickets, each in a fixed order, so that gateways wait for each other but never deadlock. A dispatch that uses an approval
//! locks the ticket in its own transaction, after its effects (`transact`).

use std::collections::BTreeSet;

use servanda_approval::{Ticket, TicketId, TicketKey, TicketState};
use servanda_contract::{Digest, faults};
use servanda_effects::{
    effect::LedgerNow,
    ticket_store::{AppliedTicket, TicketQuery, TicketTarget},
};
use tokio_postgres::{Client, Row, types::ToSql};

use super::{
    audit_log,
    rows::clock_reading,
    statements::{PreparedStatements, TicketStatements},
};
use crate::{
    LedgerError,
    codec::{signed, unsigned},
    job::Job,
    leaves::{LeafWriter, Leaves},
    ticket_page::{DECISIONS_READ_MAX, DENIALS_READ_MAX, TicketPage, run_of},
    ticket_rows::{StoredTicket, TicketRow, listed_before, listed_max, listed_states, unusable},
    time::StoreTime,
};

/// Applies the events of a batch, all or none. Jobs that are not events of tickets are skipped.
pub(super) async fn apply_events(
    client: &Client,
    statements: &PreparedStatements,
    time: &StoreTime,
    (jobs, log): (&[Job], Option<&LeafWriter>),
) -> Result<Vec<Option<AppliedTicket>>, LedgerError> {
    let done = async {
        let ours = statements.tickets(client).await?;
        let (mut page, now) = {
            client.batch_execute("begin").await?;
            let page = read(client, ours, jobs).await?;
            (page, time.now(clock_reading(&client.query_one(&statements.clock, &[]).await?)?))
        };
        let apply = |job: &Job| match job {
            Job::Ticket { target, event, .. } => Some(page.apply(target, event, now)),
            _ => None,
        };
        let applied = jobs.iter().map(apply).collect();
        write_leaves(client, &page, log).await?;
        write(client, ours, &page).await?;
        faults::at("ledger.before_commit")?;
        client.batch_execute("commit").await?;
        faults::at("ledger.after_commit")?;
        Ok(applied)
    };
    let done = done.await;
    if done.is_err() && !client.is_closed() {
        let _ = client.batch_execute("rollback").await;
    }
    done
}

/// Locks and reads the tickets of these ids and the latest ones of these keys.
pub(super) async fn lock(
    client: &Client,
    ours: &TicketStatements,
    ids: &[&str],
    keys: &[&[u8]],
) -> Result<TicketPage, LedgerError> {
    let mut page = TicketPage::default();
    for row in &client.query(&ours.lock_tickets, &[&ids, &keys]).await? {
        page.read(ticket(row)?, row.try_get(6)?);
    }
    Ok(page)
}

/// Writes the leaves about what happened to the tickets. Written before an effect that uses an approval: its leaf comes after the use.
pub(super) async fn write_leaves(
    client: &Client,
    page: &TicketPage,
    log: Option<&LeafWriter>,
) -> Result<(), LedgerError> {
    let Some(log) = log else { return Ok(()) };
    let mut leaves = Leaves::default();
    page.leaf_changes().iter().try_for_each(|change| log.ticket(change, &mut leaves))?;
    audit_log::put(client, &leaves).await
}

/// Writes the tickets that changed, and those that were opened.
pub(super) async fn write(client: &Client, ours: &TicketStatements, page: &TicketPage) -> Result<(), LedgerError> {
    let rows = page.changed().into_iter().map(TicketRow::new).collect::<Result<Vec<_>, _>>()?;
    if !rows.is_empty() {
        let columns = TicketColumns::new(&rows);
        let TicketColumns { ids, states, decided, due, due_ledger, changed, bodies } = &columns;
        let of: [&(dyn ToSql + Sync); 7] = [ids, states, decided, due, due_ledger, changed, bodies];
        if client.execute(&ours.change_tickets, &of).await? != rows.len() as u64 {
            return Err(unusable(&ids.join(", "), "it went away between being read and being written".to_owned()));
        }
    }
    let rows = page.opened().into_iter().map(TicketRow::new).collect::<Result<Vec<_>, _>>()?;
    if !rows.is_empty() {
        let columns = TicketColumns::new(&rows);
        let TicketColumns { ids, states, decided, due, due_ledger, changed, bodies } = &columns;
        let keys: Vec<&[u8]> = rows.iter().map(|row| &row.key.as_bytes()[..]).collect();
        let tenants: Vec<&[u8]> = rows.iter().map(|row| row.tenant.as_bytes()).collect();
        let runs: Vec<&[u8]> = rows.iter().map(|row| &row.run.as_bytes()[..]).collect();
        let created: Vec<i64> = rows.iter().map(|row| row.created_ms).collect();
        let arguments: Vec<&[u8]> = rows.iter().map(|row| row.arguments).collect();
        let of: [&(dyn ToSql + Sync); 12] =
            [ids, &keys, &tenants, &runs, states, &created, decided, due, due_ledger, changed, bodies, &arguments];
        client.execute(&ours.put_tickets, &of).await?;
    }
    Ok(())
}

/// The ticket, if there is one.
pub(super) async fn find(client: &Client, target: &TicketTarget) -> Result<Option<Ticket>, LedgerError> {
    let row = match target {
        TicketTarget::Id(id) if id.as_str().contains('\0') => None,
        TicketTarget::Id(id) => {
            client.query_opt(include_str!("../../sql/postgres/ticket_of_id.sql"), &[&id.as_str()]).await?
        }
        TicketTarget::Key(key) => {
            let key = &key.digest().as_bytes()[..];
            client.query_opt(include_str!("../../sql/postgres/ticket_of_key.sql"), &[&key]).await?
        }
    };
    row.as_ref().map(ticket).transpose()
}

/// Lists tickets, newest first.
pub(super) async fn list(client: &Client, query: &TicketQuery) -> Result<Vec<Ticket>, LedgerError> {
    let (states, before, rows_max) = (listed_states(query), listed_before(query), listed_max(query));
    let rows = if let Some(tenant) = &query.tenant {
        let sql = include_str!("../../sql/postgres/tickets_of_tenant.sql");
        client.query(sql, &[&states, &before, &rows_max, &tenant.as_bytes()]).await?
    } else {
        let sql = include_str!("../../sql/postgres/tickets_of_state.sql");
        client.query(sql, &[&states, &before, &rows_max]).await?
    };
    rows.iter().map(ticket).collect()
}

/// How many tickets wait for a decision, counted up to a limit.
pub(super) async fn count_pending(client: &Client, tenant: Option<&str>, limit: u32) -> Result<u32, LedgerError> {
    let limit = i64::from(limit);
    let row = if let Some(tenant) = tenant {
        let sql = "select count(*) from (select 1 from tickets where tenant = $1 and state = 'pending' order by ticket_id limit $2) as waiting";
        client.query_one(sql, &[&tenant.as_bytes(), &limit]).await?
    } else {
        let sql = "select count(*) from (select 1 from tickets where state = 'pending' order by ticket_id limit $1) as waiting";
        client.query_one(sql, &[&limit]).await?
    };
    Ok(u32::try_from(row.try_get::<_, i64>(0)?).unwrap_or(u32::MAX))
}

/// Open tickets to which something happens by itself until now.
pub(super) async fn due(client: &Client, now: LedgerNow, limit: u32) -> Result<Vec<Ticket>, LedgerError> {
    let sql = include_str!("../../sql/postgres/due_tickets.sql");
    let rows = client.query(sql, &[&signed(now.now_ms), &signed(now.ledger_ms), &i64::from(limit)]).await?;
    rows.iter().map(ticket).collect()
}

/// Takes turns, locks the tickets of the events, and reads what their results depend on.
async fn read(client: &Client, ours: &TicketStatements, jobs: &[Job]) -> Result<TicketPage, LedgerError> {
    let (mut ids, mut keys, mut runs) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    for job in jobs {
        let Job::Ticket { target, event, .. } = job else { continue };
        match target {
            // Text in PostgreSQL cannot hold this character, so no ticket has such an id.
            TicketTarget::Id(id) if id.as_str().contains('\0') => {}
            TicketTarget::Id(id) => ids.push(id.as_str()),
            TicketTarget::Key(key) => drop(keys.insert(*key)),
        }
        runs.extend(run_of(event));
    }
    if !keys.is_empty() {
        let turns: BTreeSet<i64> = keys.iter().map(turn_of).collect();
        let turns: Vec<i64> = turns.into_iter().collect();
        client.query(&ours.lock_keys, &[&turns]).await?;
    }
    let digests: Vec<&[u8]> = keys.iter().map(|key| &key.digest().as_bytes()[..]).collect();
    let mut page = lock(client, ours, &ids, &digests).await?;
    if !runs.is_empty() {
        read_decisions(client, ours, &mut page, &runs).await?;
    }
    Ok(page)
}

async fn read_decisions(
    client: &Client,
    ours: &TicketStatements,
    page: &mut TicketPage,
    runs: &BTreeSet<Digest>,
) -> Result<(), LedgerError> {
    let wanted: Vec<&[u8]> = runs.iter().map(|run| &run.as_bytes()[..]).collect();
    let (decisions_max, denials_max) = (i64::from(DECISIONS_READ_MAX), i64::from(DENIALS_READ_MAX));
    for row in &client.query(&ours.run_decisions, &[&wanted, &decisions_max, &denials_max]).await? {
        let (run, id, state): (&[u8], &str, &str) = (row.try_get(0)?, row.try_get(1)?, row.try_get(3)?);
        let Some(run) = runs.iter().find(|known| known.as_bytes()[..] == *run) else { continue };
        let state = TicketState::from_name(state).ok_or_else(|| unusable(id, format!("it is `{state}`")))?;
        page.read_decision(*run, TicketId::from(id.to_owned()), unsigned(row.try_get(2)?), state);
    }
    Ok(())
}

/// The number by which requests of a key take turns. Two keys with one number only wait for each other without need.
fn turn_of(key: &TicketKey) -> i64 {
    let digest = *key.digest().as_bytes();
    digest.first_chunk().copied().map_or(0, i64::from_be_bytes)
}

/// The columns that change, as arrays.
#[derive(Debug)]
struct TicketColumns<'a> {
    ids: Vec<&'a str>,
    states: Vec<&'a str>,
    decided: Vec<Option<i64>>,
    due: Vec<Option<i64>>,
    due_ledger: Vec<Option<i64>>,
    changed: Vec<i64>,
    bodies: Vec<&'a str>,
}

impl<'a> TicketColumns<'a> {
    fn new(rows: &'a [TicketRow<'a>]) -> Self {
        Self {
            ids: rows.iter().map(|row| row.ticket_id).collect(),
            states: rows.iter().map(|row| row.state).collect(),
            decided: rows.iter().map(|row| row.decided_ms).collect(),
            due: rows.iter().map(|row| row.due_ms).collect(),
            due_ledger: rows.iter().map(|row| row.due_ledger_ms).collect(),
            changed: rows.iter().map(|row| row.changed_ms).collect(),
            bodies: rows.iter().map(|row| row.body.as_str()).collect(),
        }
    }
}

/// A ticket from its columns: id, key, state, time of its last change, body, arguments.
pub(super) fn ticket(row: &Row) -> Result<Ticket, LedgerError> {
    let stored = StoredTicket {
        ticket_id: row.try_get(0)?,
        key: row.try_get(1)?,
        state: row.try_get(2)?,
        changed_ms: row.try_get(3)?,
        body: row.try_get(4)?,
        arguments: row.try_get(5)?,
    };
    stored.decode()
}
