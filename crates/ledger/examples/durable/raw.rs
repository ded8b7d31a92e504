//! Plain rows, through writers that take what has queued up: as many of them as the ledger has.

use std::{
    path::Path,
    sync::{
        LazyLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use rusqlite::TransactionBehavior;
use servanda_contract::CallId;
use tokio::sync::{mpsc, oneshot};

/// As in the ledger.
const BATCH_MAX: usize = 512;
const QUEUE_MAX: usize = 8_192;
const POSTGRES_WRITERS: usize = 4;
/// About what an effect and its record have together.
const ROW_BYTES: usize = 1_900;

type Done = oneshot::Sender<()>;

/// A way to insert rows.
pub(crate) struct Raw {
    queues: Vec<mpsc::Sender<Done>>,
    next: AtomicUsize,
}

impl Raw {
    /// Inserts a row, and waits until it is durable.
    pub(crate) fn insert(&self) -> impl Future<Output = ()> + Send + 'static {
        let shard = self.next.fetch_add(1, Ordering::Relaxed) % self.queues.len();
        let queue = self.queues.get(shard).cloned().unwrap();
        async move {
            let (done, wait) = oneshot::channel();
            queue.send(done).await.unwrap();
            wait.await.unwrap();
        }
    }

    pub(crate) fn file(path: &Path) -> Self {
        let mut connection = rusqlite::Connection::open(path).unwrap();
        connection.pragma_update(None, "journal_mode", "wal").unwrap();
        connection.pragma_update(None, "synchronous", "full").unwrap();
        connection.execute_batch("create table raw (id text not null primary key, body text not null) strict").unwrap();
        let (queue, mut jobs) = mpsc::channel(QUEUE_MAX);
        std::thread::spawn(move || {
            while let Some(first) = jobs.blocking_recv() {
                let batch = gather(first, &mut jobs);
                let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
                for _ in &batch {
                    let mut insert = transaction.prepare_cached("insert into raw (id, body) values (?1, ?2)").unwrap();
                    insert.execute(row()).unwrap();
                }
                transaction.commit().unwrap();
                batch.into_iter().for_each(|done| done.send(()).unwrap());
            }
        });
        Self { queues: vec![queue], next: AtomicUsize::new(0) }
    }

    pub(crate) async fn server(url: &str) -> Self {
        let mut queues = Vec::new();
        for writer in 0..POSTGRES_WRITERS {
            let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
            tokio::spawn(connection);
            if writer == 0 {
                let table = "drop table if exists durable_raw; \
                             create table durable_raw (id text collate \"C\" primary key, body text not null)";
                client.batch_execute(table).await.unwrap();
            }
            let insert = client
                .prepare("insert into durable_raw (id, body) select * from unnest($1::text[], $2::text[])")
                .await
                .unwrap();
            let (queue, mut jobs) = mpsc::channel(QUEUE_MAX);
            tokio::spawn(async move {
                while let Some(first) = jobs.recv().await {
                    let batch = gather(first, &mut jobs);
                    let (ids, bodies): (Vec<String>, Vec<String>) = batch.iter().map(|_| row()).unzip();
                    client.execute(&insert, &[&ids, &bodies]).await.unwrap();
                    batch.into_iter().for_each(|done| done.send(()).unwrap());
                }
            });
            queues.push(queue);
        }
        Self { queues, next: AtomicUsize::new(0) }
    }
}

/// A key, and text that does not compress well, as keys and digests do not.
fn row() -> (String, String) {
    static TEXT: LazyLock<String> = LazyLock::new(|| (0..2_000).map(|_| CallId::new().to_string()).collect());
    let id = CallId::new().to_string();
    let from = id.bytes().map(usize::from).sum::<usize>() * 7 % (TEXT.len() - ROW_BYTES);
    (id, TEXT.get(from..from + ROW_BYTES).unwrap().to_owned())
}

fn gather(first: Done, jobs: &mut mpsc::Receiver<Done>) -> Vec<Done> {
    let mut batch = vec![first];
    while batch.len() < BATCH_MAX {
        let Ok(next) = jobs.try_recv() else { break };
        batch.push(next);
    }
    batch
}
