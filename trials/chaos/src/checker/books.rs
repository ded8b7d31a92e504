//! The upstream's own file as the checker reads it: every call with its arrival and its end, every effect with its beginning.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

/// A call that reached the upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    pub business: String,
    pub account: Option<String>,
    pub payload: i64,
    pub gateway: Option<String>,
    pub attempt: Option<String>,
    pub arrived_ms: u64,
    /// When it was answered or dropped; at the latest when the process ended.
    pub ended_ms: u64,
    /// When its effect began, if it had one.
    pub effect_ms: Option<u64>,
}

/// What really happened.
#[derive(Debug, Default)]
pub struct Books {
    calls: Vec<Call>,
    by_business: HashMap<String, Vec<usize>>,
    /// Effects whose call is not in the file, as a planted or cut file may have them.
    effects: HashMap<String, u64>,
}

impl Books {
    /// Reads the files of one or several upstreams; an incomplete last line is ignored.
    pub fn read(files: &[&str]) -> Result<Self, String> {
        let mut books = Self::default();
        for file in files {
            let mut open = BTreeMap::new();
            for (number, line) in file.split_inclusive('\n').enumerate().filter(|(_, line)| line.ends_with('\n')) {
                let entry: Value = serde_json::from_str(line)
                    .map_err(|error| format!("line {} of the upstream's file: {error}", number + 1))?;
                books.apply(&entry, &mut open);
            }
        }
        Ok(books)
    }

    /// The calls of a business id, in the order of their arrival.
    pub fn calls<'a>(&'a self, business: &str) -> impl Iterator<Item = &'a Call> + 'a {
        let numbers = self.by_business.get(business).map(Vec::as_slice).unwrap_or_default();
        numbers.iter().filter_map(|number| self.calls.get(*number))
    }

    /// Whether some call says which attempt caused it, if there are calls at all.
    pub fn names_attempts(&self) -> bool {
        self.calls.is_empty() || self.calls.iter().any(|call| call.attempt.is_some())
    }

    /// How many effects a business id had.
    pub fn effects(&self, business: &str) -> usize {
        let strays = self.effects.get(business).copied().unwrap_or(0);
        self.calls(business).filter(|call| call.effect_ms.is_some()).count() + usize::try_from(strays).unwrap_or(0)
    }

    /// The business ids of all calls and effects.
    pub fn businesses(&self) -> impl Iterator<Item = &str> {
        let strays = self.effects.keys().filter(|business| !self.by_business.contains_key(*business));
        self.by_business.keys().chain(strays).map(String::as_str)
    }

    /// The calls that name an account, by account, in the order of their arrival.
    pub fn by_account(&self) -> BTreeMap<&str, Vec<&Call>> {
        let mut accounts = BTreeMap::<&str, Vec<&Call>>::new();
        for call in &self.calls {
            if let Some(account) = &call.account {
                accounts.entry(account).or_default().push(call);
            }
        }
        accounts
    }

    fn apply(&mut self, entry: &Value, open: &mut BTreeMap<(String, u64), usize>) {
        let at_ms = entry["at_ms"].as_u64().unwrap_or(0);
        let text = |member: &str| entry[member].as_str().map(str::to_owned);
        let numbered = |member: &str| text(member).map(|name| (name, entry["n"].as_u64().unwrap_or(0)));
        if entry["opened"] == true {
            // The process that had these calls is gone.
            for call in std::mem::take(open).into_values() {
                self.calls[call].ended_ms = self.calls[call].ended_ms.min(at_ms);
            }
        } else if let Some(place) = numbered("call") {
            let number = self.calls.len();
            self.by_business.entry(place.0.clone()).or_default().push(number);
            self.calls.push(Call {
                business: place.0.clone(),
                account: text("account"),
                payload: entry["payload"].as_i64().unwrap_or(0),
                gateway: text("gateway"),
                attempt: text("attempt"),
                arrived_ms: at_ms,
                ended_ms: u64::MAX,
                effect_ms: None,
            });
            open.insert(place, number);
        } else if let Some(place) = numbered("effect") {
            let call = open.get(&place).copied().filter(|call| self.calls[*call].effect_ms.is_none());
            match call {
                Some(call) => self.calls[call].effect_ms = Some(at_ms),
                None => *self.effects.entry(place.0).or_default() += 1,
            }
        } else if let Some(place) = numbered("ended")
            && let Some(call) = open.remove(&place)
        {
            self.calls[call].ended_ms = at_ms;
        }
    }
}
