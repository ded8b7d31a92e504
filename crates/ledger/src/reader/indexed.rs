//! Lists of calls by the index that pages use: which tenants there are, what is asked of each, and when to stop. A command has no tenant, so that
//! it asks for all of them.
//!
//! A file's writer merges what it put aside into the index only when it has a reason to. A reader cannot merge, and looks at both. Records that
//! are older than the index are read by their time. Deliberately not here: the search for one page (`call_search`).

use servanda_effects::call_history::{HistoryPage, HistoryQuery};

use super::{LedgerReader, ReaderBackend, in_file};
use crate::{
    LedgerError,
    call_index::{CallIndexBatch, Term, caller_term, span_start_ms, tenant_term, tool_term},
    call_list::{CallCollector, CallFilter, LOOKED_AT_MAX, ReceivedRange},
    codec::signed,
};

/// Tenants that one list asks for. With more of them, records are read by their time.
const TENANTS_MAX: usize = 64;
/// Records that a page which ended early is taken to have looked at.
const PAGE_LOOKED: u32 = 2_000;

/// Whether the index found the calls.
pub(super) enum IndexedSearch {
    /// None of the conditions has a term, or none of the names that are asked for has: a name may be that of a credential or a contract.
    NotByIndex,
    /// The calls were found.
    Done {
        /// Set if there may be more calls, before this time.
        stopped_at_ms: Option<u64>,
    },
}

impl LedgerReader {
    /// Finds calls by the index, if it has what is asked for.
    pub(super) async fn search(
        &self,
        filter: &CallFilter,
        collected: &mut CallCollector<'_>,
    ) -> Result<IndexedSearch, LedgerError> {
        if !filter.has_terms() {
            return Ok(IndexedSearch::NotByIndex);
        }
        // What was put aside is read before the index: what is merged in between is in both.
        let Some(pending) = self.pending_index()? else { return Ok(IndexedSearch::NotByIndex) };
        let Some(tenants) = self.tenants(&pending).await? else { return Ok(IndexedSearch::NotByIndex) };
        let queries = filter.queries(&tenants);
        if !self.has_names(&queries, &pending).await? {
            return Ok(IndexedSearch::NotByIndex);
        }
        let wanted = collected.wanted();
        let looked_max = LOOKED_AT_MAX / u32::try_from(queries.len()).unwrap_or(u32::MAX).max(1);
        let mut stopped_at_ms = None;
        for query in queries {
            stopped_at_ms = stopped_at_ms.max(self.pages(query, &pending, wanted, looked_max, collected).await?);
        }
        if let Some(stopped_at_ms) = stopped_at_ms {
            collected.leave_out_before(stopped_at_ms);
            return Ok(IndexedSearch::Done { stopped_at_ms: Some(stopped_at_ms) });
        }
        let stopped_at_ms = self.before_the_index(filter, &tenants, &pending, collected).await?;
        Ok(IndexedSearch::Done { stopped_at_ms })
    }

    /// Goes through the pages of a query. Returns where it stopped, if there may be more.
    async fn pages(
        &self,
        query: HistoryQuery,
        pending: &CallIndexBatch,
        wanted: usize,
        looked_max: u32,
        collected: &mut CallCollector<'_>,
    ) -> Result<Option<u64>, LedgerError> {
        let (mut query, mut found, mut looked_at) = (query, 0, 0_u32);
        loop {
            let page = self.history_page(&query, pending).await?;
            found += page.calls.iter().filter(|record| collected.add(record)).count();
            let looked = if page.stopped_early { PAGE_LOOKED } else { u32::try_from(page.calls.len()).unwrap_or(0) };
            looked_at = looked_at.saturating_add(looked);
            let Some(next) = page.next else { return Ok(None) };
            if found >= wanted {
                return Ok(None);
            }
            if looked_at >= looked_max {
                return Ok(Some(next.received_ms));
            }
            query.before = Some(next);
        }
    }

    /// Reads the records that are older than everything in the index: a ledger that was made by an earlier version has some.
    async fn before_the_index(
        &self,
        filter: &CallFilter,
        tenants: &[String],
        pending: &CallIndexBatch,
        collected: &mut CallCollector<'_>,
    ) -> Result<Option<u64>, LedgerError> {
        let mut first = None;
        for tenant in tenants {
            let of_tenant = self.first_span(tenant_term(tenant), pending).await?;
            first = first.into_iter().chain(of_tenant).min();
        }
        let begins_ms = signed(first.map_or(u64::MAX, span_start_ms));
        let ReceivedRange { since_ms, until_ms } = filter.span();
        if collected.wanted() == 0 || begins_ms <= since_ms {
            return Ok(None);
        }
        let older = ReceivedRange { since_ms, until_ms: until_ms.min(begins_ms - 1) };
        self.walk(older, &mut |record| collected.take(&record)).await
    }

    /// Whether the index has the names that are asked for.
    async fn has_names(&self, queries: &[HistoryQuery], pending: &CallIndexBatch) -> Result<bool, LedgerError> {
        let callers = queries.iter().filter_map(|query| {
            query.principal.as_ref().or(query.caller.as_ref()).map(|name| caller_term(&query.tenant, name))
        });
        let tools = queries.iter().filter_map(|query| query.tool.as_ref().map(|tool| tool_term(&query.tenant, tool)));
        let (callers, tools): (Vec<Term>, Vec<Term>) = (callers.collect(), tools.collect());
        Ok(self.has_one(&callers, pending).await? && self.has_one(&tools, pending).await?)
    }

    /// Whether the index has one of these, if there are any.
    async fn has_one(&self, terms: &[Term], pending: &CallIndexBatch) -> Result<bool, LedgerError> {
        for term in terms {
            if self.first_span(*term, pending).await?.is_some() {
                return Ok(true);
            }
        }
        Ok(terms.is_empty())
    }

    /// The tenants that have calls, if there are not too many.
    async fn tenants(&self, pending: &CallIndexBatch) -> Result<Option<Vec<String>>, LedgerError> {
        let mut tenants: Vec<String> = pending.counts.keys().map(|key| key.tenant.clone()).collect();
        let mut from = Vec::new();
        for _ in 0..=TENANTS_MAX {
            let next = match &self.source {
                ReaderBackend::File(file) => in_file(file).next_tenant(&from)?,
                ReaderBackend::Server(server) => server.next_tenant(&from).await?,
            };
            let Some(next) = next else { break };
            tenants.extend(String::from_utf8(next.clone()));
            from = next;
            // The name that follows in the order of bytes.
            from.push(0);
        }
        tenants.sort_unstable();
        tenants.dedup();
        Ok((tenants.len() <= TENANTS_MAX).then_some(tenants))
    }

    fn pending_index(&self) -> Result<Option<CallIndexBatch>, LedgerError> {
        match &self.source {
            ReaderBackend::File(file) => in_file(file).pending_index(),
            // The database's index is written with the records.
            ReaderBackend::Server(_) => Ok(Some(CallIndexBatch::default())),
        }
    }

    async fn history_page(&self, query: &HistoryQuery, pending: &CallIndexBatch) -> Result<HistoryPage, LedgerError> {
        match &self.source {
            ReaderBackend::File(file) => in_file(file).history_page(query, pending),
            ReaderBackend::Server(server) => server.history_page(query).await,
        }
    }

    async fn first_span(&self, term: Term, pending: &CallIndexBatch) -> Result<Option<i64>, LedgerError> {
        let indexed = match &self.source {
            ReaderBackend::File(file) => in_file(file).first_span(term)?,
            ReaderBackend::Server(server) => server.first_span(term).await?,
        };
        Ok(indexed.into_iter().chain(pending.first_span(term)).min())
    }
}
