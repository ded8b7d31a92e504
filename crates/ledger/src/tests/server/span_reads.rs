//! What a page of calls reads of the database, counted in pages of it: about as much for old calls as for new ones.

use serde_json::Value;
use tokio_postgres::SimpleQueryMessage;

use super::super::cluster::Cluster;
use crate::Ledger;

/// Calls in the table, one in each span.
const CALLS: i64 = 40_000;
const SPANS_READ: i64 = 8;
/// The way down an index of this size, the leaf, its neighbour and the row.
const PAGES_OF_SPAN_MAX: i64 = 6;

/// The pages that the statement reads for some spans, for a page of calls that begins at the newest one.
async fn pages_read(client: &tokio_postgres::Client, spans: std::ops::Range<i64>) -> i64 {
    let spans: Vec<String> = spans.map(|span| span.to_string()).collect();
    let asked = format!(
        "explain (analyze, buffers, format json) execute of_spans(array[{}], {}, '', 2000)",
        spans.join(","),
        i64::MAX
    );
    let rows = client.simple_query(&asked).await.unwrap();
    let row = rows.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    let explained: Value = serde_json::from_str(row.unwrap().get(0).unwrap()).unwrap();
    let plan = &explained[0]["Plan"];
    assert_eq!(plan["Actual Rows"].as_i64(), Some(SPANS_READ), "each span has its call: {plan}");
    plan["Shared Hit Blocks"].as_i64().unwrap() + plan["Shared Read Blocks"].as_i64().unwrap()
}

pub(super) async fn calls_of_the_oldest_spans_are_read_without_the_calls_since(cluster: &Cluster) {
    let url = cluster.schema().await;
    Ledger::connect(&url).await.unwrap().close().await;
    let client = crate::postgres::client(&url).await.unwrap();
    let statement = include_str!("../../../sql/postgres/calls_of_spans.sql");
    let fill = format!(
        "insert into calls (call_id, outcome, received_ms, body)
            select 'call_' || lpad(n::text, 9, '0'), 'completed', n * 16 + 3, '' from generate_series(0, {CALLS} - 1) as n;
         prepare of_spans as {statement};"
    );
    client.batch_execute(&fill).await.unwrap();
    for statistics in ["select 1", "analyze calls", "vacuum calls"] {
        client.batch_execute(statistics).await.unwrap();
        for first in [0, CALLS / 2, CALLS - SPANS_READ] {
            let pages = pages_read(&client, first..first + SPANS_READ).await;
            assert!(
                pages <= SPANS_READ * PAGES_OF_SPAN_MAX,
                "{pages} pages for spans from {first} after `{statistics}`"
            );
        }
    }
}
