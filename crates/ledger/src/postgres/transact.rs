//! One batch in one transaction, in two ways. Optimistic: keys are expected to be new, and effects under way to
//! be as this process last wrote them, so that everything is written at once if the database agrees. With
//! locks: the effects concerned are locked and read first.

use std::collections::BTreeSet;

use servanda_contract::faults;
use servanda_effects::effect::{AppliedChange, Effect, EffectEvent, EffectId, EffectTarget, LedgerNow, notes_due};
use tokio_postgres::{Client, Row, types::ToSql};

use super::{
    audit_log,
    batch::{AppliedEvent, ChangedEffect, EffectBatch, ResourceHolder, TwinEffect, is_keyless},
    dispatch_approvals,
    identity::PostgresLedgerIdentity,
    notes,
    recent_effects::PostgresRecentEffects,
    rows::{self, BatchRows, WrittenEffects, clock_reading},
    statements::{ConflictHandling, PreparedStatements},
    tickets,
};
use crate::{
    LedgerError,
    codec::{StoredCall, decode_held_resources, key_digest, unsigned},
    job::{Job, JobOutcome, LedgerWrite},
    leaves::{DecisionTold, LeafWriter, Leaves},
    ticket_page::TicketPage,
    time::StoreTime,
};

/// What a transaction needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct TransactionContext<'a> {
    pub(super) client: &'a Client,
    pub(super) statements: &'a PreparedStatements,
    pub(super) time: &'a StoreTime,
    pub(super) recent: &'a PostgresRecentEffects,
    pub(super) known: &'a PostgresLedgerIdentity,
    /// Writes leaves; none if the log is switched off.
    pub(super) log: Option<&'a LeafWriter>,
}

/// The outcomes of a transaction. A job without an outcome was not done, because it needs a read first or
/// another writer was faster.
pub(super) type BatchOutcomes = Vec<Option<JobOutcome>>;

/// The state of one job so far.
enum TransactionJobState<'a> {
    Put,
    Stepped(AppliedEvent<'a>),
    /// Not in this transaction.
    Left,
}

/// Does the jobs that need no read: one statement, one round trip.
pub(super) async fn transact_optimistically(
    tools: TransactionContext<'_>,
    now: LedgerNow,
    jobs: &[Job],
) -> Result<BatchOutcomes, LedgerError> {
    let mut batch = EffectBatch::new(now, Vec::new(), Vec::new()).with_lost_window(tools.known.lost_window(now.now_ms));
    let parts = jobs
        .iter()
        .map(|job| apply_optimistically(&mut batch, tools.recent, job))
        .collect::<Result<Vec<TransactionJobState<'_>>, _>>()?;
    // A record that is there already fails the statement.
    let rows = rows_of(tools.log, &batch, (jobs, &parts), &BTreeSet::new())?;
    if rows.is_empty() {
        return Ok(jobs.iter().map(|_| None).collect());
    }
    faults::at("ledger.before_commit")?;
    let statement = rows.statement(tools.client, tools.statements, ConflictHandling::Fail).await?;
    let written = rows.write(tools.client, &statement).await?;
    faults::at("ledger.after_commit")?;
    remember(tools.recent, &batch, &written);
    // Without a read, only what was written is known.
    let stands = |slot| batch.waits_for(slot).is_some_and(|id| written.effects.contains(id.as_str()));
    Ok(outcomes(parts, stands))
}

/// Does a batch, all of it or nothing.
pub(super) async fn transact_with_locks(
    tools: TransactionContext<'_>,
    jobs: &[Job],
) -> Result<BatchOutcomes, LedgerError> {
    let done = async {
        let (mut batch, mut page) = lock(tools, jobs).await?;
        commit(tools, &mut batch, &mut page, jobs).await
    };
    let done = done.await;
    if done.is_err() && !tools.client.is_closed() {
        // Roll back. If the rollback does not reach the server, the connection is gone and the transaction with
        // it.
        let _ = tools.client.batch_execute("rollback").await;
    }
    done
}

fn apply_optimistically<'a>(
    batch: &mut EffectBatch<'a>,
    recent: &PostgresRecentEffects,
    job: &'a Job,
) -> Result<TransactionJobState<'a>, LedgerError> {
    let (target, event, recorded) = match job {
        Job::Put { write: LedgerWrite::Call(_), .. } => return Ok(TransactionJobState::Put),
        // Notices are few, and are written separately with a round trip each.
        Job::Apply { notices, .. } if !notices.is_empty() => return Ok(TransactionJobState::Left),
        // An approval is read and locked first.
        Job::Apply { consumes: Some(_), .. } => return Ok(TransactionJobState::Left),
        Job::Apply { target, event, recorded, .. } => (target, event, recorded.as_deref()),
        Job::Put { .. }
        | Job::Ticket { .. }
        | Job::NoteIf { .. }
        | Job::Expire { .. }
        | Job::Book { .. }
        | Job::Sweep { .. }
        | Job::ExtendLog { .. }
        | Job::Prune { .. } => {
            return Ok(TransactionJobState::Left);
        }
    };
    match (target, event) {
        // A begin that takes turns has to look for other effects on the same resources first.
        (EffectTarget::Key(_), EffectEvent::Begin(begin)) if begin.order.takes_turns() => Ok(TransactionJobState::Left),
        (EffectTarget::Key(_), EffectEvent::Begin(_)) => {
            batch.apply((target, event), recorded, |_, _| Ok(())).map(TransactionJobState::Stepped)
        }
        (EffectTarget::Id(id), EffectEvent::Fence(_) | EffectEvent::Release(..) | EffectEvent::Settle(..)) => {
            if !batch.has(id) {
                let Some((effect, before)) = recent.get(id) else { return Ok(TransactionJobState::Left) };
                batch.remember(effect, before);
            }
            if !batch.replaces_record(id, recorded) {
                return Ok(TransactionJobState::Left);
            }
            batch.apply((target, event), recorded, |_, _| Ok(())).map(TransactionJobState::Stepped)
        }
        _ => Ok(TransactionJobState::Left),
    }
}

/// Opens the transaction, and locks and reads the effects it is about: one round trip. Then the tickets of the approvals that it uses, if it
/// uses any.
async fn lock<'a>(
    tools: TransactionContext<'_>,
    jobs: &'a [Job],
) -> Result<(EffectBatch<'a>, TicketPage), LedgerError> {
    let TransactionContext { client, statements, .. } = tools;
    let changes = || jobs.iter().filter_map(change_of);
    if changes().next().is_none() {
        client.batch_execute("begin").await?;
        return Ok((EffectBatch::new(LedgerNow::plain(0), Vec::new(), Vec::new()), TicketPage::default()));
    }
    let digests: Vec<_> = changes().filter_map(key_of).collect();
    let keys: Vec<&[u8]> = digests.iter().map(|digest| &digest.as_bytes()[..]).collect();
    // A handle comes from outside, and text in PostgreSQL cannot hold this character, so no effect has such a
    // handle.
    let ids: Vec<&str> = changes().filter_map(id_of).filter(|id| !id.contains('\0')).collect();
    let keyless: Vec<&[u8]> = changes().filter_map(keyless_request).collect();
    let mut tenants: Vec<&[u8]> = changes().filter_map(taking_turns).collect();
    tenants.sort_unstable();
    tenants.dedup();
    let concerned: [&(dyn ToSql + Sync); 2] = [&keys, &ids];
    // Polled in this order, and sent together. The statements after the lock see what its previous holder has
    // committed.
    let (begun, holders, locked, twins, clock) = tokio::join!(
        biased;
        client.batch_execute("begin"),
        take_turns(client, statements, &tenants),
        client.query(&statements.lock_effects, &concerned),
        find_twins(client, statements, &keyless),
        client.query_one(&statements.clock, &[]),
    );
    begun?;
    let (holders, locked, twins) = (holders?, locked?, twins?);
    let (mut clock, page) = (clock?, dispatch_approvals::lock(client, statements, jobs).await?);
    if dispatch_approvals::are_used(jobs) {
        // The time may have passed while another gateway held a ticket.
        clock = client.query_one(&statements.clock, &[]).await?;
    }
    let now = tools.time.now(clock_reading(&clock)?);
    let mut batch = EffectBatch::new(now, twins, holders).with_lost_window(tools.known.lost_window(now.now_ms));
    for row in &locked {
        let (effect, before) = rows::locked(row)?;
        let (record, body): (Option<String>, Option<Vec<u8>>) = (row.try_get(8)?, row.try_get(9)?);
        let open = (record.is_some() || body.is_some()).then(|| StoredCall {
            call_id: effect.call_id.to_string(),
            record,
            body,
        });
        batch.add(effect, before, row.try_get(7)?, open.as_ref())?;
    }
    Ok((batch, page))
}

/// Steps the effects, writes the result and commits: one more round trip, and a few if approvals are used.
async fn commit<'a>(
    tools: TransactionContext<'_>,
    batch: &mut EffectBatch<'a>,
    page: &mut TicketPage,
    jobs: &'a [Job],
) -> Result<BatchOutcomes, LedgerError> {
    let TransactionContext { client, statements, .. } = tools;
    let step = |job: &'a Job| match change_of(job) {
        Some(change) => {
            let approve = |effect: &Effect, now| dispatch_approvals::consume(page, job, effect, now);
            batch.apply(change, job.recorded(), approve).map(TransactionJobState::Stepped)
        }
        None => Ok(TransactionJobState::Put),
    };
    let mut parts = jobs.iter().map(step).collect::<Result<Vec<TransactionJobState<'_>>, _>>()?;
    let overtaken = dispatch_approvals::overtaken(client, &applied(jobs, &parts)).await?;
    for (job, part) in jobs.iter().zip(&mut parts) {
        if let TransactionJobState::Stepped(stepped) = part
            && dispatch_approvals::is_overtaken(job, &stepped.applied, &overtaken)
        {
            *part = TransactionJobState::Left;
        }
    }
    let known = finished(client, jobs).await?;
    let rows = rows_of(tools.log, batch, (jobs, &parts), &known)?;
    write_beside(tools, batch, jobs, &parts).await?;
    faults::at("ledger.before_commit")?;
    let statement =
        if rows.is_empty() { None } else { Some(rows.statement(client, statements, ConflictHandling::Settle).await?) };
    let write = async {
        match &statement {
            Some(statement) => rows.write(client, statement).await,
            None => Ok(WrittenEffects::default()),
        }
    };
    let written = if dispatch_approvals::are_used(jobs) {
        tickets::write_leaves(client, page, tools.log).await?;
        let written = write.await?;
        if !dispatch_approvals::all_written(&applied(jobs, &parts), &written) {
            // Another writer was faster. An approval is used up only together with its effect, and what this batch decided after it depends
            // on that.
            client.batch_execute("rollback").await?;
            return Ok(jobs.iter().map(|_| None).collect());
        }
        tickets::write(client, statements.tickets(client).await?, page).await?;
        client.batch_execute("commit").await?;
        written
    } else {
        // Sent together, the write first: the locks are gone after the commit.
        let (written, committed) = tokio::join!(biased; write, client.batch_execute("commit"));
        // After a statement that failed, `commit` succeeds by rolling everything back. So the statement's result
        // counts.
        let written = written?;
        committed?;
        written
    };
    faults::at("ledger.after_commit")?;
    remember(tools.recent, batch, &written);
    let stands = |slot| batch.waits_for(slot).is_none_or(|id| written.effects.contains(id.as_str()));
    Ok(outcomes(parts, stands))
}

/// Writes what comes beside the effects of a batch: displaced records, notes, and the notices of effects that end.
async fn write_beside(
    TransactionContext { client, log, .. }: TransactionContext<'_>,
    batch: &EffectBatch<'_>,
    jobs: &[Job],
    parts: &[TransactionJobState<'_>],
) -> Result<(), LedgerError> {
    let mut leaves = Leaves::default();
    for displaced in batch.displaced() {
        if let (true, Some(log)) = (rows::put_displaced(client, displaced).await?, log) {
            log.end(&displaced.record, DecisionTold::Before, &mut leaves)?;
        }
    }
    audit_log::put(client, &leaves).await?;
    for job in jobs {
        if let Job::Put { write, .. } = job {
            notes::put(client, write).await?;
        }
    }
    for (job, part) in jobs.iter().zip(parts) {
        // The effect is locked, so that the change made here is what gets written.
        if let TransactionJobState::Stepped(AppliedEvent { applied, changed: true, .. }) = part
            && let Some(effect) = &applied.effect
        {
            for note in notes_due(job.notices(), effect) {
                notes::put_first(client, note).await?;
            }
        }
    }
    Ok(())
}

/// The jobs that were stepped, with their results.
fn applied<'a>(jobs: &'a [Job], parts: &'a [TransactionJobState<'_>]) -> Vec<(&'a Job, &'a AppliedChange)> {
    let stepped = jobs.iter().zip(parts).filter_map(|(job, part)| match part {
        TransactionJobState::Stepped(stepped) => Some((job, &*stepped.applied)),
        TransactionJobState::Put | TransactionJobState::Left => None,
    });
    stepped.collect()
}

fn rows_of<'a>(
    log: Option<&LeafWriter>,
    batch: &'a EffectBatch<'_>,
    (jobs, parts): (&'a [Job], &[TransactionJobState<'a>]),
    known: &BTreeSet<String>,
) -> Result<BatchRows<'a>, LedgerError> {
    let mut rows = BatchRows::default();
    for changed in batch.changed() {
        rows.effect(&changed?)?;
    }
    for (job, part) in jobs.iter().zip(parts) {
        match (part, job.recorded()) {
            (TransactionJobState::Stepped(stepped), _) => {
                if let Some(recorded) = stepped.recorded.filter(|recorded| !batch.keeps(stepped.slot, recorded)) {
                    rows.call(batch.waits_for(stepped.slot), recorded)?;
                }
            }
            (TransactionJobState::Put, Some(recorded)) if known.contains(recorded.record.call_id.as_str()) => {
                rows.known_call(recorded)?;
            }
            (TransactionJobState::Put, Some(recorded)) => rows.call(None, recorded)?,
            _ => {}
        }
    }
    for displaced in batch.displaced() {
        rows.index(None, &displaced.record);
    }
    if let Some(log) = log {
        add_leaves(log, &mut rows, batch, (jobs, parts), known)?;
    }
    rows.sort();
    Ok(rows)
}

/// Adds the leaves of the records and effects of a batch, in the order of its jobs.
fn add_leaves<'a>(
    log: &LeafWriter,
    rows: &mut BatchRows<'a>,
    batch: &'a EffectBatch<'_>,
    (jobs, parts): (&'a [Job], &[TransactionJobState<'_>]),
    known: &BTreeSet<String>,
) -> Result<(), LedgerError> {
    for (job, part) in jobs.iter().zip(parts) {
        let mut leaves = Leaves::default();
        match part {
            TransactionJobState::Stepped(stepped) if stepped.changed => {
                if let Some(recorded) = stepped.recorded {
                    // A record that stays with its effect is of a call that is dispatched.
                    if batch.keeps(stepped.slot, recorded) {
                        log.decision(&recorded.record, &mut leaves)?;
                    } else {
                        log.end(&recorded.record, stepped.told, &mut leaves)?;
                    }
                }
                if let Some(effect) = &stepped.applied.effect {
                    leaves.effect(stepped.was, effect)?;
                }
                rows.leaves(batch.waits_for(stepped.slot), &leaves);
            }
            TransactionJobState::Put => {
                let record = job.recorded().map(|recorded| &recorded.record);
                if let Some(record) = record.filter(|record| !known.contains(record.call_id.as_str())) {
                    log.end(record, DecisionTold::Now, &mut leaves)?;
                }
                rows.leaves(None, &leaves);
            }
            TransactionJobState::Stepped(_) | TransactionJobState::Left => {}
        }
    }
    Ok(())
}

/// Which of the calls that are recorded by themselves are on record already and have ended: they are not counted again.
async fn finished(client: &Client, jobs: &[Job]) -> Result<BTreeSet<String>, LedgerError> {
    let recorded = |job: &Job| match job {
        Job::Put { .. } => job.recorded().map(|recorded| recorded.record.call_id.to_string()),
        _ => None,
    };
    let ids: Vec<String> = jobs.iter().filter_map(recorded).filter(|id| !id.contains('\0')).collect();
    if ids.is_empty() {
        return Ok(BTreeSet::new());
    }
    let rows = client.query(include_str!("../../sql/postgres/finished_calls.sql"), &[&ids]).await?;
    rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
}

/// Remembers the effects that were written, and forgets those that were not: their state is not what this
/// process assumed.
fn remember(recent: &PostgresRecentEffects, batch: &EffectBatch<'_>, written: &WrittenEffects) {
    for ChangedEffect { effect, before, .. } in batch.changed().flatten() {
        if written.effects.contains(effect.id.as_str()) {
            recent.record_written(effect, before);
        } else {
            recent.forget(&effect.id);
        }
    }
}

fn outcomes(parts: Vec<TransactionJobState<'_>>, stands: impl Fn(Option<usize>) -> bool) -> Vec<Option<JobOutcome>> {
    let outcome = |part| match part {
        TransactionJobState::Put => Some(JobOutcome::Put),
        TransactionJobState::Stepped(stepped) => stands(stepped.slot).then(|| JobOutcome::Applied(stepped.applied)),
        TransactionJobState::Left => None,
    };
    parts.into_iter().map(outcome).collect()
}

async fn find_twins(
    client: &Client,
    statements: &PreparedStatements,
    requests: &[&[u8]],
) -> Result<Vec<TwinEffect>, tokio_postgres::Error> {
    if requests.is_empty() {
        return Ok(Vec::new());
    }
    let twin = |row: &Row| {
        let id = EffectId::from(row.try_get::<_, String>(0)?);
        Ok(TwinEffect { id, request: row.try_get(1)?, tenant: row.try_get(2)?, principal: row.try_get(3)? })
    };
    client.query(&statements.find_twins, &[&requests]).await?.iter().map(twin).collect()
}

/// Takes turns with all other calls that begin on resources which effects of the same tenant may be changing,
/// and looks for those effects.
async fn take_turns(
    client: &Client,
    statements: &PreparedStatements,
    tenants: &[&[u8]],
) -> Result<Vec<ResourceHolder>, LedgerError> {
    if tenants.is_empty() {
        return Ok(Vec::new());
    }
    let of: [&(dyn ToSql + Sync); 1] = [&tenants];
    let (made, locked, found) = tokio::join!(
        biased;
        client.execute(&statements.make_turns, &of),
        client.query(&statements.lock_turns, &of),
        client.query(&statements.find_holders, &of),
    );
    made?;
    locked?;
    let holder = |row: &Row| {
        let id: String = row.try_get(0)?;
        let resources = decode_held_resources(&id, row.try_get(2)?)?;
        let until_ms = Some(unsigned(row.try_get(3)?));
        Ok(ResourceHolder { id: EffectId::from(id), tenant: row.try_get(1)?, resources, until_ms })
    };
    found?.iter().map(holder).collect()
}

fn change_of(job: &Job) -> Option<(&EffectTarget, &EffectEvent)> {
    match job {
        Job::Apply { target, event, .. } => Some((target, event)),
        _ => None,
    }
}

fn key_of((target, _): (&EffectTarget, &EffectEvent)) -> Option<servanda_contract::Digest> {
    match target {
        EffectTarget::Key(key) => Some(key_digest(key)),
        EffectTarget::Id(_) => None,
    }
}

fn id_of<'a>((target, _): (&'a EffectTarget, &EffectEvent)) -> Option<&'a str> {
    match target {
        EffectTarget::Key(_) => None,
        EffectTarget::Id(id) => Some(id.as_str()),
    }
}

fn taking_turns<'a>((_, event): (&EffectTarget, &'a EffectEvent)) -> Option<&'a [u8]> {
    match event {
        EffectEvent::Begin(begin) if begin.order.takes_turns() => Some(begin.key.tenant.as_bytes()),
        _ => None,
    }
}

fn keyless_request<'a>((_, event): (&EffectTarget, &'a EffectEvent)) -> Option<&'a [u8]> {
    match event {
        EffectEvent::Begin(begin) if is_keyless(begin) => Some(&begin.request.as_bytes()[..]),
        _ => None,
    }
}
