//! What the records of a commit are found by and counted as, in one run of bytes: the file's writer puts it aside with the commit, and merges
//! many of them into the index (`call_index`) later, or when a page is about to read it. So a call pays for one short row, and records that
//! were written apart still share the rows of the index.
//!
//! Deliberately not here: what a term or a measure is (`call_index`, `call_history`), and when to merge (the writer). The bytes are stored, but
//! only for a while; a later version reads these as long as a ledger can have them.

use std::io::Write as _;

use servanda_contract::CallRecord;
use servanda_effects::call_history::{CallCountKey, CallMeasure, CountWidth, measured};

use crate::call_index::{CallIndexBatch, Term, each_term, span_of};

/// The first byte.
const GATHERED_VERSION: u8 = 1;

/// What the records of a commit are found by and counted as. Adding a record asks for no memory once there is room: the writer keeps one of
/// these.
#[derive(Debug, Default)]
pub(crate) struct GatheredIndex {
    bytes: Vec<u8>,
    records: usize,
}

/// Stored bytes that are none of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the bytes cannot be read from byte {at} on")]
pub(crate) struct MalformedGathered {
    at: usize,
}

/// One record of the stored bytes.
#[derive(Debug)]
struct GatheredRecord<'a> {
    received_ms: u64,
    tenant: &'a str,
    terms: &'a [[u8; 4]],
    /// Measures with their amounts, as they are stored.
    measures: Vec<(&'a str, u64)>,
}

impl GatheredIndex {
    /// Adds a record: when it was received, its tenant, its terms, and its measures with their amounts.
    pub(crate) fn add(&mut self, record: &CallRecord) {
        let bytes = &mut self.bytes;
        if bytes.is_empty() {
            bytes.push(GATHERED_VERSION);
        }
        bytes.extend_from_slice(&record.received_at.unix_ms().to_be_bytes());
        let tenant = record.caller.tenant.as_bytes();
        bytes.extend_from_slice(&u32::try_from(tenant.len()).unwrap_or(u32::MAX).to_be_bytes());
        bytes.extend_from_slice(tenant);
        let terms_at = bytes.len();
        bytes.push(0);
        each_term(record, |term| bytes.extend_from_slice(&term.to_be_bytes()));
        let terms = (bytes.len() - terms_at - 1) / size_of::<Term>();
        set(bytes, terms_at, terms);
        let measures_at = bytes.len();
        bytes.push(0);
        let mut measures = 0;
        for (measure, amount) in measured(record) {
            let text_at = bytes.len();
            bytes.push(0);
            // Writing to a vector does not fail.
            let _ = write!(bytes, "{measure}");
            let length = bytes.len() - text_at - 1;
            set(bytes, text_at, length);
            bytes.extend_from_slice(&amount.to_be_bytes());
            measures += 1;
        }
        set(bytes, measures_at, measures);
        self.records += 1;
    }

    /// Forgets everything and keeps its room.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.records = 0;
    }

    /// As it is stored; empty if it has no records.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many records it has.
    pub(crate) const fn records(&self) -> usize {
        self.records
    }
}

/// Adds what stored bytes say to a batch of the index. A batch that it fails for may have a part of it.
pub(crate) fn merge_into(batch: &mut CallIndexBatch, stored: &[u8]) -> Result<(), MalformedGathered> {
    let mut reader = GatheredReader { stored, at: 0 };
    if stored.is_empty() {
        return Ok(());
    }
    if reader.byte()? != GATHERED_VERSION {
        return Err(MalformedGathered { at: 0 });
    }
    while reader.at < stored.len() {
        let record = reader.record()?;
        let span = span_of(record.received_ms);
        batch.terms.extend(record.terms.iter().map(|term| (Term::from_be_bytes(*term), span)));
        for (text, amount) in record.measures {
            // Written by this version, so that it is known.
            let Some(measure) = CallMeasure::from_stored(text) else { continue };
            for width in CountWidth::ALL {
                let (tenant, start_ms) = (record.tenant.to_owned(), width.start_of(record.received_ms));
                let sum = batch.counts.entry(CallCountKey { tenant, width, start_ms, measure: measure.clone() });
                let sum = sum.or_default();
                *sum = sum.saturating_add(amount);
            }
        }
    }
    Ok(())
}

/// Writes a count or a length to its place. All of them are small: a record has few terms and measures, and a measure's text is short.
fn set(bytes: &mut [u8], at: usize, number: usize) {
    debug_assert!(u8::try_from(number).is_ok(), "{number} does not fit");
    if let Some(place) = bytes.get_mut(at) {
        *place = u8::try_from(number).unwrap_or(u8::MAX);
    }
}

/// Takes parts of stored bytes from the front.
#[derive(Debug)]
struct GatheredReader<'a> {
    stored: &'a [u8],
    at: usize,
}

impl<'a> GatheredReader<'a> {
    fn record(&mut self) -> Result<GatheredRecord<'a>, MalformedGathered> {
        let received_ms = self.number()?;
        let length = u32::from_be_bytes(self.array()?);
        let tenant = self.text(usize::try_from(length).unwrap_or(usize::MAX))?;
        let count = usize::from(self.byte()?);
        let (terms, _) = self.take(count * size_of::<Term>())?.as_chunks();
        let count = self.byte()?;
        let measures = (0..count).map(|_| {
            let length = usize::from(self.byte()?);
            Ok((self.text(length)?, self.number()?))
        });
        Ok(GatheredRecord { received_ms, tenant, terms, measures: measures.collect::<Result<_, _>>()? })
    }

    fn byte(&mut self) -> Result<u8, MalformedGathered> {
        self.array().map(|[byte]| byte)
    }

    fn number(&mut self) -> Result<u64, MalformedGathered> {
        self.array().map(u64::from_be_bytes)
    }

    fn text(&mut self, length: usize) -> Result<&'a str, MalformedGathered> {
        let malformed = MalformedGathered { at: self.at };
        std::str::from_utf8(self.take(length)?).map_err(|_| malformed)
    }

    fn array<const BYTES: usize>(&mut self) -> Result<[u8; BYTES], MalformedGathered> {
        let malformed = MalformedGathered { at: self.at };
        self.take(BYTES)?.try_into().map_err(|_| malformed)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], MalformedGathered> {
        let malformed = MalformedGathered { at: self.at };
        let end = self.at.checked_add(length).ok_or(malformed)?;
        let taken = self.stored.get(self.at..end).ok_or(malformed)?;
        self.at = end;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};
    use servanda_contract::{
        CallRecord, Caller, CallerActor, Timestamp,
        cost::{Cost, Price},
        record::Outcome,
    };

    use super::{GATHERED_VERSION, GatheredIndex, merge_into};
    use crate::{call_index::CallIndexBatch, tests::samples::record};

    fn any_record() -> impl Strategy<Value = CallRecord> {
        let (name, outcome) = (".{0,12}", proptest::sample::select(Outcome::ALL.to_vec()));
        let times = (any::<u64>(), proptest::option::of(0_u64..100_000));
        let who = (name, name, vec(name, 0..12), name);
        (who, outcome, times, proptest::option::of((".{0,40}", any::<u64>()))).prop_map(
            |(who, outcome, times, price)| {
                let (tenant, principal, actors, tool) = who;
                let actors = actors.into_iter().map(|name| CallerActor { name, proven: true }).collect();
                let cost = |micros| Cost { external_api_micros: micros, ..Cost::default() };
                CallRecord {
                    caller: Caller { actors, ..Caller::named(&tenant, &principal) }.into(),
                    tool,
                    dispatched_at: times.1.map(|_| Timestamp::from_unix_ms(times.0)),
                    finished_at: times.1.map(|took_ms| Timestamp::from_unix_ms(times.0.saturating_add(took_ms))),
                    received_at: Timestamp::from_unix_ms(times.0),
                    price: price.map(|(currency, micros)| Box::new(Price { currency, cost: cost(micros) })),
                    ..record("call_1", outcome, 1)
                }
            },
        )
    }

    proptest! {
        /// Whether records are indexed at once or gathered first makes no difference.
        #[test]
        fn what_was_gathered_is_merged_as_it_is_indexed(records in vec(any_record(), 0..20)) {
            let (mut at_once, mut merged) = (CallIndexBatch::default(), CallIndexBatch::default());
            let mut gathered = GatheredIndex::default();
            for some in records.chunks(3) {
                gathered.clear();
                for record in some {
                    gathered.add(record);
                }
                prop_assert_eq!(gathered.records(), some.len());
                merge_into(&mut merged, gathered.bytes()).unwrap();
            }
            for record in &records {
                at_once.add(record);
            }
            prop_assert_eq!((merged.terms, merged.counts), (at_once.terms, at_once.counts));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in vec(any::<u8>(), 0..200), begins in any::<bool>()) {
            let begin = begins.then_some(GATHERED_VERSION);
            let bytes: Vec<u8> = begin.into_iter().chain(bytes).collect();
            let _ = merge_into(&mut CallIndexBatch::default(), &bytes);
        }
    }

    #[test]
    fn bytes_that_end_too_early_are_noticed() {
        let mut gathered = GatheredIndex::default();
        gathered.add(&record("call_1", Outcome::Completed, 1));
        for length in 1..gathered.bytes().len() {
            let part = gathered.bytes().get(..length).unwrap();
            assert_eq!(merge_into(&mut CallIndexBatch::default(), part).is_err(), length > 1, "{length}");
        }
    }
}
