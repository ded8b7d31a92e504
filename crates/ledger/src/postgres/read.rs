//! Reading calls from the shared database.

use servanda_contract::CallRecord;
use servanda_gates::{Note, NoteKind};
use tokio_postgres::Client;

use super::{
    migrate, notes,
    session::{Connector, Session},
};
use crate::{
    LedgerError,
    call_list::{Below, PAGE_MAX, Span, UNDER_WAY_MAX},
    codec::decode_call,
    reader::{CallQuery, Quarantined},
};

const LATEST: &str = include_str!("../../sql/postgres/latest_calls.sql");

/// The record of a finished call.
pub(super) async fn call(client: &Client, call_id: &str) -> Result<Option<CallRecord>, LedgerError> {
    // Text here cannot hold every character; with such an id there is no call.
    if call_id.contains('\0') {
        return Ok(None);
    }
    let found = client.query_opt("select record from calls where call_id = $1", &[&call_id]).await?;
    found.map(|row| decode_call(call_id, row.try_get(0)?)).transpose()
}

/// Reads records of a database.
#[derive(Debug)]
pub(crate) struct ServerReader {
    session: Session,
}

impl ServerReader {
    pub(crate) async fn connect(url: &str) -> Result<Self, LedgerError> {
        Self::of(&Connector::new(url)?).await
    }

    pub(super) async fn of(connector: &Connector) -> Result<Self, LedgerError> {
        let session = connector.connect().await?;
        migrate::require(&session.client).await?;
        session.client.batch_execute("set default_transaction_read_only = on").await?;
        Ok(Self { session })
    }

    pub(crate) async fn find(&self, query: &CallQuery, limit: u32) -> Result<Vec<CallRecord>, LedgerError> {
        let (client, limit) = (&self.session.client, i64::from(limit));
        let CallQuery::Id(id) = query else {
            let rows = client.query(LATEST, &[&limit]).await?;
            return rows.iter().map(|row| decode_call(row.try_get(0)?, row.try_get(5)?)).collect();
        };
        if id.contains('\0') {
            return Ok(Vec::new());
        }
        let sql = include_str!("../../sql/postgres/calls_of_id.sql");
        let rows = client.query(sql, &[id, &limit]).await?;
        rows.iter().map(|row| decode_call(row.try_get(0)?, row.try_get(1)?)).collect()
    }

    /// A page of calls that have ended.
    pub(crate) async fn ended(&self, span: Span, below: &Below) -> Result<Vec<(Below, CallRecord)>, LedgerError> {
        let sql = include_str!("../../sql/postgres/ended_calls.sql");
        let Below { received_ms, call_id } = below;
        let limit = i64::from(PAGE_MAX);
        let rows = self.session.client.query(sql, &[&span.since_ms, received_ms, call_id, &limit]).await?;
        rows.iter().map(placed).collect()
    }

    /// The calls that are under way.
    pub(crate) async fn under_way(&self, span: Span) -> Result<Vec<CallRecord>, LedgerError> {
        let sql = include_str!("../../sql/postgres/calls_under_way.sql");
        let limit = i64::from(UNDER_WAY_MAX);
        let rows = self.session.client.query(sql, &[&span.since_ms, &span.until_ms, &limit]).await?;
        rows.iter().map(|row| placed(row).map(|(_, record)| record)).collect()
    }

    pub(crate) async fn quarantined(&self, call_id: &str) -> Result<Option<Quarantined>, LedgerError> {
        let sql = "select bytes_total, body from quarantine where call_id = $1";
        let Some(row) = self.session.client.query_opt(sql, &[&call_id]).await? else { return Ok(None) };
        Ok(Some(Quarantined { bytes_total: row.try_get(0)?, body: row.try_get(1)? }))
    }

    pub(crate) async fn note(&self, kind: NoteKind, key: &str) -> Result<Option<Note>, LedgerError> {
        notes::find(&self.session.client, kind, key).await
    }

    pub(crate) async fn count(&self) -> Result<i64, LedgerError> {
        Ok(self.session.client.query_one("select count(*) from all_calls", &[]).await?.try_get(0)?)
    }
}

/// A record, and where it stands in a list.
fn placed(row: &tokio_postgres::Row) -> Result<(Below, CallRecord), LedgerError> {
    let place = Below { call_id: row.try_get(0)?, received_ms: row.try_get(1)? };
    let record = decode_call(&place.call_id, row.try_get(2)?)?;
    Ok((place, record))
}
