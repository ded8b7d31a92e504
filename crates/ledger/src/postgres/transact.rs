//! One batch in one transaction: the effects concerned are locked and read, stepped, and written with their records.

use std::collections::BTreeSet;

use servanda_contract::faults;
use servanda_gates::effect::{Change, EffectId, Event, Target};
use tokio_postgres::{Client, Row, types::ToSql};

use super::{
    batch::{Batch, Stepped, Twin, is_keyless},
    notes,
    rows::{self, Rows},
    session::Statements,
};
use crate::{
    LedgerError,
    codec::key_digest,
    queue::{Job, Outcome, Write},
    time::StoreTime,
};

/// Does a batch, all of it or nothing. A job without an outcome was not done, because somebody else was first: it may be
/// tried again in another transaction.
pub(super) async fn transact(
    client: &Client,
    statements: &Statements,
    time: &StoreTime,
    jobs: &[Job],
) -> Result<Vec<Option<Outcome>>, LedgerError> {
    let done = async {
        let mut batch = begin(client, statements, time, jobs).await?;
        commit(client, statements, &mut batch, jobs).await
    };
    let done = done.await;
    if done.is_err() && !client.is_closed() {
        // Nothing of it stays. If this does not reach the server, the connection is gone, and the transaction with it.
        let _ = client.batch_execute("rollback").await;
    }
    done
}

/// Opens the transaction, and locks and reads what it is about: one round trip.
async fn begin(client: &Client, statements: &Statements, time: &StoreTime, jobs: &[Job]) -> Result<Batch, LedgerError> {
    let changes = || jobs.iter().filter_map(change_of);
    if changes().next().is_none() {
        client.batch_execute("begin").await?;
        return Ok(Batch::new(0, Vec::new()));
    }
    let digests: Vec<_> = changes().filter_map(key_of).collect();
    let keys: Vec<&[u8]> = digests.iter().map(|digest| &digest.as_bytes()[..]).collect();
    // A handle comes from outside, and text here cannot hold every character; with such a one there is no effect.
    let ids: Vec<&str> = changes().filter_map(id_of).filter(|id| !id.contains('\0')).collect();
    let keyless: Vec<&[u8]> = changes().filter_map(keyless_request).collect();
    let concerned: [&(dyn ToSql + Sync); 2] = [&keys, &ids];
    // Polled in this order, and sent together.
    let (begun, locked, twins, clock) = tokio::join!(
        biased;
        client.batch_execute("begin"),
        client.query(&statements.lock_effects, &concerned),
        find_twins(client, statements, &keyless),
        client.query_one(&statements.clock, &[]),
    );
    begun?;
    let (locked, twins) = (locked?, twins?);
    let mut batch = Batch::new(time.at(clock?.try_get(0)?), twins);
    for row in &locked {
        batch.add(rows::effect(row)?, row.try_get(7)?);
    }
    Ok(batch)
}

/// Steps the effects, and writes and commits what came of it: one round trip more.
async fn commit(
    client: &Client,
    statements: &Statements,
    batch: &mut Batch,
    jobs: &[Job],
) -> Result<Vec<Option<Outcome>>, LedgerError> {
    let stepped: Vec<Option<Stepped>> =
        jobs.iter().map(|job| change_of(job).map(|change| batch.apply(change))).collect();
    let batch = &*batch;
    let mut rows = Rows::default();
    for (before, effect) in batch.changed() {
        rows.effect(before, effect)?;
    }
    for (job, stepped) in jobs.iter().zip(&stepped) {
        match (job, stepped) {
            (Job::Apply { change, .. }, Some(stepped)) if stepped.changed => {
                if let Some(record) = &change.record {
                    rows.call(batch.waits_for(stepped.slot), record, change.quarantine.as_ref())?;
                }
            }
            (Job::Put { write: Write::Call { record, quarantine }, .. }, _) => {
                rows.call(None, record, quarantine.as_ref())?;
            }
            (Job::Put { write, .. }, _) => notes::put(client, write).await?,
            _ => {}
        }
    }
    faults::at("ledger.before_commit")?;
    let (written, committed) = tokio::join!(
        biased;
        async { if rows.is_empty() { Ok(Vec::new()) } else { rows.write(client, &statements.write_batch).await } },
        client.batch_execute("commit"),
    );
    // After a statement that failed, `commit` succeeds by undoing everything: the statement has the say.
    let written: BTreeSet<String> = written?.into_iter().collect();
    committed?;
    faults::at("ledger.after_commit")?;
    let outcome = |stepped: Option<Stepped>| match stepped {
        None => Some(Outcome::Put),
        Some(stepped) => {
            let stands = batch.waits_for(stepped.slot).is_none_or(|id| written.contains(id.as_str()));
            stands.then(|| Outcome::Applied(Box::new(stepped.applied)))
        }
    };
    Ok(stepped.into_iter().map(outcome).collect())
}

async fn find_twins(
    client: &Client,
    statements: &Statements,
    requests: &[&[u8]],
) -> Result<Vec<Twin>, tokio_postgres::Error> {
    if requests.is_empty() {
        return Ok(Vec::new());
    }
    let twin = |row: &Row| {
        let id = EffectId::from(row.try_get::<_, String>(0)?);
        Ok(Twin { id, request: row.try_get(1)?, tenant: row.try_get(2)?, principal: row.try_get(3)? })
    };
    client.query(&statements.find_twins, &[&requests]).await?.iter().map(twin).collect()
}

fn change_of(job: &Job) -> Option<&Change> {
    match job {
        Job::Apply { change, .. } => Some(change),
        _ => None,
    }
}

fn key_of(change: &Change) -> Option<servanda_contract::Digest> {
    match &change.target {
        Target::Key(key) => Some(key_digest(key)),
        Target::Id(_) => None,
    }
}

fn id_of(change: &Change) -> Option<&str> {
    match &change.target {
        Target::Key(_) => None,
        Target::Id(id) => Some(id.as_str()),
    }
}

fn keyless_request(change: &Change) -> Option<&[u8]> {
    match &change.event {
        Event::Begin(begin) if is_keyless(begin) => Some(&begin.request.as_bytes()[..]),
        _ => None,
    }
}
