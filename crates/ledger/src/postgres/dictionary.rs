//! The dictionary of records in the shared database. Entries are committed before the records that refer to
//! them, and read together with the records. A writer forgets its dictionary together with its connection,
//! because the database behind the next connection may have lost entries.

use std::sync::{Mutex, MutexGuard, PoisonError};

use servanda_contract::CallRecord;
use tokio_postgres::{Client, Row};

use crate::{
    LedgerError,
    call_search::LookedRecord,
    codec::{StoredCall, unsigned},
    encoding::dictionary::{Dictionary, DictionaryEntries, DictionaryEntryId},
};

/// Loads the dictionary of a database for a writer.
pub(super) async fn load(client: &Client) -> Result<Dictionary, LedgerError> {
    let count = client.query_one("select count(*) from dictionary", &[]).await?;
    Ok(Dictionary::with_stored(unsigned(count.try_get(0)?)))
}

/// Commits the new entries. That is rare: once for every contract and every combination of policies.
pub(super) async fn put(client: &Client, dictionary: &mut Dictionary) -> Result<(), LedgerError> {
    if dictionary.fresh().is_empty() {
        return Ok(());
    }
    // In a fixed order, so that two writers never deadlock.
    let mut fresh: Vec<(&[u8], &[u8])> =
        dictionary.fresh().iter().map(|(id, content)| (&id.0[..], &content[..])).collect();
    fresh.sort_unstable();
    let (ids, contents): (Vec<&[u8]>, Vec<&[u8]>) = fresh.into_iter().unzip();
    client.execute(include_str!("../../sql/postgres/put_entries.sql"), &[&ids, &contents]).await?;
    dictionary.stored();
    Ok(())
}

/// The entries that were needed so far. They are few, and they never change.
#[derive(Debug, Default)]
pub(super) struct PostgresDictionaryLookup {
    entries: Mutex<DictionaryEntries>,
}

impl PostgresDictionaryLookup {
    /// Decodes calls from their columns (id, record, body), and reads the entries that they refer to.
    pub(super) async fn decode(&self, client: &Client, rows: &[Row]) -> Result<Vec<CallRecord>, LedgerError> {
        let calls = self.read(client, rows).await?;
        let entries = self.entries();
        calls.iter().map(|call| call.decode(&entries)).collect()
    }

    /// Looks at calls for a search: decodes them, unless they do not have the text that is looked for.
    pub(super) async fn look(
        &self,
        client: &Client,
        rows: &[Row],
        text: Option<&str>,
    ) -> Result<Vec<LookedRecord>, LedgerError> {
        let calls = self.read(client, rows).await?;
        let entries = self.entries();
        let look = |call: &StoredCall| match text.and_then(|text| call.place_without(text, &entries)) {
            Some(place) => Ok(LookedRecord::Passed(place)),
            None => call.decode(&entries).map(|record| LookedRecord::Decoded(Box::new(record))),
        };
        calls.iter().map(look).collect()
    }

    /// Calls as they are stored. The entries that they refer to are here afterwards.
    async fn read(&self, client: &Client, rows: &[Row]) -> Result<Vec<StoredCall>, LedgerError> {
        let stored =
            |row: &Row| Ok(StoredCall { call_id: row.try_get(0)?, record: row.try_get(1)?, body: row.try_get(2)? });
        let calls = rows.iter().map(stored).collect::<Result<Vec<_>, LedgerError>>()?;
        let missing = self.entries().missing(calls.iter().flat_map(StoredCall::entries));
        if !missing.is_empty() {
            let ids: Vec<&[u8]> = missing.iter().map(|id| &id.0[..]).collect();
            let found = client.query(include_str!("../../sql/postgres/find_entries.sql"), &[&ids]).await?;
            for row in &found {
                let id: &[u8] = row.try_get(0)?;
                self.entries().add(DictionaryEntryId(id.try_into().unwrap_or_default()), row.try_get(1)?);
            }
        }
        Ok(calls)
    }

    fn entries(&self) -> MutexGuard<'_, DictionaryEntries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
