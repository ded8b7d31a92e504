//! The identity of the shared ledger: its row, its acceptances, the lost windows that still matter, and what
//! this gateway's own position file says about it.

use std::sync::{Arc, Mutex, PoisonError};

use servanda_effects::effect::LostWindow;
use tokio_postgres::{Client, Row};

use crate::{
    LedgerError,
    codec::{signed, unsigned},
    identity::{
        Adoption, FoundLedger, LedgerGuard, LedgerPosition, LossSettlement, PositionFile, PositionWitness,
        RefusedLedger, UnsettledLoss, judge, lost_window,
    },
};

/// What this gateway knows about the ledger while it runs.
#[derive(Debug, Default)]
pub(super) struct PostgresLedgerIdentity {
    position_file: Option<PositionFile>,
    /// One heartbeat at a time, so that positions are seen in order.
    turn: tokio::sync::Mutex<()>,
    /// The position that this gateway saw last.
    seen: Mutex<Option<LedgerPosition>>,
    lost: Mutex<Vec<UnsettledLoss>>,
    /// Why the database is no longer the one that this gateway started with.
    replaced: Mutex<Option<String>>,
}

/// What the position file says, and what the database holds.
#[derive(Debug)]
pub(super) struct PostgresExamination {
    pub(super) witness: PositionWitness,
    pub(super) found: FoundLedger,
}

/// Reads the position file first and the database second. A gateway that runs at the same time writes the
/// database first and the file second, so that in this order the database is never behind the file.
pub(super) async fn examine(client: &Client, guard: &LedgerGuard) -> Result<PostgresExamination, LedgerError> {
    let witness = guard.witness();
    Ok(PostgresExamination { witness, found: find(client).await? })
}

impl PostgresExamination {
    /// Refuses a database that does not hold the known ledger.
    pub(super) fn judge(&self, guard: &LedgerGuard, server: &str) -> Result<(), LedgerError> {
        let Some(position_file) = guard.position_file.clone() else { return Ok(()) };
        judge(&self.witness, &self.found).map_err(|damage| {
            let (place, known) = (server.to_owned(), self.witness.position().cloned());
            LedgerError::Refused(Box::new(RefusedLedger { place, position_file, damage, known, log: None }))
        })
    }
}

/// What a database holds.
async fn find(client: &Client) -> Result<FoundLedger, LedgerError> {
    let sql = "select to_regclass('calls') is not null, to_regclass('ledger_identity') is not null";
    let tables = client.query_one(sql, &[]).await?;
    if !tables.try_get::<_, bool>(0)? {
        return Ok(FoundLedger::Empty);
    }
    let (position, former_ids) = if tables.try_get(1)? {
        (Some(position(client).await?), former_ids(client).await?)
    } else {
        (None, Vec::new())
    };
    Ok(FoundLedger::Ledger { position, former_ids })
}

/// Which ledger it is and how far it has come.
pub(super) async fn position(client: &Client) -> Result<LedgerPosition, LedgerError> {
    let sql = "select ledger_id, position, written_ms, made_ms from ledger_identity where one = 1";
    read_position(&client.query_one(sql, &[]).await?)
}

/// Moves the position on.
pub(super) async fn advance(client: &Client, now_ms: u64) -> Result<LedgerPosition, LedgerError> {
    let sql = "update ledger_identity set position = position + 1, written_ms = greatest(written_ms, $1) where one = 1 \
               returning ledger_id, position, written_ms, made_ms";
    read_position(&client.query_one(sql, &[&signed(now_ms)]).await?)
}

/// A new random id.
pub(super) async fn new_id(client: &Client) -> Result<String, LedgerError> {
    Ok(client.query_one("select replace(gen_random_uuid()::text, '-', '')", &[]).await?.try_get(0)?)
}

/// Stores an acceptance and gives the ledger its new identity, in the caller's transaction.
pub(super) async fn adopt(client: &Client, adoption: &Adoption) -> Result<(), LedgerError> {
    let optional = |value: Option<u64>| value.map(signed);
    let sql = include_str!("../../sql/postgres/put_adoption.sql");
    client
        .execute(
            sql,
            &[
                &signed(adoption.adopted_ms),
                &adoption.adopted_by,
                &adoption.evidence,
                &adoption.found,
                &adoption.known_id,
                &optional(adoption.known_position),
                &adoption.found_id,
                &optional(adoption.found_position),
                &adoption.ledger_id,
                &signed(adoption.lost_from_ms),
                &signed(adoption.lost_until_ms),
                &signed(adoption.in_force_until_ms),
            ],
        )
        .await?;
    let sql = "update ledger_identity set ledger_id = $1 where one = 1";
    client.execute(sql, &[&adoption.ledger_id]).await?;
    Ok(())
}

/// Settles every unsettled lost window. Returns how many there were.
pub(super) async fn settle(client: &Client, settling: &LossSettlement, now_ms: u64) -> Result<usize, LedgerError> {
    let sql = "update adoptions set settled_ms = $1, settled_by = $2, settled_evidence = $3 where settled_ms is null";
    let settled = client.execute(sql, &[&signed(now_ms), &settling.by, &settling.evidence]).await?;
    Ok(usize::try_from(settled).unwrap_or(usize::MAX))
}

/// The acceptances, latest first.
pub(super) async fn adoptions(client: &Client) -> Result<Vec<Adoption>, LedgerError> {
    let rows = client.query(include_str!("../../sql/postgres/list_adoptions.sql"), &[]).await?;
    rows.iter().map(adoption).collect()
}

impl PostgresLedgerIdentity {
    /// Starts with the identity that was found when the ledger was opened.
    pub(super) async fn load(client: &Client, guard: &LedgerGuard) -> Result<Arc<Self>, LedgerError> {
        let position = position(client).await?;
        let open = |path: &std::path::PathBuf| {
            let opened = PositionFile::open(path, &position);
            opened.map_err(|source| LedgerError::PositionFile { path: path.clone(), source })
        };
        let position_file = guard.position_file.as_ref().map(open).transpose()?;
        let known = Self { position_file, seen: Mutex::new(Some(position)), ..Self::default() };
        *known.lost.lock().unwrap_or_else(PoisonError::into_inner) = lost(client).await?;
        Ok(Arc::new(known))
    }

    /// Runs with every heartbeat: moves the position on, and notices a database that was replaced or restored
    /// under a running gateway.
    pub(super) async fn beat(&self, client: &Client, now_ms: u64) -> Result<(), LedgerError> {
        let _turn = self.turn.lock().await;
        let position = advance(client, now_ms).await?;
        *self.lost.lock().unwrap_or_else(PoisonError::into_inner) = lost(client).await?;
        let before = self.seen.lock().unwrap_or_else(PoisonError::into_inner).replace(position.clone());
        if let Some(before) = before.filter(|before| !follows(&position, before)) {
            let LedgerPosition { ledger_id, position, .. } = &position;
            let why = format!(
                "the ledger's database was replaced while the gateway ran: it was ledger {} at position {}, and is ledger \
                 {ledger_id} at position {position}; stop the gateways, put the database right, and start them again",
                before.ledger_id, before.position
            );
            tracing::error!("{why}");
            self.replaced.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
        } else if let Some(file) = self.position_file.as_ref().filter(|_| self.replaced().is_none()) {
            file.advance(position.position, position.written_ms);
        }
        Ok(())
    }

    /// Notes that this gateway ends cleanly.
    pub(super) fn end(&self) {
        if let Some(Err(error)) = self.position_file.as_ref().map(PositionFile::end) {
            tracing::warn!(%error, "the ledger's position file was not synced");
        }
    }

    /// Why the database is no longer the one that this gateway started with.
    pub(super) fn replaced(&self) -> Option<String> {
        self.replaced.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The lost window that matters now.
    pub(super) fn lost_window(&self, now_ms: u64) -> Option<LostWindow> {
        lost_window(&self.lost.lock().unwrap_or_else(PoisonError::into_inner), now_ms)
    }
}

fn follows(position: &LedgerPosition, before: &LedgerPosition) -> bool {
    position.ledger_id == before.ledger_id && position.position > before.position
}

async fn former_ids(client: &Client) -> Result<Vec<String>, LedgerError> {
    let sql = "select known_id from adoptions where known_id is not null union \
               select found_id from adoptions where found_id is not null";
    client.query(sql, &[]).await?.iter().map(|row| Ok(row.try_get(0)?)).collect()
}

async fn lost(client: &Client) -> Result<Vec<UnsettledLoss>, LedgerError> {
    let sql = "select lost_from_ms, lost_until_ms, in_force_until_ms from adoptions where settled_ms is null";
    let of = |row: &Row| {
        let window = LostWindow { from_ms: unsigned(row.try_get(0)?), until_ms: unsigned(row.try_get(1)?) };
        Ok(UnsettledLoss { window, in_force_until_ms: unsigned(row.try_get(2)?) })
    };
    client.query(sql, &[]).await?.iter().map(of).collect()
}

fn read_position(row: &Row) -> Result<LedgerPosition, LedgerError> {
    Ok(LedgerPosition {
        ledger_id: row.try_get(0)?,
        position: unsigned(row.try_get(1)?),
        written_ms: unsigned(row.try_get(2)?),
        made_ms: unsigned(row.try_get(3)?),
    })
}

fn adoption(row: &Row) -> Result<Adoption, LedgerError> {
    let optional = |index: usize| Ok::<_, LedgerError>(row.try_get::<_, Option<i64>>(index)?.map(unsigned));
    Ok(Adoption {
        adopted_ms: unsigned(row.try_get(0)?),
        adopted_by: row.try_get(1)?,
        evidence: row.try_get(2)?,
        found: row.try_get(3)?,
        known_id: row.try_get(4)?,
        known_position: optional(5)?,
        found_id: row.try_get(6)?,
        found_position: optional(7)?,
        ledger_id: row.try_get(8)?,
        lost_from_ms: unsigned(row.try_get(9)?),
        lost_until_ms: unsigned(row.try_get(10)?),
        in_force_until_ms: unsigned(row.try_get(11)?),
        settled_ms: optional(12)?,
        settled_by: row.try_get(13)?,
        settled_evidence: row.try_get(14)?,
    })
}
