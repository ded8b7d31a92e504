//! The stored form of effects and calls, for every store alike: the columns they are found by, and the text or
//! bytes that hold everything. Reading an effect checks that both agree. `encoding` turns the record of a call
//! into bytes.

use bytes::Bytes;
use servanda_contract::{
    CallRecord, Digest,
    digest::DigestDomain,
    record::{Outcome, RECORD_VERSION},
};
use servanda_effects::{
    call_history::{HistoryPosition, has_searched_text},
    effect::{Effect, EffectKey, EffectState, StoredAnswer, needs_owner},
};

use crate::{
    LedgerError,
    encoding::{
        self,
        dictionary::{Dictionary, DictionaryEntries, DictionaryEntryId},
        searched_texts,
    },
};

/// Bytes of a quarantined answer that are stored.
const QUARANTINE_BYTES_MAX: usize = 1 << 20;

/// An effect as columns. A new effect is found by its [`key_digest`].
#[derive(Debug)]
pub(crate) struct EffectRow<'a> {
    pub(crate) effect_id: &'a str,
    pub(crate) key: &'a EffectKey,
    pub(crate) request: &'a Digest,
    pub(crate) state: &'static str,
    pub(crate) epoch: i64,
    pub(crate) owner: &'a str,
    pub(crate) needs_owner: bool,
    pub(crate) due_ms: i64,
    pub(crate) expires_ms: i64,
    pub(crate) body: String,
    pub(crate) arguments: &'a [u8],
    pub(crate) answer: Option<&'a [u8]>,
    /// The resources that it keeps other effects from changing.
    pub(crate) holds: Option<String>,
    /// How long it does; the largest time there is if it does so until it ends.
    pub(crate) holds_until_ms: Option<i64>,
    /// Set while it is under way: the upstream that its recovery needs, empty if none. Recovery finds orphans
    /// by this column.
    pub(crate) upstream: Option<&'a str>,
}

/// An effect as it is read back.
#[derive(Debug)]
pub(crate) struct StoredEffect {
    pub(crate) effect_id: String,
    pub(crate) state: String,
    pub(crate) epoch: i64,
    pub(crate) body: String,
    pub(crate) arguments: Vec<u8>,
    pub(crate) answer: Option<Vec<u8>>,
}

/// The columns of [`StoredEffect`], in order.
macro_rules! effect_columns {
    () => {
        "effects.effect_id, effects.state, effects.epoch, effects.body, effects.arguments, effects.answer"
    };
}
pub(crate) use effect_columns;

/// A call as columns: what statements need, and its record.
#[derive(Debug)]
pub(crate) struct CallRow<'a> {
    pub(crate) call_id: &'a str,
    pub(crate) outcome: &'static str,
    pub(crate) received_ms: i64,
    /// The effect whose state decides how long the record is kept, if there is one.
    pub(crate) effect_id: Option<&'a str>,
    pub(crate) body: &'a [u8],
}

/// A call as it is read back: its record in the encoding of this version, or as JSON of an earlier version.
#[derive(Debug)]
pub(crate) struct StoredCall {
    pub(crate) call_id: String,
    pub(crate) record: Option<String>,
    pub(crate) body: Option<Vec<u8>>,
}

/// The digest that an effect is found by. It has a fixed length, whatever the length of the key.
pub(crate) fn key_digest(key: &EffectKey) -> Digest {
    let EffectKey { tenant, principal, tool, contract_major, client_key } = key;
    let client_key = client_key.to_string();
    let parts: [&[u8]; 5] = [
        tenant.as_bytes(),
        principal.as_bytes(),
        tool.as_bytes(),
        &contract_major.to_be_bytes(),
        client_key.as_bytes(),
    ];
    Digest::compute(DigestDomain::EffectKey, &parts)
}

impl<'a> EffectRow<'a> {
    pub(crate) fn new(effect: &'a Effect) -> Result<Self, LedgerError> {
        let held = effect.exclusive_resources();
        let under_way = matches!(effect.state, EffectState::Claimed | EffectState::Dispatching);
        Ok(Self {
            effect_id: effect.id.as_str(),
            key: &effect.key,
            request: &effect.request,
            state: effect.state.name(),
            epoch: signed(effect.epoch),
            owner: effect.owner.as_str(),
            needs_owner: needs_owner(effect),
            due_ms: signed(effect.due_ms()),
            expires_ms: signed(effect.expires_ms),
            body: encode(effect).map_err(|reason| unreadable(effect.id.as_str(), reason))?,
            arguments: &effect.order.arguments,
            answer: match &effect.answer {
                Some(StoredAnswer::Result(bytes)) => Some(bytes),
                _ => None,
            },
            holds_until_ms: held.map(|held| held.until_ms.map_or(i64::MAX, signed)),
            holds: match held {
                Some(held) => Some(encode(held.resources).map_err(|reason| unreadable(effect.id.as_str(), reason))?),
                None => None,
            },
            upstream: under_way.then(|| effect.recovery_upstream().unwrap_or_default()),
        })
    }
}

impl StoredEffect {
    pub(crate) fn decode(self) -> Result<Effect, LedgerError> {
        let mut effect: Effect =
            serde_json::from_str(&self.body).map_err(|error| unreadable(&self.effect_id, error.to_string()))?;
        let says = (effect.id.as_str(), effect.state.name(), signed(effect.epoch));
        if says != (self.effect_id.as_str(), self.state.as_str(), self.epoch) {
            return Err(unreadable(&self.effect_id, "its columns and its body disagree".to_owned()));
        }
        effect.order.arguments = Bytes::from(self.arguments);
        match (&mut effect.answer, self.answer) {
            (Some(StoredAnswer::Result(bytes)), Some(answer)) => *bytes = Bytes::from(answer),
            (Some(StoredAnswer::Result(_)), None) => {
                return Err(unreadable(&self.effect_id, "its answer is missing".to_owned()));
            }
            _ => {}
        }
        Ok(effect)
    }
}

impl<'a> CallRow<'a> {
    /// The columns of an encoded record.
    pub(crate) fn new(record: &'a CallRecord, body: &'a [u8]) -> Self {
        use Outcome::{Dispatching, InputRequired, TaskCreated, Unknown};
        let is_unsettled = matches!(record.outcome, Dispatching | Unknown | TaskCreated | InputRequired);
        Self {
            call_id: record.call_id.as_str(),
            outcome: record.outcome.name(),
            received_ms: signed(record.received_at.unix_ms()),
            effect_id: record.effect_id.as_deref().filter(|_| is_unsettled),
            body,
        }
    }
}

impl StoredCall {
    /// The dictionary entries that are needed to decode it.
    pub(crate) fn entries(&self) -> Vec<DictionaryEntryId> {
        self.body.as_deref().map(encoding::entries_of).unwrap_or_default()
    }

    pub(crate) fn decode(&self, entries: &DictionaryEntries) -> Result<CallRecord, LedgerError> {
        match (&self.body, &self.record) {
            (Some(body), _) => encoding::decode(&self.call_id, body, entries),
            (None, Some(text)) => decode_text(&self.call_id, text),
            (None, None) => {
                Err(LedgerError::Record { call_id: self.call_id.clone(), reason: "it has no content".to_owned() })
            }
        }
    }

    /// The place of the call, if its record has no name with this text, which is in lower case. None if it has one, or if only decoding can
    /// tell.
    pub(crate) fn place_without(&self, text: &str, entries: &DictionaryEntries) -> Option<HistoryPosition> {
        let body = self.body.as_deref().filter(|_| !has_searched_text(&self.call_id, text))?;
        let looked = searched_texts::look(body, entries, |name| has_searched_text(name, text))?;
        let place = HistoryPosition { received_ms: looked.received_ms, call_id: self.call_id.clone() };
        (!looked.found).then_some(place)
    }

    /// Decodes the record of a call under way. It is kept only for a while and refers to no dictionary entries.
    pub(crate) fn decode_open(&self) -> Result<CallRecord, LedgerError> {
        self.decode(&DictionaryEntries::default())
    }
}

/// Decodes the resources that an effect holds.
pub(crate) fn decode_held_resources(effect_id: &str, text: &str) -> Result<Vec<String>, LedgerError> {
    serde_json::from_str(text).map_err(|error| unreadable(effect_id, error.to_string()))
}

/// Encodes a record. The record of a call under way refers to no dictionary entries, so that a writer can move
/// it without reading any.
pub(crate) fn encode_call(record: &CallRecord, dictionary: &mut Dictionary) -> Result<Vec<u8>, LedgerError> {
    match record.outcome {
        Outcome::Dispatching => encoding::encode(record, &mut Dictionary::default()),
        _ => encoding::encode(record, dictionary),
    }
}

/// Decodes a record of an earlier version from its text.
fn decode_text(call_id: &str, text: &str) -> Result<CallRecord, LedgerError> {
    #[derive(serde::Deserialize)]
    struct RecordVersion {
        record_version: u32,
    }
    let failed = |reason: String| LedgerError::Record { call_id: call_id.to_owned(), reason };
    let RecordVersion { record_version } = serde_json::from_str(text).map_err(|error| failed(error.to_string()))?;
    if record_version > RECORD_VERSION {
        return Err(failed(format!("it has version {record_version}, this servanda knows up to {RECORD_VERSION}")));
    }
    serde_json::from_str(text).map_err(|error| failed(error.to_string()))
}

/// The length of a quarantined answer, and the part of it that is stored.
pub(crate) fn quarantined(body: &Bytes) -> (i64, &[u8]) {
    (signed(body.len() as u64), body.get(..QUARANTINE_BYTES_MAX).unwrap_or(body))
}

/// Integers of databases are signed. Times and sizes fit for as long as anyone will need.
pub(crate) fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The way back. A time before the epoch becomes zero.
pub(crate) fn unsigned(value: i64) -> u64 {
    u64::try_from(value).unwrap_or_default()
}

fn encode(value: &(impl serde::Serialize + ?Sized)) -> Result<String, String> {
    serde_json::to_string(value).map_err(|error| error.to_string())
}

fn unreadable(effect_id: &str, reason: String) -> LedgerError {
    LedgerError::Effect { effect_id: effect_id.to_owned(), reason }
}
