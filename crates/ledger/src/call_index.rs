//! What the recorded calls of a batch are found by and counted as, for every store alike: terms, the spans of time in which they occur, and
//! sums. PostgreSQL writes them in the transaction that writes the records; the file's writer gathers them first (`gathered_index`).
//!
//! A term is a short hash of a tenant, a kind and a value, so that its row has a fixed, small size whatever clients choose as names. Two
//! values may share a term, by chance or because a client chose them so; every record that is found is compared with what was asked for. So a
//! quick hash is enough. It is stored and never changes. Deliberately not here: the search
//! (`call_search`).

use std::collections::{BTreeMap, BTreeSet};

use servanda_contract::{CallRecord, TaxonomyClass};
use servanda_effects::call_history::{CallCountKey, HistoryQuery, counted};

/// A span has 2 to the power of this milliseconds. Calls that are received together share their rows.
const SPAN_BITS: u32 = 4;
/// Agents of one call that it is found by.
const ACTORS_MAX: usize = 8;

/// One thing that calls are found by.
pub(crate) type Term = i32;

/// What a batch adds.
#[derive(Debug, Default)]
pub(crate) struct CallIndexBatch {
    /// Terms, and the spans in which they occur.
    pub(crate) terms: BTreeSet<(Term, i64)>,
    /// What is added to which sum.
    pub(crate) counts: BTreeMap<CallCountKey, u64>,
}

impl CallIndexBatch {
    /// Adds a record.
    pub(crate) fn add(&mut self, record: &CallRecord) {
        let span = span_of(record.received_at.unix_ms());
        each_term(record, |term| {
            self.terms.insert((term, span));
        });
        for (key, amount) in counted(record) {
            let sum = self.counts.entry(key).or_default();
            *sum = sum.saturating_add(amount);
        }
    }
}

impl CallIndexBatch {
    /// The spans of a term within a range, both ends included, newest first.
    pub(crate) fn spans(&self, term: Term, from_span: i64, until_span: i64) -> impl Iterator<Item = i64> {
        // A range that ends before it begins has nothing in it; the set would panic.
        let until_span = until_span.max(from_span.saturating_sub(1));
        let begin = (term, from_span);
        let within = (until_span >= from_span).then(|| self.terms.range(begin..=(term, until_span)));
        within.into_iter().flatten().rev().map(|(_, span)| *span)
    }

    /// The oldest span of a term.
    pub(crate) fn first_span(&self, term: Term) -> Option<i64> {
        self.terms.range((term, i64::MIN)..=(term, i64::MAX)).next().map(|(_, span)| *span)
    }
}

/// The span that a moment falls into.
pub(crate) fn span_of(at_ms: u64) -> i64 {
    i64::try_from(at_ms >> SPAN_BITS).unwrap_or(i64::MAX)
}

/// When a span begins.
pub(crate) fn span_start_ms(span: i64) -> u64 {
    u64::try_from(span).unwrap_or_default() << SPAN_BITS
}

/// Sees what a record is found by.
pub(crate) fn each_term(record: &CallRecord, mut see: impl FnMut(Term)) {
    let caller = &record.caller;
    let tenant = TermHash::of_tenant(&caller.tenant);
    see(tenant.term("tenant", ""));
    see(tenant.term("caller", &caller.principal));
    see(tenant.term("tool", &record.tool));
    see(tenant.term("outcome", record.outcome.name()));
    for actor in caller.actors.iter().take(ACTORS_MAX) {
        see(tenant.term("caller", &actor.name));
    }
    if let Some(class) = record.class.filter(|class| has_term(*class)) {
        see(tenant.term("class", class.name()));
    }
    if let Some(gate) = record.refused_at() {
        see(tenant.term("gate", &gate.to_string()));
    }
}

/// What every call that a query matches is found by.
pub(crate) fn terms_of_query(query: &HistoryQuery) -> Vec<Term> {
    let tenant = TermHash::of_tenant(&query.tenant);
    let term = |kind: &str, value: &str| tenant.term(kind, value);
    let mut terms: BTreeSet<Term> = BTreeSet::new();
    terms.extend(query.principal.iter().chain(&query.caller).map(|name| term("caller", name)));
    terms.extend(query.tool.iter().map(|tool| term("tool", tool)));
    terms.extend(query.outcome.map(|outcome| term("outcome", outcome.name())));
    terms.extend(query.class.filter(|class| has_term(*class)).map(|class| term("class", class.name())));
    terms.extend(query.gate.map(|gate| term("gate", &gate.to_string())));
    if terms.is_empty() {
        terms.insert(term("tenant", ""));
    }
    terms.into_iter().collect()
}

/// What calls of a caller are found by: a user, or an agent that acted.
pub(crate) fn caller_term(tenant: &str, name: &str) -> Term {
    TermHash::of_tenant(tenant).term("caller", name)
}

/// What calls of a tool are found by.
pub(crate) fn tool_term(tenant: &str, tool: &str) -> Term {
    TermHash::of_tenant(tenant).term("tool", tool)
}

/// What every call of a tenant is found by.
pub(crate) fn tenant_term(tenant: &str) -> Term {
    TermHash::of_tenant(tenant).term("tenant", "")
}

/// Most calls succeed, and their outcome says so already.
pub(crate) fn has_term(class: TaxonomyClass) -> bool {
    class != TaxonomyClass::Success
}

/// FNV-1a over the parts of a term, each after its length, folded to the size of a term.
#[derive(Debug, Clone, Copy)]
struct TermHash(u64);

impl TermHash {
    /// A tenant, which all terms of a record begin with.
    fn of_tenant(tenant: &str) -> Self {
        Self(0xCBF2_9CE4_8422_2325).with(tenant)
    }

    fn term(self, kind: &str, value: &str) -> Term {
        let Self(hash) = self.with(kind).with(value);
        let [.., first, second, third, fourth] = (hash ^ hash >> 32).to_be_bytes();
        Term::from_be_bytes([first, second, third, fourth])
    }

    fn with(self, part: &str) -> Self {
        let length = u64::try_from(part.len()).unwrap_or(u64::MAX);
        self.with_bytes(&length.to_be_bytes()).with_bytes(part.as_bytes())
    }

    fn with_bytes(self, bytes: &[u8]) -> Self {
        let Self(mut hash) = self;
        for byte in bytes {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
        }
        Self(hash)
    }
}

#[cfg(test)]
mod tests {
    use servanda_contract::{TaxonomyClass, record::Outcome};
    use servanda_effects::call_history::HistoryQuery;

    use super::{CallIndexBatch, TermHash, each_term, span_of, span_start_ms, terms_of_query};
    use crate::tests::samples::{read_record, record};

    #[test]
    fn whatever_a_query_matches_has_every_term_of_it() {
        let record = read_record(1);
        let query = HistoryQuery { tenant: "acme".to_owned(), ..HistoryQuery::default() };
        let principal = record.caller.principal.clone();
        for query in [
            query.clone(),
            HistoryQuery { principal: Some(principal.clone()), ..query.clone() },
            HistoryQuery { caller: Some(principal), ..query.clone() },
            HistoryQuery { tool: Some(record.tool.clone()), ..query.clone() },
            HistoryQuery { outcome: Some(Outcome::Completed), ..query.clone() },
            HistoryQuery { class: Some(TaxonomyClass::Success), ..query },
        ] {
            assert!(query.matches(&record), "{query:?}");
            let mut terms = Vec::new();
            each_term(&record, |term| terms.push(term));
            assert!(terms_of_query(&query).iter().all(|term| terms.contains(term)), "{query:?}");
        }
    }

    /// Terms are stored: a later version has to make the same.
    #[test]
    fn terms_never_change() {
        let made = [("acme", "tool", "pay"), ("acme", "tool", "paid"), ("acmet", "ool", "pay"), ("", "", "")];
        let made = made.map(|(tenant, kind, value)| TermHash::of_tenant(tenant).term(kind, value));
        assert_eq!(made, [359_668_300, -635_335_682, 282_493_971, -2_115_101_486]);
    }

    #[test]
    fn terms_of_tenants_are_apart() {
        let of = |tenant: &str| HistoryQuery { tenant: tenant.to_owned(), ..HistoryQuery::default() };
        assert_ne!(terms_of_query(&of("acme")), terms_of_query(&of("globex")));
    }

    #[test]
    fn records_of_one_span_share_their_rows() {
        let mut batch = CallIndexBatch::default();
        for number in 0..100 {
            batch.add(&record(&format!("call_{number}"), Outcome::Completed, 1_600 + number % 16));
        }
        assert_eq!(batch.terms.len(), 4);
        assert_eq!(batch.counts.values().collect::<Vec<_>>(), [&100, &100], "one outcome, by minute and by hour");
        assert_eq!((span_of(1_615), span_start_ms(100)), (100, 1_600));
    }
}
