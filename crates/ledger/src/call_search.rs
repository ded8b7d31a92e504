//! How a page of calls is searched, for every store alike: which term drives the search, where to look next, and when to stop. The stores
//! read rows around it.
//!
//! The term with the fewest spans drives. Its spans are compared with the other terms' inside the store, and the records of the spans that
//! are left are compared with the query. Both are bounded, so that a page costs about the same whatever is asked.

use std::ops::ControlFlow;

use servanda_contract::CallRecord;
use servanda_effects::call_history::{HistoryPage, HistoryPosition, HistoryQuery};

use crate::call_index::{Term, span_of, span_start_ms, terms_of_query};

/// Records that are looked at for one page: records of calls that were received together with one that is found by its terms.
const RECORDS_LOOKED_MAX: usize = 2_000;
/// Records that are looked at for one page if a text is looked for, which has no term.
pub(crate) const TEXT_RECORDS_LOOKED_MAX: usize = 500;
/// Spans of the driving term that are compared with the other terms at once.
pub(crate) const WINDOW_SPANS: u32 = 20_000;
/// Windows that are looked at for one page.
const WINDOWS_MAX: u32 = 2;
/// Spans whose records are read at once.
pub(crate) const SPANS_READ_MAX: u32 = 64;
/// Terms beside the driving one: as many as a query can have.
pub(crate) const OTHER_TERMS_MAX: usize = 5;
/// Calls under way that are looked at.
pub(crate) const UNDER_WAY_LOOKED_MAX: u32 = 500;
/// Calls whose ids begin with a text that are looked at.
pub(crate) const IDS_LOOKED_MAX: u32 = 200;
/// Counts that are read at once.
pub(crate) const COUNTS_READ_MAX: u32 = 50_000;

/// The search for one page.
#[derive(Debug)]
pub(crate) struct CallSearch<'a> {
    query: &'a HistoryQuery,
    terms: Vec<Term>,
    text: Option<String>,
    from_span: i64,
    /// Spans up to this one are still to be looked at.
    until_span: i64,
    /// Calls before this are still to be looked at.
    below: HistoryPosition,
    found: Vec<CallRecord>,
    looked_at: usize,
    windows: u32,
    end: Option<SearchEnd>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SearchEnd {
    /// The page is full, or there are no more calls.
    Complete,
    /// It looked at as much as it may.
    Early,
}

/// The newest spans of a term within the range that is left.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TermWindow {
    pub(crate) term: Term,
    /// How many there are, up to [`WINDOW_SPANS`].
    pub(crate) count: i64,
    /// The oldest of them.
    pub(crate) oldest: Option<i64>,
}

/// A record that was looked at.
#[derive(Debug)]
pub(crate) enum LookedRecord {
    /// It may match.
    Decoded(Box<CallRecord>),
    /// Its call has this place, and it does not have the text that is looked for.
    Passed(HistoryPosition),
}

/// Which spans to read next, newest first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SpanRequest {
    pub(crate) driver: Term,
    pub(crate) others: [Option<Term>; OTHER_TERMS_MAX],
    pub(crate) from_span: i64,
    pub(crate) until_span: i64,
}

impl<'a> CallSearch<'a> {
    pub(crate) fn new(query: &'a HistoryQuery) -> Self {
        let newest_ms = query.until_ms.unwrap_or(u64::MAX);
        let begin = HistoryPosition { received_ms: newest_ms.saturating_add(1), call_id: String::new() };
        let below = match &query.before {
            Some(before) if *before < begin => before.clone(),
            _ => begin,
        };
        Self {
            query,
            terms: terms_of_query(query),
            text: query.searched_text(),
            from_span: query.since_ms.map_or(0, span_of),
            until_span: span_of(below.received_ms),
            below,
            found: Vec::new(),
            looked_at: 0,
            windows: 0,
            end: None,
        }
    }

    /// Whether there is something left to look at.
    pub(crate) fn goes_on(&self) -> bool {
        self.end.is_none() && self.from_span <= self.until_span
    }

    /// The terms whose windows decide where to look next.
    pub(crate) fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// The range of spans that is left, both ends included.
    pub(crate) const fn range(&self) -> (i64, i64) {
        (self.from_span, self.until_span)
    }

    /// The text that a record must have, in lower case.
    pub(crate) fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// Calls before this are looked at next.
    pub(crate) const fn below(&self) -> &HistoryPosition {
        &self.below
    }

    /// How many more records may be looked at.
    pub(crate) fn records_left(&self) -> usize {
        self.looked_max().saturating_sub(self.looked_at)
    }

    fn looked_max(&self) -> usize {
        if self.text.is_some() { TEXT_RECORDS_LOOKED_MAX } else { RECORDS_LOOKED_MAX }
    }

    /// What to read next. None if a term has no spans left: then nothing matches.
    pub(crate) fn request(&mut self, windows: &[TermWindow]) -> Option<SpanRequest> {
        let driver = windows.iter().min_by_key(|window| window.count)?;
        let Some(oldest) = driver.oldest else {
            self.end = Some(SearchEnd::Complete);
            return None;
        };
        let mut others = self.terms.iter().copied().filter(|term| *term != driver.term);
        let is_whole = driver.count < i64::from(WINDOW_SPANS);
        Some(SpanRequest {
            driver: driver.term,
            others: std::array::from_fn(|_| others.next()),
            from_span: if is_whole { self.from_span } else { oldest },
            until_span: self.until_span,
        })
    }

    /// Looks at records, which come newest first; breaks when the search is over.
    pub(crate) fn take(&mut self, records: Vec<LookedRecord>) -> ControlFlow<()> {
        for looked in records {
            self.looked_at += 1;
            match looked {
                LookedRecord::Passed(place) => self.below = place,
                LookedRecord::Decoded(record) => {
                    self.below = HistoryPosition::of(&record);
                    if self.query.is_on_page(&record) {
                        self.found.push(*record);
                    }
                }
            }
            if self.found.len() > self.query.page_max() {
                self.end = Some(SearchEnd::Complete);
                return ControlFlow::Break(());
            }
            if self.looked_at >= self.looked_max() {
                self.end = Some(SearchEnd::Early);
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    /// Moves on after the records of some spans.
    pub(crate) fn advance(&mut self, request: &SpanRequest, spans: &[i64]) {
        if self.end.is_some() {
            return;
        }
        let is_full = u32::try_from(spans.len()).unwrap_or(u32::MAX) >= SPANS_READ_MAX;
        let looked_until = match spans.last() {
            Some(last) if is_full => *last,
            _ => {
                self.windows += 1;
                request.from_span
            }
        };
        self.until_span = looked_until - 1;
        self.below = HistoryPosition { received_ms: span_start_ms(looked_until), call_id: String::new() };
        if self.until_span < self.from_span {
            self.end = Some(SearchEnd::Complete);
        } else if self.windows >= WINDOWS_MAX {
            self.end = Some(SearchEnd::Early);
        }
    }

    /// The page.
    pub(crate) fn finish(self) -> HistoryPage {
        let Self { query, found: mut calls, below, end, .. } = self;
        let is_full = calls.len() > query.page_max();
        calls.truncate(query.page_max());
        let stopped_early = !is_full && end == Some(SearchEnd::Early);
        let last = calls.last().filter(|_| is_full).map(HistoryPosition::of);
        let next = if stopped_early { Some(below) } else { last };
        HistoryPage { calls, next, stopped_early }
    }
}

/// The page of calls that were found by the beginning of their ids: all of them, newest first.
pub(crate) fn page_of_ids(query: &HistoryQuery, records: Vec<CallRecord>) -> HistoryPage {
    let mut calls: Vec<CallRecord> = records.into_iter().filter(|record| query.is_on_page(record)).collect();
    calls.sort_by_key(|record| std::cmp::Reverse(HistoryPosition::of(record)));
    let next = calls.get(query.page_max()).and(calls.get(query.page_max() - 1)).map(HistoryPosition::of);
    calls.truncate(query.page_max());
    HistoryPage { calls, next, stopped_early: false }
}

/// The calls under way that match, newest first.
pub(crate) fn under_way_of(query: &HistoryQuery, records: Vec<CallRecord>) -> Vec<CallRecord> {
    let mut calls: Vec<CallRecord> = records.into_iter().filter(|record| query.matches(record)).collect();
    calls.sort_by_key(|record| std::cmp::Reverse(HistoryPosition::of(record)));
    calls.truncate(query.page_max());
    calls
}

#[cfg(test)]
mod tests {
    use servanda_contract::record::Outcome;
    use servanda_effects::call_history::HistoryQuery;

    use super::{CallSearch, LookedRecord, TermWindow, WINDOW_SPANS, WINDOWS_MAX};
    use crate::{call_index::span_start_ms, tests::samples::record};

    fn query() -> HistoryQuery {
        HistoryQuery {
            tenant: "local".to_owned(),
            tool: Some("pay".to_owned()),
            outcome: Some(Outcome::Refused),
            until_ms: Some(1_800_000_000_000),
            limit: 50,
            ..HistoryQuery::default()
        }
    }

    fn windows(search: &CallSearch<'_>, counts: [i64; 2]) -> Vec<TermWindow> {
        let (_, until) = search.range();
        let window = |(term, count): (&i32, i64)| TermWindow {
            term: *term,
            count,
            oldest: (count > 0).then_some(until - count),
        };
        search.terms().iter().zip(counts).map(window).collect()
    }

    #[test]
    fn the_rarest_term_drives_and_its_whole_range_is_searched() {
        let query = query();
        let mut search = CallSearch::new(&query);
        let windows = windows(&search, [i64::from(WINDOW_SPANS), 5]);
        let request = search.request(&windows).unwrap();
        assert_eq!((request.driver, request.others[0]), (search.terms()[1], Some(search.terms()[0])));
        assert_eq!((request.from_span, request.until_span), search.range());
        search.advance(&request, &[]);
        assert!(!search.goes_on());
        let page = search.finish();
        assert_eq!((page.next, page.stopped_early), (None, false));
    }

    #[test]
    fn a_term_that_no_call_has_ends_the_search() {
        let query = query();
        let mut search = CallSearch::new(&query);
        let windows = windows(&search, [i64::from(WINDOW_SPANS), 0]);
        assert!(search.request(&windows).is_none() && !search.goes_on());
        assert_eq!(search.finish().next, None);
    }

    #[test]
    fn a_search_whose_terms_never_meet_stops_and_says_where() {
        let query = query();
        let mut search = CallSearch::new(&query);
        let mut oldest = 0;
        for _ in 0..WINDOWS_MAX {
            assert!(search.goes_on());
            let windows = windows(&search, [i64::from(WINDOW_SPANS); 2]);
            let request = search.request(&windows).unwrap();
            oldest = request.until_span - i64::from(WINDOW_SPANS);
            assert_eq!(request.from_span, oldest);
            search.advance(&request, &[]);
        }
        assert!(!search.goes_on());
        let page = search.finish();
        assert!(page.stopped_early);
        assert_eq!(page.next.map(|next| next.received_ms), Some(span_start_ms(oldest)), "nothing is left out");
    }

    #[test]
    fn a_record_that_shares_a_term_by_chance_is_not_listed() {
        let query = query();
        let mut search = CallSearch::new(&query);
        let other = record("call_1", Outcome::Refused, 1);
        assert!(search.take(vec![LookedRecord::Decoded(Box::new(other))]).is_continue());
        assert!(search.finish().calls.is_empty());
    }
}
