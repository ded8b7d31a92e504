//! What really happened: every call, its effect and its end by business id, with their times, in an append-only file that
//! outlives the process. The oracle and the history checker read the same file, never what the gateway believes.

use std::{
    collections::HashMap,
    fs::{File, OpenOptions},
    io::{self, Write as _},
    path::Path,
};

use serde_json::{Value, json};

use crate::clock::now_ms;

/// What is known about one business id.
#[derive(Debug, Clone, Default)]
pub struct Account {
    /// Calls that reached the upstream, whatever their result.
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
    /// Whether an effect is synced to disk before it counts; without a machine crash, a plain write is enough.
    syncs: bool,
}

/// What the books say about a call when it arrives.
#[derive(Debug, Clone, Default)]
pub struct Arrival {
    /// The business id, or another name for calls that are not payments.
    pub name: String,
    pub tool: String,
    /// The account that is changed by one call at a time, if the tool names it.
    pub account: Option<String>,
    pub payload: i64,
    /// Which gateway sent it, by the header that its configuration sets.
    pub gateway: Option<String>,
    /// The client's attempt that caused it, if the gateway passed it on.
    pub attempt: Option<String>,
}

impl Books {
    /// Reads the books; an incomplete last line is ignored.
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
        let file = OpenOptions::new().create(true).append(true).open(file)?;
        let mut ledger = Self { books, file, syncs };
        // Calls before this line that have no end ended with their process.
        ledger.write(&json!({ "opened": true, "at_ms": now_ms() }), false)?;
        Ok(ledger)
    }

    pub fn books(&self) -> &Books {
        &self.books
    }

    /// Records a call, and returns how many there were before.
    pub fn note_call(&mut self, arrival: &Arrival) -> io::Result<u64> {
        let before = self.books.calls(&arrival.name);
        let Arrival { name, tool, account, payload, gateway, attempt } = arrival;
        let mut entry = json!({ "call": name, "n": before, "at_ms": now_ms(), "tool": tool, "payload": payload });
        for (member, value) in [("account", account), ("gateway", gateway), ("attempt", attempt)] {
            if let Some(value) = value {
                entry[member] = json!(value);
            }
        }
        self.write(&entry, false)?;
        Ok(before)
    }

    /// Records that a call was answered, or that its connection was dropped.
    pub fn note_end(&mut self, name: &str, number: u64) -> io::Result<()> {
        self.write(&json!({ "ended": name, "n": number, "at_ms": now_ms() }), false)
    }

    /// Performs the effect, again if necessary, and returns the receipt. With a key that dedupes, a second time does nothing.
    pub fn perform(
        &mut self,
        (business, number): (&str, u64),
        payload: i64,
        key: Option<&str>,
        dedupes: bool,
    ) -> io::Result<String> {
        if let Some(done) = key.filter(|_| dedupes).and_then(|key| self.books.keys.get(key)) {
            return Ok(done.clone());
        }
        let receipt = format!("{business}#{}", self.books.effects(business) + 1);
        let began_ms = now_ms();
        let entry = json!({
            "effect": business, "receipt": receipt, "key": key, "n": number, "at_ms": began_ms, "payload": payload,
        });
        self.write(&entry, self.syncs)?;
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
