//! The dictionary of records in the file. Entries are written with the records that refer to them, and read
//! with them.

use std::cell::RefCell;

use rusqlite::{Connection, OptionalExtension as _, params};
use servanda_contract::CallRecord;

use crate::{
    LedgerError,
    call_search::LookedRecord,
    codec::{StoredCall, unsigned},
    encoding::dictionary::{Dictionary, DictionaryEntries},
};

/// Loads the dictionary of a file for its writer.
pub(super) fn load(connection: &Connection) -> Result<Dictionary, LedgerError> {
    let count = connection.query_row("select count(*) from dictionary", [], |row| row.get(0))?;
    Ok(Dictionary::with_stored(unsigned(count)))
}

/// Writes the new entries, inside the writer's transaction.
pub(super) fn put(transaction: &Connection, dictionary: &Dictionary) -> Result<(), LedgerError> {
    for (id, content) in dictionary.fresh() {
        let sql = "insert into dictionary (entry_id, content) values (?1, ?2) on conflict (entry_id) do nothing";
        transaction.prepare_cached(sql)?.execute(params![id.0, &content[..]])?;
    }
    Ok(())
}

/// The entries that were needed so far. They are few, and they never change.
#[derive(Debug, Default)]
pub(super) struct SqliteDictionaryLookup {
    entries: RefCell<DictionaryEntries>,
}

impl SqliteDictionaryLookup {
    /// Decodes a record, and reads the entries that it refers to.
    pub(super) fn decode(&self, connection: &Connection, stored: &StoredCall) -> Result<CallRecord, LedgerError> {
        let mut entries = self.entries.borrow_mut();
        for id in entries.missing(stored.entries()) {
            let mut statement = connection.prepare_cached("select content from dictionary where entry_id = ?1")?;
            if let Some(content) = statement.query_row(params![id.0], |row| row.get(0)).optional()? {
                entries.add(id, content);
            }
        }
        stored.decode(&entries)
    }

    /// Looks at a record for a search: decodes it, unless it does not have the text that is looked for.
    pub(super) fn look(
        &self,
        connection: &Connection,
        stored: &StoredCall,
        text: Option<&str>,
    ) -> Result<LookedRecord, LedgerError> {
        let passed = text.and_then(|text| stored.place_without(text, &self.entries.borrow()));
        match passed {
            Some(place) => Ok(LookedRecord::Passed(place)),
            None => self.decode(connection, stored).map(|record| LookedRecord::Decoded(Box::new(record))),
        }
    }
}
