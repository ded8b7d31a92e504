//! Maintenance of a shared ledger from outside a gateway.

use tokio_postgres::Client;

use super::{
    identity, migrate, rows,
    session::{Connector, PostgresSession},
    tickets,
};
use crate::{
    Adoption, AdoptionRequest, LedgerError, LedgerGuard, LedgerSchemaPolicy, LossSettlement,
    codec::{signed, unsigned},
    identity::{FoundLedger, PositionWitness, install},
    report::{LedgerStatus, LedgerVerification, MigrationPlan},
};

/// Problems that are reported at most.
const PROBLEMS_MAX: usize = 20;
/// Effects that are read at once.
const PAGE: i64 = 1_000;

/// The ledger's status.
pub(crate) async fn status(url: &str, guard: &LedgerGuard) -> Result<LedgerStatus, LedgerError> {
    let (connector, PostgresSession { client }) = connect(url).await?;
    let examined = identity::examine(&client, guard).await?;
    let refused = match examined.judge(guard, connector.server()) {
        Err(LedgerError::Refused(refused)) => Some(*refused),
        judged => judged.map(|()| None)?,
    };
    let identity::PostgresExamination { witness, found } = examined;
    let (known, ended_cleanly) = match witness {
        PositionWitness::Known { position, ended_cleanly } => (Some(position), Some(ended_cleanly)),
        PositionWitness::Nothing | PositionWitness::Unreadable(_) => (None, None),
    };
    let (schema_version, schema_needed) = (migrate::check(&client).await?, migrate::newest());
    let FoundLedger::Ledger { position, .. } = found else {
        return Ok(LedgerStatus { refused, schema_needed, known, ended_cleanly, ..nothing() });
    };
    let adoptions = if position.is_some() { identity::adoptions(&client).await? } else { Vec::new() };
    let (exists, schema_version) = (true, Some(schema_version));
    Ok(LedgerStatus {
        refused,
        exists,
        schema_version,
        schema_needed,
        position,
        known,
        ended_cleanly,
        adoptions,
        ..nothing()
    })
}

/// Reads every effect and every ticket.
pub(crate) async fn verify(url: &str) -> Result<LedgerVerification, LedgerError> {
    let (_, PostgresSession { client }) = connect(url).await?;
    migrate::require(&client).await?;
    let mut verified = LedgerVerification::default();
    let sql = include_str!("../../sql/postgres/page_of_effects.sql");
    let mut after = String::new();
    loop {
        let page = client.query(sql, &[&after, &PAGE]).await?;
        let Some(last) = page.last() else { break };
        after = last.try_get(0)?;
        for row in &page {
            verified.effects += 1;
            if let Err(problem) = rows::effect(row)
                && verified.problems.len() < PROBLEMS_MAX
            {
                verified.problems.push(problem.to_string());
            }
        }
    }
    verify_tickets(&client, &mut verified).await?;
    let calls = client.query_one("select count(*) from calls", &[]).await?;
    verified.calls = unsigned(calls.try_get(0)?);
    Ok(verified)
}

async fn verify_tickets(client: &Client, verified: &mut LedgerVerification) -> Result<(), LedgerError> {
    let sql = include_str!("../../sql/postgres/page_of_tickets.sql");
    let mut after = String::new();
    loop {
        let page = client.query(sql, &[&after, &PAGE]).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = last.try_get(0)?;
        for row in &page {
            if let Err(problem) = tickets::ticket(row)
                && verified.problems.len() < PROBLEMS_MAX
            {
                verified.problems.push(problem.to_string());
            }
        }
    }
}

/// Accepts what is there; none if it is the known ledger.
pub(crate) async fn adopt(
    url: &str,
    guard: &LedgerGuard,
    terms: &AdoptionRequest,
) -> Result<Option<Adoption>, LedgerError> {
    let (connector, PostgresSession { client }) = connect(url).await?;
    let version = migrate::check(&client).await?;
    let examined = identity::examine(&client, guard).await?;
    let refused = match examined.judge(guard, connector.server()) {
        Ok(()) => return Ok(None),
        Err(LedgerError::Refused(refused)) => refused,
        Err(error) => return Err(error),
    };
    migrate::bring_up_to_date(&client, version, LedgerSchemaPolicy::Migrate).await?;
    let there = match &examined.found {
        FoundLedger::Ledger { position, .. } => position.as_ref(),
        _ => None,
    };
    client.batch_execute("begin").await?;
    let (now_ms, ledger_id) = (now_ms(&client).await?, identity::new_id(&client).await?);
    let adoption = Adoption::new(terms, refused.to_string(), (refused.known.as_ref(), there), &[], ledger_id, now_ms);
    identity::adopt(&client, &adoption).await?;
    let position = identity::advance(&client, now_ms).await?;
    client.batch_execute("commit").await?;
    if let Some(file) = &guard.position_file {
        install(file, &position).map_err(|source| LedgerError::PositionFile { path: file.clone(), source })?;
    }
    Ok(Some(adoption))
}

/// Settles the lost windows.
pub(crate) async fn settle(url: &str, guard: &LedgerGuard, settling: &LossSettlement) -> Result<usize, LedgerError> {
    let (connector, PostgresSession { client }) = connect(url).await?;
    identity::examine(&client, guard).await?.judge(guard, connector.server())?;
    migrate::require(&client).await?;
    identity::settle(&client, settling, now_ms(&client).await?).await
}

/// What a migration would do.
pub(crate) async fn plan(url: &str, guard: &LedgerGuard) -> Result<MigrationPlan, LedgerError> {
    let (connector, PostgresSession { client }) = connect(url).await?;
    identity::examine(&client, guard).await?.judge(guard, connector.server())?;
    let (found, needed) = (migrate::check(&client).await?, migrate::newest());
    Ok(MigrationPlan { found, needed, backup: None, backup_bytes: None })
}

/// Writes and commits a row.
pub(crate) async fn probe(url: &str) -> Result<(), LedgerError> {
    let (_, PostgresSession { client }) = connect(url).await?;
    migrate::require(&client).await?;
    let sql = "insert into probes (one, written_ms, padding) values (1, $1, $2) \
               on conflict (one) do update set written_ms = excluded.written_ms, padding = excluded.padding";
    let padding: &[u8] = &[0x5e; 4_096];
    client.execute(sql, &[&signed(now_ms(&client).await?), &padding]).await?;
    Ok(())
}

async fn connect(url: &str) -> Result<(Connector, PostgresSession), LedgerError> {
    let connector = Connector::new(url)?;
    let session = connector.connect().await?;
    Ok((connector, session))
}

async fn now_ms(client: &Client) -> Result<u64, LedgerError> {
    let clock = client.query_one("select (extract(epoch from clock_timestamp()) * 1000)::bigint", &[]).await?;
    Ok(unsigned(clock.try_get(0)?))
}

fn nothing() -> LedgerStatus {
    LedgerStatus {
        refused: None,
        exists: false,
        schema_version: None,
        schema_needed: 0,
        position: None,
        known: None,
        ended_cleanly: None,
        in_use: None,
        bytes: None,
        log_bytes: None,
        log: None,
        adoptions: Vec::new(),
    }
}
