//! Reads from the shared database, heartbeats, and the check whether the database keeps what it acknowledges.
//! The pool has its own connections and makes lost ones again. There are several, so that one slow query does
//! not hold up the others. All of them go to the primary (I8).

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use servanda_effects::effect::{LedgerNow, OwnerId};
use tokio::{sync::Mutex as TurnTaking, time::timeout};
use tokio_postgres::{Client, types::ToSql};

use super::{
    rows::clock_reading,
    session::{ANSWER_MS_MAX, Connector, PostgresSession},
};
use crate::{LedgerError, clock_watch::ClockWatch, codec::signed, time::StoreTime};

/// Connections that read. Each is made when it is first needed.
const READERS: usize = 3;

/// Reads, and writes heartbeats.
#[derive(Debug)]
pub(super) struct PostgresReadPool {
    connector: Connector,
    readers: [PostgresPooledConnection; READERS],
    may_lose_commits: Mutex<Option<String>>,
    time: StoreTime,
    watch: Mutex<ClockWatch>,
}

/// One connection, and how many queries are running on it.
#[derive(Debug, Default)]
struct PostgresPooledConnection {
    session: TurnTaking<Option<Arc<PostgresSession>>>,
    in_flight: AtomicUsize,
}

/// A query on a connection, counted until this is dropped.
struct PostgresPooledQuery<'a>(&'a PostgresPooledConnection);

impl PostgresReadPool {
    pub(super) fn new(connector: Connector, time: StoreTime) -> Self {
        let (may_lose_commits, watch) = (Mutex::new(None), Mutex::default());
        Self { connector, readers: Default::default(), may_lose_commits, time, watch }
    }

    /// Runs a query, with a time limit.
    pub(super) async fn ask<T>(
        &self,
        question: impl AsyncFnOnce(&Client) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        let Some(asked) = self.least_busy() else { return Err(LedgerError::Silent(0)) };
        let session = self.session(asked.0).await?;
        let limit = Duration::from_millis(ANSWER_MS_MAX);
        if let Ok(answer) = timeout(limit, question(&session.client)).await {
            return answer;
        }
        *asked.0.session.lock().await = None;
        Err(LedgerError::Silent(ANSWER_MS_MAX))
    }

    /// The store's time.
    pub(super) async fn now(&self, client: &Client) -> Result<LedgerNow, LedgerError> {
        let row = client.query_one(include_str!("../../sql/postgres/read_clock.sql"), &[]).await?;
        Ok(self.time.now(clock_reading(&row)?))
    }

    /// Writes an owner's heartbeat, and keeps ledger time going. Returns the time.
    pub(super) async fn beat(&self, client: &Client, owner: &OwnerId) -> Result<LedgerNow, LedgerError> {
        let read = clock_reading(&client.query_one(include_str!("../../sql/postgres/read_clock.sql"), &[]).await?)?;
        if let Some(kept) = self.time.to_keep(read) {
            self.watch.lock().unwrap_or_else(PoisonError::into_inner).observe(kept.seen_ms);
            let [seen_ms, ledger_ms, seen_before_ms, ledger_before_ms] =
                [kept.seen_ms, kept.ledger_ms, read.kept.seen_ms, read.kept.ledger_ms].map(signed);
            let kept: [&(dyn ToSql + Sync); 4] = [&seen_ms, &ledger_ms, &seen_before_ms, &ledger_before_ms];
            client.execute(include_str!("../../sql/postgres/keep_clock.sql"), &kept).await?;
        }
        let now = self.time.now(read);
        let heard_ms = signed(now.ledger_ms);
        client.execute(include_str!("../../sql/postgres/put_beat.sql"), &[&owner.as_str(), &heard_ms]).await?;
        Ok(now)
    }

    /// Checks again whether an acknowledged commit might be lost.
    pub(super) async fn look_at_durability(&self) -> Result<(), LedgerError> {
        let reason = self.ask(async |client: &Client| why_commits_may_be_lost(client).await).await?;
        *self.may_lose_commits.lock().unwrap_or_else(PoisonError::into_inner) = reason;
        Ok(())
    }

    pub(super) fn may_lose_commits(&self) -> Option<String> {
        self.may_lose_commits.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The connection with the fewest queries, the first of them if there are several, so that the others are
    /// made only when they are needed.
    fn least_busy(&self) -> Option<PostgresPooledQuery<'_>> {
        let reader = self.readers.iter().min_by_key(|reader| reader.in_flight.load(Ordering::Relaxed))?;
        reader.in_flight.fetch_add(1, Ordering::Relaxed);
        Some(PostgresPooledQuery(reader))
    }

    async fn session(&self, reader: &PostgresPooledConnection) -> Result<Arc<PostgresSession>, LedgerError> {
        // Held while connecting: other queries on this connection would have to wait for it anyway.
        let mut kept = reader.session.lock().await;
        if let Some(session) = kept.as_ref().filter(|session| !session.client.is_closed()) {
            return Ok(Arc::clone(session));
        }
        let session = Arc::new(self.connector.connect().await?);
        *kept = Some(Arc::clone(&session));
        Ok(session)
    }
}

impl Drop for PostgresPooledQuery<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// I9: a commit is lost when it is on no disk, or when a standby takes over that never had it.
async fn why_commits_may_be_lost(client: &Client) -> Result<Option<String>, LedgerError> {
    let facts = client.query_one(include_str!("../../sql/postgres/durability.sql"), &[]).await?;
    let (syncs, unawaited, away): (bool, Option<String>, Option<String>) =
        (facts.try_get(0)?, facts.try_get(1)?, facts.try_get(2)?);
    Ok(if !syncs {
        Some("`fsync` is off in the database".to_owned())
    } else if let Some(standbys) = unawaited {
        Some(format!("commits do not wait for every standby (or this role may not see whether they do): {standbys}"))
    } else {
        away.map(|slots| format!("standbys that are away have not got the latest commits: {slots}"))
    })
}
