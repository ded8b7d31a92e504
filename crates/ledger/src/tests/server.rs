//! The suite against PostgreSQL, and what only a server has: lost connections, standbys, gateways that start at
//! the same time. One test function, because a cluster costs more than a case.

mod known;
mod span_reads;

use servanda_contract::record::Outcome;
use servanda_effects::{
    Journal as _,
    effect::{DispatchEnd, EffectReply, EffectStore as _, EffectTarget, OwnerId},
};
use tokio::task::JoinSet;

use super::{
    audit_log, budgets, call_history, calls,
    cluster::Cluster,
    dispatches, effects, grants,
    kept::{Kept, Place},
    leftovers, liveness, open, retention,
    samples::{answer, begin, begun, key, mine, record, settled},
    ticket_time, tickets, turns,
};
use crate::{Ledger, LedgerError, LedgerReader};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_suite_against_postgresql() {
    let Some(cluster) = Cluster::start() else { return };
    let cases =
        effects::CASES.iter().chain(turns::CASES).chain(calls::CASES).chain(open::CASES).chain(retention::CASES);
    let cases = cases.chain(call_history::CASES).chain(liveness::CASES).chain(liveness::DURABLE_CASES);
    let cases = cases
        .chain(tickets::CASES)
        .chain(dispatches::CASES)
        .chain(grants::CASES)
        .chain(ticket_time::DURABLE_CASES)
        .chain(audit_log::CASES);
    for (name, case) in cases.chain(budgets::CASES).chain(leftovers::CASES).chain(leftovers::DURABLE_CASES) {
        println!("{name}");
        case(Kept::in_server(cluster.schema().await).await).await;
    }
    println!("of its own");
    gateways_that_start_at_once(&cluster).await;
    a_newer_database_is_refused(&cluster).await;
    a_database_of_any_version_since_the_third_comes_over(&cluster).await;
    connections_come_back(&cluster).await;
    budgets_survive_lost_connections(&cluster).await;
    commits_are_synchronous(&cluster).await;
    a_crash_loses_nothing_acknowledged(&cluster).await;
    records_wait_for_a_database_that_is_away(&cluster).await;
    known::a_database_that_is_not_the_known_one_is_refused(&cluster).await;
    known::a_database_that_was_put_back_under_a_running_gateway_is_noticed(&cluster).await;
    known::a_ledger_that_moves_on_meanwhile_is_not_behind(&cluster).await;
    span_reads::calls_of_the_oldest_spans_are_read_without_the_calls_since(&cluster).await;
    standbys_are_noticed(&cluster).await;
}

async fn gateways_that_start_at_once(cluster: &Cluster) {
    let url = cluster.schema().await;
    let mut tasks = JoinSet::new();
    for _ in 0..6 {
        let url = url.clone();
        tasks.spawn(async move { Ledger::connect(&url).await.unwrap() });
    }
    for ledger in tasks.join_all().await {
        ledger.close().await;
    }
}

async fn a_newer_database_is_refused(cluster: &Cluster) {
    let url = cluster.schema().await;
    Ledger::connect(&url).await.unwrap().close().await;
    let schema = url.rsplit("%3D").next().unwrap();
    cluster.sql(&format!("insert into {schema}.servanda_schema (version) values (99)")).await;
    let error = Ledger::connect(&url).await.unwrap_err();
    assert!(matches!(error, LedgerError::Newer { found: 99, known: 15 }), "{error}");
    assert!(LedgerReader::connect(&url).await.is_err());
}

/// As in a file: migrations only add.
async fn a_database_of_any_version_since_the_third_comes_over(cluster: &Cluster) {
    let migrations = crate::postgres::migrations();
    for version in 3..migrations.len() {
        println!("of version {version}");
        let url = cluster.schema().await;
        let schema = url.rsplit("%3D").next().unwrap();
        let open::Left { effect_id, body, record } = open::left_behind();
        let digest = hex(&crate::codec::key_digest(&key("k")));
        let (third, later) = (migrations[..3].join(";\n"), migrations[3..version].join(";\n"));
        let sql = format!(
            "set search_path = {schema}; {third};
            create table servanda_schema (version integer primary key, applied_at timestamptz not null default now());
            insert into effects values ('{effect_id}', '\\x{digest}', 'acme', 'ada', 'bank.pay', 1, 'key:k', '\\x00', 'dispatching',
                1, 1, 'own_a', true, 1, 1, '{body}', '{{}}', null);
            insert into calls values ('call_k', 'default', 'local', 'bank__pay', 'dispatching', null, 1, null, '{record}');
            {later};
            insert into servanda_schema (version) select generate_series(1, {version})"
        );
        cluster.sql(&sql).await;
        open::comes_over(Kept::in_server(url).await, &effect_id).await;
    }
}

fn hex(digest: &servanda_contract::Digest) -> String {
    use std::fmt::Write as _;
    digest.as_bytes().iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

/// The outcome of a change that was under way is unknown to its caller, who looks it up; afterwards everything
/// works again.
async fn connections_come_back(cluster: &Cluster) {
    let kept = Kept::in_server(cluster.schema().await).await;
    let mut tasks = JoinSet::new();
    for number in 0..200 {
        let effects = kept.effects.clone();
        tasks.spawn(async move {
            let client_key = format!("k{number}");
            let began = effects.apply(begun(begin(&client_key))).await;
            match began {
                Ok(applied) => assert!(matches!(applied.reply, EffectReply::Mine(_)), "{:?}", applied.reply),
                // The change was made or it was not; the caller reads before it sends bytes.
                Err(_) => drop(effects.find(EffectTarget::Key(key(&client_key))).await),
            }
        });
        if number % 50 == 25 {
            let kill = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'servanda'";
            cluster.sql(kill).await;
        }
    }
    tasks.join_all().await;
    for number in 0..8 {
        kept.ledger()
            .record_finished(record(&format!("call_after_{number}"), Outcome::Refused, 1), None, true)
            .await
            .unwrap();
    }
}

async fn budgets_survive_lost_connections(cluster: &Cluster) {
    let kept = Kept::in_server(cluster.schema().await).await;
    let kill = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'servanda'";
    budgets::connections_come_back(kept, async || cluster.sql(kill).await).await;
}

/// A role is set not to wait for the disk, and our connections override that.
async fn commits_are_synchronous(cluster: &Cluster) {
    cluster.sql("alter role servanda set synchronous_commit = off").await;
    let url = cluster.schema().await;
    assert_eq!(crate::postgres::setting(&url, "synchronous_commit").await.unwrap(), "on");
    cluster.sql("alter role servanda reset synchronous_commit").await;
    assert_eq!(crate::postgres::setting(&url, "transaction_isolation").await.unwrap(), "read committed");
}

async fn a_crash_loses_nothing_acknowledged(cluster: &Cluster) {
    let kept = Kept::in_server(cluster.schema().await).await;
    let claim = mine(kept.effects.apply(begun(begin("k"))).await.unwrap().reply);
    cluster.crash("primary");
    let down = kept.effects.apply(settled(&claim, DispatchEnd::Completed(answer("x")))).await;
    assert!(down.is_err(), "without its database it fails closed");
    cluster.start_server("primary");
    let mut attempts = 0;
    let settled = loop {
        match kept.effects.apply(settled(&claim, DispatchEnd::Completed(answer("x")))).await {
            Ok(applied) => break applied.reply,
            Err(error) => assert!(attempts < 100, "{error}"),
        }
        attempts += 1;
    };
    assert_eq!(settled, EffectReply::Settled);
    assert_eq!(kept.effects.apply(begun(begin("k"))).await.unwrap().reply, EffectReply::Replay(answer("x")));
}

async fn records_wait_for_a_database_that_is_away(cluster: &Cluster) {
    let kept = Kept::in_server(cluster.schema().await).await;
    let ledger = kept.ledger();
    cluster.crash("primary");
    for number in 0..1_300 {
        let read = record(&format!("call_{number:04}"), Outcome::Completed, number);
        ledger.record_finished(read, None, false).await.unwrap();
    }
    let durable = record("call_durable", Outcome::Completed, 2_000);
    assert!(ledger.record_finished(durable, None, true).await.is_err(), "it is not durable yet");
    cluster.start_server("primary");
    let mut attempts = 0;
    while ledger.record_finished(record("call_after", Outcome::Completed, 3_000), None, true).await.is_err() {
        attempts += 1;
        assert!(attempts < 100, "it never came back");
    }
    // The other writer has records of its own, and closing waits for both.
    ledger.close().await;
    assert_eq!(ledger.lost_count(), 0);
    let Place::Server(_, url) = &kept.place else { panic!("it is a server") };
    let client = crate::postgres::client(url).await.unwrap();
    let number = async |sql: &str| client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0);
    assert_eq!(number("select count(*) from calls").await, 1_302, "every record is there, once");
    let leaves = number("select coalesce(sum(count), 0)::bigint from log_outbox").await;
    assert_eq!(leaves, 1_302, "and so is its leaf");
}

/// I8 and I9.
async fn standbys_are_noticed(cluster: &Cluster) {
    let owner = OwnerId::new();
    let ledger = Ledger::connect(&cluster.schema().await).await.unwrap();
    let reason = async || {
        ledger.heartbeat(owner.clone()).await.unwrap();
        ledger.may_lose_commits().unwrap_or_default()
    };
    assert!(ledger.may_lose_commits().unwrap().contains("fsync"));
    cluster.sql("alter system set fsync = on").await;
    cluster.sql("alter system set wal_level = replica").await;
    cluster.sql("select pg_reload_conf()").await;
    eventually("nothing", reason, str::is_empty).await;
    cluster.sql("select pg_create_physical_replication_slot('gone')").await;
    assert!(reason().await.contains("gone"));
    cluster.sql("select pg_drop_replication_slot('gone')").await;
    assert_eq!(reason().await, "");
    cluster.start_standby();
    eventually("walreceiver", reason, |reason| reason.contains("walreceiver")).await;
    cluster.sql("alter system set synchronous_standby_names = 'walreceiver'").await;
    cluster.sql("select pg_reload_conf()").await;
    eventually("nothing", reason, str::is_empty).await;
    cluster.sql("alter system set synchronous_standby_names = ''").await;
    cluster.sql("select pg_reload_conf()").await;
    eventually("walreceiver", reason, |reason| reason.contains("walreceiver")).await;
    let refused = Ledger::connect(&cluster.url("standby")).await.unwrap_err();
    assert!(matches!(&refused, LedgerError::Connect { .. }), "{refused}");
}

/// Settings reach a server's processes only when they check; each check here is a round trip.
async fn eventually(what: &str, look: impl AsyncFn() -> String, holds: impl Fn(&str) -> bool) {
    let mut found = String::new();
    for _ in 0..2_000 {
        found = look().await;
        if holds(&found) {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("the reason never became {what}: {found:?}");
}

#[tokio::test]
async fn no_error_has_the_password() {
    for url in ["postgres://u:hunter2@127.0.0.1:1/x", "postgres://u:hunter2@127.0.0.1:1/x?sslmode=require"] {
        let error = Ledger::connect(url).await.unwrap_err();
        assert!(matches!(error, LedgerError::Connect { .. } | LedgerError::Tls { .. }), "{error}");
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
    }
}
