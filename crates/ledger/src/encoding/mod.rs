//! The stored form of a call's record, for every store alike: a version, then fields in the order of their
//! tags, then a check sum.
//!
//! The writer encodes, so that no call waits for it. An identifier is stored as its bytes, a time as its
//! distance from the time of receipt, one of our names as its number, and content that many records share as an
//! entry of the [`dictionary`]. Parts that few records have (a refusal, a price, questions) are JSON inside
//! their field. An absent field takes no room. The id of the call is not part of the encoding: the row has it.
//!
//! Records of earlier versions are JSON as a whole; `codec` reads them. A field never gets another meaning: a
//! change of the form is a new version, and an unknown version is refused.

mod bytes;
mod decode;
pub(crate) mod dictionary;
mod numbers;
mod parts;
pub(crate) mod searched_texts;
#[cfg(test)]
mod tests;

use servanda_contract::{CallId, CallRecord, Digest};

pub(crate) use self::decode::{decode, entries_of};
use self::{bytes::Encoder, dictionary::Dictionary, numbers::StoredAsNumber as _};
use crate::LedgerError;

/// The version of this encoding, the first byte of every record.
pub(crate) const ENCODING_VERSION: u8 = 1;

/// Bytes that nearly every record fits into.
const RECORD_BYTES: usize = 512;

/// The tags of the fields, in the order in which they are stored.
mod tag {
    pub(super) const TRACE: u8 = 1;
    pub(super) const CALLER: u8 = 2;
    pub(super) const ACTORS: u8 = 3;
    pub(super) const CREDENTIAL: u8 = 4;
    pub(super) const CLIENT: u8 = 5;
    pub(super) const SESSION: u8 = 6;
    pub(super) const TOOL: u8 = 7;
    pub(super) const CONTRACT: u8 = 8;
    pub(super) const CONTRACT_ENTRY: u8 = 9;
    pub(super) const ARGUMENTS: u8 = 10;
    pub(super) const PROPOSAL: u8 = 11;
    pub(super) const RECEIVED: u8 = 12;
    pub(super) const DISPATCHED: u8 = 13;
    pub(super) const FINISHED: u8 = 14;
    pub(super) const DEADLINE: u8 = 15;
    pub(super) const VERDICTS: u8 = 16;
    pub(super) const OUTCOME: u8 = 17;
    pub(super) const CLASS: u8 = 18;
    pub(super) const REFUSAL: u8 = 19;
    pub(super) const ANSWER: u8 = 20;
    pub(super) const CONTINUES: u8 = 21;
    pub(super) const TASK: u8 = 22;
    pub(super) const EFFECT: u8 = 23;
    pub(super) const ATTEMPTS: u8 = 24;
    pub(super) const PRICE: u8 = 25;
    pub(super) const POLICY: u8 = 26;
    pub(super) const POLICY_ENTRY: u8 = 27;
    pub(super) const POLICY_DETAIL: u8 = 28;
    pub(super) const QUESTIONS: u8 = 29;
    pub(super) const TICKET: u8 = 30;
    /// Empty: that it is there says that a grant let the call pass.
    pub(super) const BY_GRANT: u8 = 31;
}

/// Encodes a record. Content that goes to the dictionary is only referred to.
pub(crate) fn encode(record: &CallRecord, dictionary: &mut Dictionary) -> Result<Vec<u8>, LedgerError> {
    let mut encoder = Encoder::with_room(RECORD_BYTES);
    encoder.byte(ENCODING_VERSION);
    encoder.number(u64::from(record.record_version));
    write(record, &mut encoder, dictionary)
        .map_err(|error| LedgerError::Record { call_id: record.call_id.to_string(), reason: error.to_string() })?;
    let check = bytes::check_sum(&encoder.bytes);
    encoder.bytes.extend_from_slice(&check);
    Ok(encoder.bytes)
}

/// The pattern names every field, so that the compiler reports a new field that is not encoded.
fn write(record: &CallRecord, to: &mut Encoder, dictionary: &mut Dictionary) -> Result<(), serde_json::Error> {
    let CallRecord {
        record_version: _,
        call_id: _,
        trace_id,
        caller,
        tool,
        contract,
        arguments_digest,
        proposal_digest,
        received_at,
        dispatched_at,
        finished_at,
        deadline_ms,
        verdicts,
        outcome,
        class,
        refusal,
        answer_digest,
        continues,
        task_id,
        effect_id,
        attempts,
        price,
        policy,
        questions,
        ticket_id,
        by_grant,
        // Known only in the process that runs the call.
        trace: _,
    } = record;
    to.field(tag::TRACE, |to| to.text(trace_id));
    parts::write_caller(caller, to);
    parts::write_tool(tool, contract.as_deref(), to, dictionary);
    to.field(tag::ARGUMENTS, |to| to.digest(arguments_digest));
    write_digest(to, tag::PROPOSAL, proposal_digest.as_ref());
    let received_ms = received_at.unix_ms();
    to.field(tag::RECEIVED, |to| to.number(received_ms));
    for (tag, time) in [(tag::DISPATCHED, dispatched_at), (tag::FINISHED, finished_at)] {
        if let Some(time) = time {
            to.field(tag, |to| to.distance(time.unix_ms(), received_ms));
        }
    }
    write_number(to, tag::DEADLINE, *deadline_ms);
    parts::write_verdicts(verdicts, to);
    to.field(tag::OUTCOME, |to| to.byte(outcome.stored_number()));
    if let Some(class) = class {
        to.field(tag::CLASS, |to| to.byte(class.stored_number()));
    }
    write_json(to, tag::REFUSAL, refusal.as_ref())?;
    write_digest(to, tag::ANSWER, answer_digest.as_ref());
    write_text(to, tag::CONTINUES, continues.as_ref().map(CallId::as_str));
    write_text(to, tag::TASK, task_id.as_deref());
    write_text(to, tag::EFFECT, effect_id.as_deref());
    write_number(to, tag::ATTEMPTS, attempts.map(u64::from));
    write_json(to, tag::PRICE, price.as_ref())?;
    if let Some(policy) = policy {
        parts::write_policy(policy, to, dictionary)?;
    }
    write_json(to, tag::QUESTIONS, Some(questions).filter(|questions| !questions.is_empty()))?;
    write_text(to, tag::TICKET, ticket_id.as_deref());
    if *by_grant {
        to.field(tag::BY_GRANT, |_| {});
    }
    Ok(())
}

fn write_text(to: &mut Encoder, tag: u8, text: Option<&str>) {
    if let Some(text) = text {
        to.field(tag, |to| to.text(text));
    }
}

fn write_number(to: &mut Encoder, tag: u8, number: Option<u64>) {
    if let Some(number) = number {
        to.field(tag, |to| to.number(number));
    }
}

fn write_digest(to: &mut Encoder, tag: u8, digest: Option<&Digest>) {
    if let Some(digest) = digest {
        to.field(tag, |to| to.digest(digest));
    }
}

fn write_json(to: &mut Encoder, tag: u8, value: Option<&impl serde::Serialize>) -> Result<(), serde_json::Error> {
    if let Some(value) = value {
        let text = serde_json::to_vec(value)?;
        to.field(tag, |to| to.bytes.extend_from_slice(&text));
    }
    Ok(())
}
