//! The search for recorded calls in the shared database, and their counts. What is searched is written with the records, by the statement
//! of the batch.

use servanda_contract::CallRecord;
use servanda_effects::call_history::{CallCount, CallMeasure, CountsQuery, HistoryPage, HistoryQuery};
use tokio_postgres::{Client, types::ToSql};

use super::dictionary::PostgresDictionaryLookup;
use crate::{
    LedgerError,
    call_index::Term,
    call_search::{
        COUNTS_READ_MAX, CallSearch, IDS_LOOKED_MAX, LookedRecord, SPANS_READ_MAX, SpanRequest, TermWindow,
        UNDER_WAY_LOOKED_MAX, WINDOW_SPANS, page_of_ids, under_way_of,
    },
    codec::{signed, unsigned},
};

/// A page of calls that have ended.
pub(super) async fn list(client: &Client, query: &HistoryQuery) -> Result<HistoryPage, LedgerError> {
    let lookup = PostgresDictionaryLookup::default();
    if let Some(beginning) = query.id_beginning() {
        return Ok(page_of_ids(query, of_ids(client, &lookup, beginning, IDS_LOOKED_MAX).await?));
    }
    let mut search = CallSearch::new(query);
    while search.goes_on() {
        let windows = windows(client, &search).await?;
        let Some(request) = search.request(&windows) else { break };
        let spans = spans(client, &request).await?;
        if !spans.is_empty() {
            let records = of_spans(client, &lookup, &spans, &search).await?;
            let _ = search.take(records);
        }
        search.advance(&request, &spans);
    }
    Ok(search.finish())
}

/// The oldest span in which there was a call of a term.
pub(super) async fn first_span(client: &Client, term: Term) -> Result<Option<i64>, LedgerError> {
    let first = client.query_opt(include_str!("../../sql/postgres/first_span.sql"), &[&term]).await?;
    Ok(first.map(|row| row.try_get(0)).transpose()?)
}

/// The first tenant from a name on.
pub(super) async fn next_tenant(client: &Client, from: &[u8]) -> Result<Option<Vec<u8>>, LedgerError> {
    let next = client.query_opt(include_str!("../../sql/postgres/next_tenant.sql"), &[&from]).await?;
    Ok(next.map(|row| row.try_get(0)).transpose()?)
}

/// The calls under way that match.
pub(super) async fn under_way(client: &Client, query: &HistoryQuery) -> Result<Vec<CallRecord>, LedgerError> {
    let sql = include_str!("../../sql/postgres/calls_under_way.sql");
    let rows = client.query(sql, &[&i64::from(UNDER_WAY_LOOKED_MAX)]).await?;
    Ok(under_way_of(query, PostgresDictionaryLookup::default().decode(client, &rows).await?))
}

/// The call of a tenant with that id.
pub(super) async fn find(client: &Client, tenant: &str, id: &str) -> Result<Option<CallRecord>, LedgerError> {
    let found = of_ids(client, &PostgresDictionaryLookup::default(), id, 1).await?;
    Ok(found.into_iter().find(|record| record.call_id.as_str() == id && record.caller.tenant == tenant))
}

/// Counts of a tenant's calls.
pub(super) async fn counts(client: &Client, query: &CountsQuery) -> Result<Vec<CallCount>, LedgerError> {
    let [width_ms, from_ms, until_ms] = [query.width.ms(), query.from_ms, query.until_ms].map(signed);
    let (tenant, limit) = (query.tenant.as_bytes(), i64::from(COUNTS_READ_MAX));
    let asked: [&(dyn ToSql + Sync); 5] = [&tenant, &width_ms, &from_ms, &until_ms, &limit];
    let mut counts = Vec::new();
    for row in client.query(include_str!("../../sql/postgres/counts_of_tenant.sql"), &asked).await? {
        let (start_ms, amount) = (unsigned(row.try_get(0)?), unsigned(row.try_get(2)?));
        // A later version may count more.
        let measure = CallMeasure::from_stored(row.try_get(1)?);
        counts.extend(measure.map(|measure| CallCount { start_ms, measure, amount }));
    }
    Ok(counts)
}

async fn windows(client: &Client, search: &CallSearch<'_>) -> Result<Vec<TermWindow>, LedgerError> {
    let (from, until) = search.range();
    let mut windows = Vec::new();
    for term in search.terms() {
        let asked: [&(dyn ToSql + Sync); 4] = [term, &from, &until, &i64::from(WINDOW_SPANS)];
        let row = client.query_one(include_str!("../../sql/postgres/term_window.sql"), &asked).await?;
        windows.push(TermWindow { term: *term, count: row.try_get(0)?, oldest: row.try_get(1)? });
    }
    Ok(windows)
}

async fn spans(client: &Client, request: &SpanRequest) -> Result<Vec<i64>, LedgerError> {
    let SpanRequest { driver, others: [one, two, three, four, five], from_span, until_span } = request;
    let limit = i64::from(SPANS_READ_MAX);
    let asked: [&(dyn ToSql + Sync); 9] = [driver, from_span, until_span, &limit, one, two, three, four, five];
    let rows = client.query(include_str!("../../sql/postgres/spans_of_terms.sql"), &asked).await?;
    rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
}

/// The records of some spans, newest first, as many as may still be looked at.
async fn of_spans(
    client: &Client,
    lookup: &PostgresDictionaryLookup,
    spans: &[i64],
    search: &CallSearch<'_>,
) -> Result<Vec<LookedRecord>, LedgerError> {
    let below_ms = signed(search.below().received_ms);
    // Text here cannot hold this character, and no id has it.
    let below_id = search.below().call_id.replace('\0', "\u{1}");
    let limit = i64::try_from(search.records_left()).unwrap_or(i64::MAX);
    let asked: [&(dyn ToSql + Sync); 4] = [&spans, &below_ms, &below_id, &limit];
    let rows = client.query(include_str!("../../sql/postgres/calls_of_spans.sql"), &asked).await?;
    lookup.look(client, &rows, search.text()).await
}

async fn of_ids(
    client: &Client,
    lookup: &PostgresDictionaryLookup,
    beginning: &str,
    limit: u32,
) -> Result<Vec<CallRecord>, LedgerError> {
    if beginning.contains('\0') {
        return Ok(Vec::new());
    }
    let rows =
        client.query(include_str!("../../sql/postgres/calls_of_id.sql"), &[&beginning, &i64::from(limit)]).await?;
    lookup.decode(client, &rows).await
}
