//! What recorded calls of the file are found by and counted as: gathered and merged inside the writer's
//! transaction, searched on connections that read.

use rusqlite::{Connection, OptionalExtension as _, Row, Statement, params};
use servanda_contract::CallRecord;
use servanda_effects::call_history::{CallCount, CallMeasure, CountsQuery, HistoryPage, HistoryQuery};

use super::dictionary::SqliteDictionaryLookup;
use crate::{
    LedgerError,
    call_index::{CallIndexBatch, Term, span_start_ms},
    call_search::{
        COUNTS_READ_MAX, CallSearch, IDS_LOOKED_MAX, LookedRecord, SPANS_READ_MAX, SpanRequest, TermWindow,
        UNDER_WAY_LOOKED_MAX, WINDOW_SPANS, page_of_ids, under_way_of,
    },
    codec::{StoredCall, signed, unsigned},
    gathered_index::{GatheredIndex, merge_into},
};

/// Rows that are merged at once. A process puts fewer aside, and few processes write to one file.
const MERGED_ROWS_MAX: u32 = 4_096;

/// Reads records on one connection.
struct RecordReader<'a> {
    connection: &'a Connection,
    lookup: SqliteDictionaryLookup,
}

/// Puts aside what a batch adds, to be merged later.
pub(super) fn gather(transaction: &Connection, gathered: &GatheredIndex) -> Result<(), LedgerError> {
    if gathered.records() > 0 {
        let mut put = transaction.prepare_cached(include_str!("../../sql/sqlite/put_gathered.sql"))?;
        put.execute(params![gathered.bytes()])?;
    }
    Ok(())
}

/// Merges what was put aside, and what the present batch adds, into the index.
pub(super) fn merge(transaction: &Connection, present: &GatheredIndex) -> Result<(), LedgerError> {
    let mut batch = CallIndexBatch::default();
    let mut merged_until: Option<i64> = None;
    let mut list = transaction.prepare_cached(include_str!("../../sql/sqlite/list_gathered.sql"))?;
    let mut rows = list.query(params![MERGED_ROWS_MAX])?;
    while let Some(row) = rows.next()? {
        let (commit_number, body): (i64, Vec<u8>) = (row.get(0)?, row.get(1)?);
        // Records that pages do not find are better than a ledger that nothing can be written to.
        if let Err(error) = merge_into(&mut batch, &body) {
            tracing::error!(commit_number, %error, "a part of the index of calls is lost");
        }
        merged_until = Some(commit_number);
    }
    drop(rows);
    if let Some(merged_until) = merged_until {
        let mut erase = transaction.prepare_cached(include_str!("../../sql/sqlite/erase_gathered.sql"))?;
        erase.execute(params![merged_until])?;
    }
    if let Err(error) = merge_into(&mut batch, present.bytes()) {
        tracing::error!(%error, "a part of the index of calls is lost");
    }
    put(transaction, &batch)
}

/// Whether something was put aside that is not merged.
pub(super) fn has_gathered(connection: &Connection) -> Result<bool, LedgerError> {
    let mut statement = connection.prepare_cached(include_str!("../../sql/sqlite/has_gathered.sql"))?;
    Ok(statement.query_row([], |row| row.get(0))?)
}

fn put(transaction: &Connection, batch: &CallIndexBatch) -> Result<(), LedgerError> {
    let mut put_term = transaction.prepare_cached(include_str!("../../sql/sqlite/put_term.sql"))?;
    for (term, span) in &batch.terms {
        put_term.execute(params![term, span])?;
    }
    let mut add_count = transaction.prepare_cached(include_str!("../../sql/sqlite/add_count.sql"))?;
    for (key, amount) in &batch.counts {
        let (width_ms, start_ms) = (signed(key.width.ms()), signed(key.start_ms));
        let columns = params![key.tenant.as_bytes(), width_ms, start_ms, key.measure.to_string(), signed(*amount)];
        add_count.execute(columns)?;
    }
    Ok(())
}

/// What was put aside and is not merged yet. None if there is more of it than one process leaves.
pub(super) fn pending(connection: &Connection) -> Result<Option<CallIndexBatch>, LedgerError> {
    let mut list = connection.prepare_cached(include_str!("../../sql/sqlite/list_gathered.sql"))?;
    let (mut batch, mut read) = (CallIndexBatch::default(), 0);
    let mut rows = list.query(params![MERGED_ROWS_MAX])?;
    while let Some(row) = rows.next()? {
        let body: Vec<u8> = row.get(1)?;
        // The writer tells what cannot be read.
        let _ = merge_into(&mut batch, &body);
        read += 1;
    }
    Ok((read < MERGED_ROWS_MAX).then_some(batch))
}

/// The oldest span in which there was a call of a term.
pub(super) fn first_span(connection: &Connection, term: Term) -> Result<Option<i64>, LedgerError> {
    let mut first = connection.prepare_cached(include_str!("../../sql/sqlite/first_span.sql"))?;
    Ok(first.query_row(params![term], |row| row.get(0)).optional()?)
}

/// The first tenant from a name on.
pub(super) fn next_tenant(connection: &Connection, from: &[u8]) -> Result<Option<Vec<u8>>, LedgerError> {
    let mut next = connection.prepare_cached(include_str!("../../sql/sqlite/next_tenant.sql"))?;
    Ok(next.query_row(params![from], |row| row.get(0)).optional()?)
}

/// A page of calls that have ended, for a writer that has merged what it put aside.
pub(super) fn list(connection: &Connection, query: &HistoryQuery) -> Result<HistoryPage, LedgerError> {
    list_with(connection, query, &CallIndexBatch::default())
}

/// A page of calls that have ended, found by the index and by what is not merged into it.
pub(super) fn list_with(
    connection: &Connection,
    query: &HistoryQuery,
    pending: &CallIndexBatch,
) -> Result<HistoryPage, LedgerError> {
    let reader = RecordReader::new(connection);
    if let Some(beginning) = query.id_beginning() {
        return Ok(page_of_ids(query, reader.of_ids(beginning, IDS_LOOKED_MAX)?));
    }
    let mut search = CallSearch::new(query);
    // Most spans have one record, so that preparing the statement for each would cost more than reading it.
    let mut of_span = connection.prepare_cached(include_str!("../../sql/sqlite/ended_calls.sql"))?;
    while search.goes_on() {
        let windows = windows(connection, &search, pending)?;
        let Some(request) = search.request(&windows) else { break };
        let spans = spans(connection, &request, pending)?;
        for span in &spans {
            let records = reader.of_span(&mut of_span, *span, &search)?;
            if search.take(records).is_break() {
                break;
            }
        }
        search.advance(&request, &spans);
    }
    Ok(search.finish())
}

/// The calls under way that match.
pub(super) fn under_way(connection: &Connection, query: &HistoryQuery) -> Result<Vec<CallRecord>, LedgerError> {
    let sql = include_str!("../../sql/sqlite/calls_under_way.sql");
    let records = RecordReader::new(connection).records(sql, params![UNDER_WAY_LOOKED_MAX])?;
    Ok(under_way_of(query, records))
}

/// The call of a tenant with that id.
pub(super) fn find(connection: &Connection, tenant: &str, id: &str) -> Result<Option<CallRecord>, LedgerError> {
    let is_it = |record: &CallRecord| record.call_id.as_str() == id && record.caller.tenant == tenant;
    Ok(RecordReader::new(connection).of_ids(id, 1)?.into_iter().find(is_it))
}

/// Counts of a tenant's calls.
pub(super) fn counts(connection: &Connection, query: &CountsQuery) -> Result<Vec<CallCount>, LedgerError> {
    let mut statement = connection.prepare_cached(include_str!("../../sql/sqlite/counts_of_tenant.sql"))?;
    let [width_ms, from_ms, until_ms] = [query.width.ms(), query.from_ms, query.until_ms].map(signed);
    let asked = params![query.tenant.as_bytes(), width_ms, from_ms, until_ms, COUNTS_READ_MAX];
    let rows = statement.query_map(asked, |row| {
        let measure: String = row.get(1)?;
        Ok((unsigned(row.get(0)?), measure, unsigned(row.get(2)?)))
    })?;
    let mut counts = Vec::new();
    for row in rows {
        let (start_ms, measure, amount) = row?;
        // A later version may count more.
        counts.extend(CallMeasure::from_stored(&measure).map(|measure| CallCount { start_ms, measure, amount }));
    }
    Ok(counts)
}

/// A call from its columns: id, record, body.
pub(super) fn stored(row: &Row<'_>) -> rusqlite::Result<StoredCall> {
    Ok(StoredCall { call_id: row.get(0)?, record: row.get(1)?, body: row.get(2)? })
}

fn windows(
    connection: &Connection,
    search: &CallSearch<'_>,
    pending: &CallIndexBatch,
) -> Result<Vec<TermWindow>, LedgerError> {
    let mut statement = connection.prepare_cached(include_str!("../../sql/sqlite/term_window.sql"))?;
    let (from, until) = search.range();
    let mut window = |term: i32| {
        let read = |row: &Row<'_>| Ok(TermWindow { term, count: row.get(0)?, oldest: row.get(1)? });
        let mut window = statement.query_row(params![term, from, until, WINDOW_SPANS], read)?;
        for span in pending.spans(term, from, until) {
            // A window that the index fills is cut off at its oldest span; one that it does not fill is whole.
            if window.count < i64::from(WINDOW_SPANS) - 1 {
                window.count += 1;
            }
            window.oldest = Some(window.oldest.map_or(span, |oldest| oldest.min(span)));
        }
        Ok(window)
    };
    search.terms().iter().map(|term| window(*term)).collect()
}

fn spans(connection: &Connection, request: &SpanRequest, pending: &CallIndexBatch) -> Result<Vec<i64>, LedgerError> {
    let SpanRequest { driver, others: [one, two, three, four, five], from_span, until_span } = request;
    let mut statement = connection.prepare_cached(include_str!("../../sql/sqlite/spans_of_terms.sql"))?;
    let asked = params![driver, from_span, until_span, SPANS_READ_MAX, one, two, three, four, five];
    let mut spans: Vec<i64> = statement.query_map(asked, |row| row.get(0))?.collect::<Result<_, _>>()?;
    // A record's terms are merged together: a record that matches has all of its terms here, or none.
    let has_others = |span: &i64| request.others.iter().flatten().all(|term| pending.terms.contains(&(*term, *span)));
    let most = usize::try_from(SPANS_READ_MAX).unwrap_or(usize::MAX);
    spans.extend(pending.spans(*driver, *from_span, *until_span).filter(has_others).take(most));
    spans.sort_unstable_by_key(|span| std::cmp::Reverse(*span));
    spans.dedup();
    spans.truncate(most);
    Ok(spans)
}

impl<'a> RecordReader<'a> {
    fn new(connection: &'a Connection) -> Self {
        Self { connection, lookup: SqliteDictionaryLookup::default() }
    }

    fn of_ids(&self, beginning: &str, limit: u32) -> Result<Vec<CallRecord>, LedgerError> {
        self.records(include_str!("../../sql/sqlite/calls_of_id.sql"), params![beginning, limit])
    }

    /// The records of a span, newest first, as many as may still be looked at.
    fn of_span(
        &self,
        statement: &mut Statement<'_>,
        span: i64,
        search: &CallSearch<'_>,
    ) -> Result<Vec<LookedRecord>, LedgerError> {
        let (from_ms, end_ms) = (span_start_ms(span), span_start_ms(span + 1));
        let below = search.below();
        let (below_ms, below_id) =
            if below.received_ms < end_ms { (below.received_ms, below.call_id.as_str()) } else { (end_ms, "") };
        let limit = i64::try_from(search.records_left()).unwrap_or(i64::MAX);
        let rows = statement.query_map(params![signed(from_ms), signed(below_ms), below_id, limit], stored)?;
        rows.map(|row| self.lookup.look(self.connection, &row?, search.text())).collect()
    }

    fn records(&self, sql: &str, params: impl rusqlite::Params) -> Result<Vec<CallRecord>, LedgerError> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let rows = statement.query_map(params, stored)?;
        rows.map(|row| self.lookup.decode(self.connection, &row?)).collect()
    }
}
