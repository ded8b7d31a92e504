//! Decodes stored records. Truncated or changed bytes give an error that says why, and never a part of a
//! record.

use std::sync::Arc;

use servanda_contract::{
    CallId, CallRecord, Digest, Refusal, TaxonomyClass, Timestamp,
    cost::Price,
    record::{Outcome, PolicyRecord, QuestionRecord, RECORD_VERSION, Verdict},
    trace::TraceStanding,
};

use super::{
    ENCODING_VERSION,
    bytes::{Decoder, MalformedBytes, check_sum},
    dictionary::{DictionaryEntries, DictionaryEntryId},
    numbers::named,
    parts, tag,
};
use crate::LedgerError;

const NOT_RECEIVED: MalformedBytes = MalformedBytes("it has no time of receipt");

/// The dictionary entries that a stored record refers to. A record that cannot be read refers to none: decoding
/// it says why.
pub(crate) fn entries_of(stored: &[u8]) -> Vec<DictionaryEntryId> {
    let mut found = Vec::new();
    let mut fields = Decoder::new(stored.split_last_chunk::<4>().map_or(&[][..], |(fields, _)| fields));
    if fields.byte() != Ok(ENCODING_VERSION) || fields.number().is_err() {
        return found;
    }
    while let Ok((tag, mut content)) = fields.field() {
        if matches!(tag, tag::CONTRACT_ENTRY | tag::POLICY_ENTRY) {
            found.extend(content.array().map(DictionaryEntryId));
        }
    }
    found
}

/// Decodes the record of a call.
pub(crate) fn decode(call_id: &str, stored: &[u8], entries: &DictionaryEntries) -> Result<CallRecord, LedgerError> {
    read(call_id, stored, entries).map_err(|unreadable| {
        let call_id = call_id.to_owned();
        match unreadable {
            RecordDecodeError::Newer(found) => LedgerError::RecordNewer { call_id, found, known: ENCODING_VERSION },
            RecordDecodeError::Malformed(MalformedBytes(reason)) => {
                LedgerError::Record { call_id, reason: reason.to_owned() }
            }
            RecordDecodeError::Reason(reason) => LedgerError::Record { call_id, reason },
        }
    })
}

/// Why a stored record cannot be read.
#[derive(Debug)]
enum RecordDecodeError {
    /// It has a version that this servanda does not know.
    Newer(u8),
    Malformed(MalformedBytes),
    Reason(String),
}

impl From<MalformedBytes> for RecordDecodeError {
    fn from(malformed: MalformedBytes) -> Self {
        Self::Malformed(malformed)
    }
}

impl From<serde_json::Error> for RecordDecodeError {
    fn from(error: serde_json::Error) -> Self {
        Self::Reason(error.to_string())
    }
}

fn read(call_id: &str, stored: &[u8], entries: &DictionaryEntries) -> Result<CallRecord, RecordDecodeError> {
    match stored.first() {
        Some(&ENCODING_VERSION) => {}
        Some(0) | None => return Err(MalformedBytes("it has no version").into()),
        Some(newer) => return Err(RecordDecodeError::Newer(*newer)),
    }
    let (stored, check) = stored.split_last_chunk().ok_or(MalformedBytes("it ends too early"))?;
    if *check != check_sum(stored) {
        return Err(MalformedBytes("its check sum does not match").into());
    }
    let mut fields = Decoder::new(stored);
    fields.byte()?;
    let record_version = fields.small()?;
    if record_version > RECORD_VERSION {
        let reason = format!("it has version {record_version}, this servanda knows up to {RECORD_VERSION}");
        return Err(RecordDecodeError::Reason(reason));
    }
    let mut read = PartialRecord { call_id: call_id.to_owned(), record_version, ..PartialRecord::default() };
    let mut before = 0;
    while !fields.is_at_end() {
        let (tag, mut content) = fields.field()?;
        if tag <= before {
            return Err(MalformedBytes("its fields are out of order").into());
        }
        before = tag;
        read.take(tag, &mut content, entries)?;
        content.end()?;
    }
    read.finish()
}

/// A record while it is being read. Required fields may still be missing.
#[derive(Debug, Default)]
struct PartialRecord {
    call_id: String,
    record_version: u32,
    trace_id: Option<String>,
    caller: parts::PartialCaller,
    tool: parts::PartialTool,
    arguments_digest: Option<Digest>,
    received_ms: Option<u64>,
    outcome: Option<Outcome>,
    policy: Option<PolicyRecord>,
    /// The fields that a record may lack.
    rest: OptionalFields,
}

#[derive(Debug, Default)]
struct OptionalFields {
    proposal_digest: Option<Digest>,
    dispatched_ms: Option<u64>,
    finished_ms: Option<u64>,
    deadline_ms: Option<u64>,
    verdicts: Vec<Verdict>,
    class: Option<TaxonomyClass>,
    refusal: Option<Refusal>,
    answer_digest: Option<Digest>,
    continues: Option<String>,
    task_id: Option<String>,
    effect_id: Option<String>,
    attempts: Option<u32>,
    price: Option<Box<Price>>,
    questions: Vec<QuestionRecord>,
    ticket_id: Option<String>,
    by_grant: bool,
}

impl PartialRecord {
    fn take(&mut self, tag: u8, from: &mut Decoder<'_>, entries: &DictionaryEntries) -> Result<(), RecordDecodeError> {
        let (received_ms, rest) = (self.received_ms, &mut self.rest);
        let received = || received_ms.ok_or(NOT_RECEIVED);
        match tag {
            tag::TRACE => self.trace_id = Some(from.text()?),
            tag::CALLER | tag::ACTORS | tag::CREDENTIAL | tag::CLIENT | tag::SESSION => self.caller.take(tag, from)?,
            tag::TOOL => self.tool.tool = Some(from.text()?),
            tag::CONTRACT => self.tool.contract = Some(parts::read_contract(from)?),
            tag::CONTRACT_ENTRY => {
                self.tool = parts::read_tool_entry(&mut Decoder::new(entry(from, entries)?))?;
            }
            tag::ARGUMENTS => self.arguments_digest = Some(from.digest()?),
            tag::PROPOSAL => rest.proposal_digest = Some(from.digest()?),
            tag::RECEIVED => self.received_ms = Some(from.number()?),
            tag::DISPATCHED => rest.dispatched_ms = Some(from.distance(received()?)?),
            tag::FINISHED => rest.finished_ms = Some(from.distance(received()?)?),
            tag::DEADLINE => rest.deadline_ms = Some(from.number()?),
            tag::VERDICTS => rest.verdicts = parts::read_verdicts(from)?,
            tag::OUTCOME => self.outcome = Some(named(from)?),
            tag::CLASS => rest.class = Some(named(from)?),
            tag::REFUSAL => rest.refusal = Some(json(from)?),
            tag::ANSWER => rest.answer_digest = Some(from.digest()?),
            tag::CONTINUES => rest.continues = Some(from.text()?),
            tag::TASK => rest.task_id = Some(from.text()?),
            tag::EFFECT => rest.effect_id = Some(from.text()?),
            tag::ATTEMPTS => rest.attempts = Some(from.small()?),
            tag::PRICE => rest.price = Some(json(from)?),
            tag::POLICY => self.policy = Some(parts::read_policy(from)?),
            tag::POLICY_ENTRY => {
                self.policy = Some(parts::read_policy_entry(&mut Decoder::new(entry(from, entries)?))?);
            }
            tag::POLICY_DETAIL => self.policy = Some(parts::with_detail(self.policy.take(), json(from)?)?),
            tag::QUESTIONS => rest.questions = json(from)?,
            tag::TICKET => rest.ticket_id = Some(from.text()?),
            tag::BY_GRANT => rest.by_grant = true,
            _ => return Err(MalformedBytes("it has an unknown field").into()),
        }
        Ok(())
    }

    fn finish(self) -> Result<CallRecord, RecordDecodeError> {
        let received_ms = self.received_ms.ok_or(NOT_RECEIVED)?;
        let OptionalFields { dispatched_ms, finished_ms, continues, .. } = self.rest;
        let (tool, contract) = self.tool.finish()?;
        Ok(CallRecord {
            record_version: self.record_version,
            call_id: CallId::from(self.call_id),
            trace_id: self.trace_id.ok_or(MalformedBytes("it has no trace"))?,
            caller: Arc::new(self.caller.finish()?),
            tool,
            contract: contract.map(Arc::new),
            arguments_digest: self.arguments_digest.ok_or(MalformedBytes("it has no digest of its arguments"))?,
            proposal_digest: self.rest.proposal_digest,
            received_at: Timestamp::from_unix_ms(received_ms),
            dispatched_at: dispatched_ms.map(Timestamp::from_unix_ms),
            finished_at: finished_ms.map(Timestamp::from_unix_ms),
            deadline_ms: self.rest.deadline_ms,
            verdicts: self.rest.verdicts,
            outcome: self.outcome.ok_or(MalformedBytes("it has no outcome"))?,
            class: self.rest.class,
            refusal: self.rest.refusal,
            answer_digest: self.rest.answer_digest,
            continues: continues.map(CallId::from),
            task_id: self.rest.task_id,
            effect_id: self.rest.effect_id,
            attempts: self.rest.attempts,
            price: self.rest.price,
            policy: self.policy,
            questions: self.rest.questions,
            ticket_id: self.rest.ticket_id,
            by_grant: self.rest.by_grant,
            trace: TraceStanding::default(),
        })
    }
}

/// The content of the dictionary entry that a field refers to.
fn entry<'a>(from: &mut Decoder<'_>, entries: &'a DictionaryEntries) -> Result<&'a [u8], MalformedBytes> {
    entries
        .get(DictionaryEntryId(from.array()?))
        .ok_or(MalformedBytes("it refers to a dictionary entry that is missing"))
}

fn json<T: serde::de::DeserializeOwned>(from: &mut Decoder<'_>) -> Result<T, serde_json::Error> {
    serde_json::from_slice(from.rest())
}
