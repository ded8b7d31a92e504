//! What really happened: every call and every effect by business id, in an append-only file that outlives the process.
//! The oracle reads the same file, never what the gateway believes.

use std::{
    collections::HashMap,
    fs::{File, OpenOptions},
    io::{self, Write as _},
    path::Path,
};

use serde_json::{Value, json};

/// What is known about one business id.
#[derive(Debug, Clone, Default)]
pub struct Account {
    /// Calls that reached the upstream, whatever came of them.
    pub calls: u64,
    /// The receipts of its effects, in order.
    pub receipts: Vec<String>,
}

/// What really happened.
#[derive(Debug, Default)]
pub struct Books {
    accounts: HashMap<String, Account>,
    /// The business id's receipt by the caller's key.
    keys: HashMap<String, String>,
}

/// The books, open for writing.
#[derive(Debug)]
pub struct Ledger {
    books: Books,
    file: File,
    /// Whether an effect is on disk before it counts; a machine that stays up needs no more than the write.
    syncs: bool,
}

impl Books {
    /// Reads the books; a last line without its end was never written.
    pub fn read(file: &Path) -> io::Result<Self> {
        let mut books = Self::default();
        let text = match std::fs::read_to_string(file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            read => read?,
        };
        for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
            books.apply(&serde_json::from_str(line).unwrap_or_default());
        }
        Ok(books)
    }

    pub fn account(&self, business: &str) -> Account {
        self.accounts.get(business).cloned().unwrap_or_default()
    }

    pub fn effects(&self, business: &str) -> usize {
        self.accounts.get(business).map_or(0, |account| account.receipts.len())
    }

    /// Everything that was done.
    pub fn all_effects(&self) -> usize {
        self.accounts.values().map(|account| account.receipts.len()).sum()
    }

    pub fn calls(&self, business: &str) -> u64 {
        self.accounts.get(business).map_or(0, |account| account.calls)
    }

    fn apply(&mut self, entry: &Value) {
        if let Some(business) = entry["call"].as_str() {
            self.accounts.entry(business.to_owned()).or_default().calls += 1;
        }
        if let (Some(business), Some(receipt)) = (entry["effect"].as_str(), entry["receipt"].as_str()) {
            self.accounts.entry(business.to_owned()).or_default().receipts.push(receipt.to_owned());
            if let Some(key) = entry["key"].as_str() {
                self.keys.insert(key.to_owned(), receipt.to_owned());
            }
        }
    }
}

impl Ledger {
    pub fn open(file: &Path, syncs: bool) -> io::Result<Self> {
        let books = Books::read(file)?;
        Ok(Self { books, file: OpenOptions::new().create(true).append(true).open(file)?, syncs })
    }

    pub fn books(&self) -> &Books {
        &self.books
    }

    /// Notes a call, and says how many there were before.
    pub fn note_call(&mut self, business: &str) -> io::Result<u64> {
        let before = self.books.calls(business);
        self.write(&json!({ "call": business }), false)?;
        Ok(before)
    }

    /// Does it, once more if it must be, and gives the receipt. With a key that dedupes, a second time does nothing.
    pub fn perform(&mut self, business: &str, key: Option<&str>, dedupes: bool) -> io::Result<String> {
        if let Some(done) = key.filter(|_| dedupes).and_then(|key| self.books.keys.get(key)) {
            return Ok(done.clone());
        }
        let receipt = format!("{business}#{}", self.books.effects(business) + 1);
        self.write(&json!({ "effect": business, "receipt": receipt, "key": key }), self.syncs)?;
        Ok(receipt)
    }

    /// The receipt of a key, if there is one.
    pub fn receipt(&self, key: &str) -> Option<String> {
        self.books.keys.get(key).cloned()
    }

    fn write(&mut self, entry: &Value, syncs: bool) -> io::Result<()> {
        self.file.write_all(format!("{entry}\n").as_bytes())?;
        if syncs {
            self.file.sync_data()?;
        }
        self.books.apply(entry);
        Ok(())
    }
}
