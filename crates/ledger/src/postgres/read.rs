//! Reading calls from the shared database.

use servanda_contract::CallRecord;

use super::{
    migrate,
    session::{Connector, Session},
};
use crate::{
    LedgerError,
    codec::decode_call,
    reader::{CallQuery, CallSummary, Quarantined},
};

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
        migrate::check(&session.client).await?;
        session.client.batch_execute("set default_transaction_read_only = on").await?;
        Ok(Self { session })
    }

    pub(crate) async fn find(&self, query: &CallQuery, limit: u32) -> Result<Vec<CallRecord>, LedgerError> {
        let (client, limit) = (&self.session.client, i64::from(limit));
        let rows = match query {
            CallQuery::Id(id) if id.contains('\0') => Vec::new(),
            CallQuery::Id(id) => {
                let sql = "select call_id, record from all_calls where call_id >= $1 and call_id < $1 || '~' order by call_id limit $2";
                client.query(sql, &[id, &limit]).await?
            }
            CallQuery::Latest => {
                let sql = "select call_id, record from all_calls order by received_ms desc, call_id desc limit $1";
                client.query(sql, &[&limit]).await?
            }
        };
        rows.iter().map(|row| decode_call(row.try_get(0)?, row.try_get(1)?)).collect()
    }

    pub(crate) async fn recent(&self, limit: u32) -> Result<Vec<CallSummary>, LedgerError> {
        let sql = "select call_id, tool, outcome, class, received_ms from all_calls order by received_ms desc, call_id desc limit $1";
        let rows = self.session.client.query(sql, &[&i64::from(limit)]).await?;
        let summary = |row: &tokio_postgres::Row| {
            Ok(CallSummary {
                call_id: row.try_get(0)?,
                tool: row.try_get(1)?,
                outcome: row.try_get(2)?,
                class: row.try_get(3)?,
                received_ms: row.try_get(4)?,
            })
        };
        rows.iter().map(summary).collect()
    }

    pub(crate) async fn quarantined(&self, call_id: &str) -> Result<Option<Quarantined>, LedgerError> {
        let sql = "select bytes_total, body from quarantine where call_id = $1";
        let Some(row) = self.session.client.query_opt(sql, &[&call_id]).await? else { return Ok(None) };
        Ok(Some(Quarantined { bytes_total: row.try_get(0)?, body: row.try_get(1)? }))
    }

    pub(crate) async fn count(&self) -> Result<i64, LedgerError> {
        Ok(self.session.client.query_one("select count(*) from all_calls", &[]).await?.try_get(0)?)
    }
}
