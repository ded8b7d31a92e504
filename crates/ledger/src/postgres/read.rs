//! Reading calls from the shared database.

use servanda_audit::{leaf::LeafSalts, tile::TilePath};
use servanda_contract::CallRecord;
use servanda_effects::{
    Note, NoteKind,
    call_history::{HistoryPage, HistoryQuery},
};
use tokio_postgres::{Client, types::ToSql};

use super::{
    audit_log,
    dictionary::PostgresDictionaryLookup,
    history, migrate, notes,
    session::{Connector, PostgresSession},
};
use crate::{
    LedgerError,
    call_index::Term,
    call_list::{CallListCursor, PAGE_MAX, ReceivedRange, UNDER_WAY_MAX, newest},
    call_query::{CallQuery, QuarantinedBody},
};

/// The record of a finished call.
pub(super) async fn call(client: &Client, call_id: &str) -> Result<Option<CallRecord>, LedgerError> {
    // Text in PostgreSQL cannot hold this character, so no call has such an id.
    if call_id.contains('\0') {
        return Ok(None);
    }
    let found = client.query_opt("select call_id, record, body from calls where call_id = $1", &[&call_id]).await?;
    let Some(row) = found else { return Ok(None) };
    Ok(PostgresDictionaryLookup::default().decode(client, &[row]).await?.pop())
}

/// Reads records of a database.
#[derive(Debug)]
pub(crate) struct PostgresReader {
    session: PostgresSession,
    lookup: PostgresDictionaryLookup,
}

impl PostgresReader {
    pub(crate) async fn connect(url: &str) -> Result<Self, LedgerError> {
        Self::connect_with(&Connector::new(url)?).await
    }

    pub(super) async fn connect_with(connector: &Connector) -> Result<Self, LedgerError> {
        let session = connector.connect().await?;
        migrate::require(&session.client).await?;
        session.client.batch_execute("set default_transaction_read_only = on").await?;
        Ok(Self { session, lookup: PostgresDictionaryLookup::default() })
    }

    pub(crate) async fn log_checkpoint(&self) -> Result<Option<String>, LedgerError> {
        audit_log::checkpoint(&self.session.client).await
    }

    pub(crate) async fn log_salts(&self) -> Result<Option<LeafSalts>, LedgerError> {
        audit_log::known_salts(&self.session.client).await
    }

    pub(crate) async fn log_file(&self, path: &TilePath) -> Result<Option<Vec<u8>>, LedgerError> {
        audit_log::file(&self.session.client, path).await
    }

    pub(crate) async fn find(&self, query: &CallQuery, limit: u32) -> Result<Vec<CallRecord>, LedgerError> {
        let rows_max = i64::from(limit);
        let CallQuery::Id(id) = query else {
            let under_way = self.under_way().await?;
            let ended = self.records(include_str!("../../sql/postgres/latest_calls.sql"), &[&rows_max]).await?;
            return Ok(newest(under_way, ended, limit));
        };
        if id.contains('\0') {
            return Ok(Vec::new());
        }
        self.records(include_str!("../../sql/postgres/calls_of_id.sql"), &[id, &rows_max]).await
    }

    /// A page of calls that have ended.
    pub(crate) async fn ended(
        &self,
        span: ReceivedRange,
        below: &CallListCursor,
    ) -> Result<Vec<(CallListCursor, CallRecord)>, LedgerError> {
        let sql = include_str!("../../sql/postgres/ended_calls.sql");
        let CallListCursor { received_ms, call_id } = below;
        let records = self.records(sql, &[&span.since_ms, received_ms, call_id, &i64::from(PAGE_MAX)]).await?;
        Ok(records.into_iter().map(|record| (CallListCursor::after_call(&record), record)).collect())
    }

    /// The calls that are under way.
    pub(crate) async fn under_way(&self) -> Result<Vec<CallRecord>, LedgerError> {
        self.records(include_str!("../../sql/postgres/calls_under_way.sql"), &[&i64::from(UNDER_WAY_MAX)]).await
    }

    async fn records(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<CallRecord>, LedgerError> {
        let rows = self.session.client.query(sql, params).await?;
        self.lookup.decode(&self.session.client, &rows).await
    }

    /// A page of calls that have ended, by the index.
    pub(crate) async fn history_page(&self, query: &HistoryQuery) -> Result<HistoryPage, LedgerError> {
        history::list(&self.session.client, query).await
    }

    pub(crate) async fn first_span(&self, term: Term) -> Result<Option<i64>, LedgerError> {
        history::first_span(&self.session.client, term).await
    }

    pub(crate) async fn next_tenant(&self, from: &[u8]) -> Result<Option<Vec<u8>>, LedgerError> {
        history::next_tenant(&self.session.client, from).await
    }

    pub(crate) async fn quarantined(&self, call_id: &str) -> Result<Option<QuarantinedBody>, LedgerError> {
        let sql = "select bytes_total, body from quarantine where call_id = $1";
        let Some(row) = self.session.client.query_opt(sql, &[&call_id]).await? else { return Ok(None) };
        Ok(Some(QuarantinedBody { bytes_total: row.try_get(0)?, body: row.try_get(1)? }))
    }

    pub(crate) async fn note(&self, kind: NoteKind, key: &str) -> Result<Option<Note>, LedgerError> {
        notes::find(&self.session.client, kind, key).await
    }

    pub(crate) async fn count(&self) -> Result<i64, LedgerError> {
        Ok(self.session.client.query_one("select count(*) from all_calls", &[]).await?.try_get(0)?)
    }
}
