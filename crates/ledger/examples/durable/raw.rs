//! Inserts an effect and a record into tables like the ledger's. Both are already encoded, and nothing is read,
//! decided or compared. There are as many writers as the ledger has, and each takes what has queued up.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use rusqlite::{TransactionBehavior, params};
use servanda_contract::{CallId, Digest, digest::DigestDomain};
use servanda_effects::effect::EffectId;
use servanda_ledger::{Ledger, LedgerGuard};
use tokio::sync::{mpsc, oneshot};

use crate::call::Encoded;

/// The same value as in the ledger.
const BATCH_MAX: usize = 512;
const QUEUE_MAX: usize = 8_192;
const POSTGRES_WRITERS: usize = 2;

type Done = oneshot::Sender<()>;

/// A way to insert rows.
pub(crate) struct Raw {
    queues: Vec<mpsc::Sender<Done>>,
    next: AtomicUsize,
}

impl Raw {
    /// Inserts an effect row and a record row, and waits until they are durable.
    pub(crate) fn insert(&self) -> impl Future<Output = ()> + Send + 'static {
        let shard = self.next.fetch_add(1, Ordering::Relaxed) % self.queues.len();
        let queue = self.queues.get(shard).cloned().unwrap();
        async move {
            let (done, wait) = oneshot::channel();
            queue.send(done).await.unwrap();
            wait.await.unwrap();
        }
    }

    /// Inserts into a file in which a ledger has made its tables.
    pub(crate) async fn file(path: &Path, encoded: Encoded) -> Self {
        Ledger::open_guarded(path, &LedgerGuard::default()).unwrap().close().await;
        let mut connection = rusqlite::Connection::open(path).unwrap();
        let settings = [("cache_size", -32_768), ("wal_autocheckpoint", 8_000)];
        connection.pragma_update(None, "journal_mode", "wal").unwrap();
        connection.pragma_update(None, "synchronous", "full").unwrap();
        for (name, value) in settings {
            connection.pragma_update(None, name, value).unwrap();
        }
        let (queue, mut jobs) = mpsc::channel(QUEUE_MAX);
        std::thread::spawn(move || {
            while let Some(first) = jobs.blocking_recv() {
                let batch = gather(first, &mut jobs);
                let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
                for _ in &batch {
                    put_in_file(&transaction, &encoded);
                }
                transaction.commit().unwrap();
                for done in batch {
                    done.send(()).unwrap();
                }
            }
        });
        Self { queues: vec![queue], next: AtomicUsize::new(0) }
    }

    /// Inserts into copies of the tables and indexes that a ledger has made on that server.
    pub(crate) async fn server(url: &str, encoded: Encoded) -> Self {
        let encoded = Arc::new(encoded);
        let mut queues = Vec::new();
        for writer in 0..POSTGRES_WRITERS {
            let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
            tokio::spawn(connection);
            if writer == 0 {
                let schema = "drop schema if exists durable_raw cascade; create schema durable_raw";
                client.batch_execute(schema).await.unwrap();
            }
            client
                .batch_execute("set search_path = durable_raw; set plan_cache_mode = force_generic_plan")
                .await
                .unwrap();
            if writer == 0 {
                for table in ["calls", "effects"] {
                    let copy = format!("create table {table} (like public.{table} including all)");
                    client.batch_execute(&copy).await.unwrap();
                }
            }
            let insert = client.prepare(INSERT).await.unwrap();
            let (queue, mut jobs) = mpsc::channel(QUEUE_MAX);
            let encoded = encoded.clone();
            tokio::spawn(async move {
                while let Some(first) = jobs.recv().await {
                    let batch = gather(first, &mut jobs);
                    let ids: Vec<(String, Digest, String)> = batch.iter().map(|_| ids()).collect();
                    let effect_ids: Vec<&str> = ids.iter().map(|(id, ..)| id.as_str()).collect();
                    let digests: Vec<&[u8]> = ids.iter().map(|(_, digest, _)| &digest.as_bytes()[..]).collect();
                    let call_ids: Vec<&str> = ids.iter().map(|(.., id)| id.as_str()).collect();
                    let bodies = vec![encoded.body.as_str(); batch.len()];
                    let arguments = vec![&encoded.arguments[..]; batch.len()];
                    let records = vec![&encoded.record[..]; batch.len()];
                    let columns: [&(dyn tokio_postgres::types::ToSql + Sync); 6] =
                        [&effect_ids, &digests, &bodies, &arguments, &call_ids, &records];
                    client.execute(&insert, &columns).await.unwrap();
                    for done in batch {
                        done.send(()).unwrap();
                    }
                }
            });
            queues.push(queue);
        }
        Self { queues, next: AtomicUsize::new(0) }
    }
}

const INSERT: &str = "with new as (
    insert into effects (effect_id, key_digest, tenant, principal, request, state, epoch, revision, owner, needs_owner, due_ms,
        expires_ms, body, arguments, answer, upstream)
    select effect_id, key_digest, 'acme', 'ada', key_digest, 'dispatching', 1, 1, 'own_bench', true, 1, 1, body, arguments, null, ''
    from unnest($1::text[], $2::bytea[], $3::text[], $4::bytea[]) as fresh (effect_id, key_digest, body, arguments)
)
insert into calls (call_id, outcome, received_ms, body)
select call_id, 'dispatching', 1800000000000, body
from unnest($5::text[], $6::bytea[]) as call (call_id, body)";

fn put_in_file(transaction: &rusqlite::Connection, encoded: &Encoded) {
    let (effect_id, digest, call_id) = ids();
    let mut effect = transaction.prepare_cached(include_str!("../../sql/sqlite/put_effect.sql")).unwrap();
    let digest = digest.as_bytes();
    effect
        .execute(params![
            effect_id,
            digest,
            "acme",
            "ada",
            digest,
            "dispatching",
            1,
            "own_bench",
            true,
            1,
            1,
            encoded.body,
            &encoded.arguments[..],
            None::<&[u8]>,
            None::<&[u8]>,
            None::<&str>,
            None::<i64>,
            "",
        ])
        .unwrap();
    let mut call = transaction.prepare_cached(include_str!("../../sql/sqlite/put_call.sql")).unwrap();
    let row = params![call_id, "dispatching", 1_800_000_000_000_i64, encoded.record, None::<&str>];
    call.execute(row).unwrap();
}

fn ids() -> (String, Digest, String) {
    let (effect_id, call_id) = (EffectId::new().as_str().to_owned(), CallId::new().to_string());
    let digest = Digest::compute(DigestDomain::EffectKey, &[effect_id.as_bytes()]);
    (effect_id, digest, call_id)
}

fn gather(first: Done, jobs: &mut mpsc::Receiver<Done>) -> Vec<Done> {
    let mut batch = vec![first];
    while batch.len() < BATCH_MAX {
        let Ok(next) = jobs.try_recv() else { break };
        batch.push(next);
    }
    batch
}
