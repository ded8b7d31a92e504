//! The dictionary of records: content that many records share is stored once, and records refer to it.
//!
//! An entry is identified by the digest of its content. So no store has to hand out numbers, several gateways
//! never disagree, and an entry that a database lost is reported as missing and never mistaken for another.
//! Only content that operators and issuers of credentials decide becomes an entry (contracts, and the policies,
//! scopes and groups of a decision), never a text that a client chose. Entries are never changed and never
//! removed, so their number is limited; beyond the limit, records carry the content themselves.

use std::collections::{HashMap, HashSet};

use servanda_contract::{Digest, digest::DigestDomain};

/// The most entries that a store has, as far as one process can tell.
pub(crate) const ENTRIES_MAX: u64 = 50_000;
/// The most bytes of an entry; longer content stays in its record.
const ENTRY_BYTES_MAX: usize = 4 << 10;

/// The id of an entry: 128 bits, because upstreams control some of the content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct DictionaryEntryId(pub(crate) [u8; 16]);

/// The dictionary of a writer: which entries are known to be stored, and which have to be stored with the next
/// batch.
#[derive(Debug, Default)]
pub(crate) struct Dictionary {
    known: HashMap<Box<[u8]>, DictionaryEntryId>,
    fresh: Vec<(DictionaryEntryId, Box<[u8]>)>,
    room: u64,
}

/// The dictionary entries of a reader.
#[derive(Debug, Default)]
pub(crate) struct DictionaryEntries {
    found: HashMap<DictionaryEntryId, Vec<u8>>,
}

impl DictionaryEntryId {
    fn for_content(entry: &[u8]) -> Self {
        let digest = Digest::compute(DigestDomain::DictionaryEntry, &[entry]);
        Self(digest.as_bytes().first_chunk().copied().unwrap_or_default())
    }
}

impl Dictionary {
    /// The dictionary of a store that has this many entries.
    pub(crate) fn with_stored(count: u64) -> Self {
        Self { room: ENTRIES_MAX.saturating_sub(count), ..Self::default() }
    }

    /// The entry for this content; none if the content has to stay in its record.
    pub(crate) fn refer(&mut self, content: &[u8]) -> Option<DictionaryEntryId> {
        if let Some(known) = self.known.get(content) {
            return Some(*known);
        }
        if content.len() > ENTRY_BYTES_MAX || self.room == 0 {
            return None;
        }
        self.room -= 1;
        let id = DictionaryEntryId::for_content(content);
        self.known.insert(content.into(), id);
        self.fresh.push((id, content.into()));
        Some(id)
    }

    /// Entries that have to be stored before, or together with, the records that were encoded so far.
    pub(crate) fn fresh(&self) -> &[(DictionaryEntryId, Box<[u8]>)] {
        &self.fresh
    }

    /// Marks the fresh entries as stored.
    pub(crate) fn stored(&mut self) {
        self.fresh.clear();
    }
}

impl DictionaryEntries {
    /// The wanted entries that have not been read yet.
    pub(crate) fn missing(&self, wanted: impl IntoIterator<Item = DictionaryEntryId>) -> Vec<DictionaryEntryId> {
        let missing: HashSet<DictionaryEntryId> =
            wanted.into_iter().filter(|id| !self.found.contains_key(id)).collect();
        missing.into_iter().collect()
    }

    pub(crate) fn add(&mut self, id: DictionaryEntryId, content: Vec<u8>) {
        self.found.insert(id, content);
    }

    pub(super) fn get(&self, id: DictionaryEntryId) -> Option<&[u8]> {
        self.found.get(&id).map(Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::{Dictionary, DictionaryEntries, DictionaryEntryId, ENTRIES_MAX, ENTRY_BYTES_MAX};

    #[test]
    fn an_entry_is_stored_once_and_stays_fresh_until_it_is() {
        let mut dictionary = Dictionary::with_stored(0);
        let id = dictionary.refer(b"contract").unwrap();
        assert_eq!(dictionary.refer(b"contract"), Some(id));
        assert_eq!(dictionary.fresh(), [(id, Box::from(*b"contract"))], "a batch that failed writes it again");
        dictionary.stored();
        assert_eq!(dictionary.refer(b"contract"), Some(id));
        assert!(dictionary.fresh().is_empty());
        assert_ne!(dictionary.refer(b"another"), Some(id));
    }

    #[test]
    fn a_full_dictionary_and_a_long_content_refer_to_nothing() {
        let mut full = Dictionary::with_stored(ENTRIES_MAX - 1);
        assert!(full.refer(&vec![0; ENTRY_BYTES_MAX + 1]).is_none());
        let last = full.refer(b"last").unwrap();
        assert!(full.refer(b"one more").is_none());
        assert_eq!(full.refer(b"last"), Some(last), "stored entries are still referred to");
    }

    #[test]
    fn only_what_is_not_here_is_missing() {
        let (one, two) = (DictionaryEntryId([1; 16]), DictionaryEntryId([2; 16]));
        let mut entries = DictionaryEntries::default();
        entries.add(one, b"x".to_vec());
        assert_eq!(entries.missing([one, two, two]), [two]);
    }
}
