//! The composite parts of a record: caller, tool and contract, verdicts, policy.

use servanda_contract::{
    Caller,
    caller::CallerActor,
    record::{ContractReference, PolicyRecord, Texts, Verdict},
};

use super::{
    bytes::{Decoder, Encoder, MalformedBytes},
    dictionary::Dictionary,
    numbers::{StoredAsNumber, named},
    tag, write_json, write_text,
};

/// The kind of a dictionary entry, its first byte.
const CONTRACT_ENTRY: u8 = 1;
const POLICY_ENTRY: u8 = 2;
/// Bytes that nearly every dictionary entry fits into.
const ENTRY_BYTES: usize = 256;
/// Bits of the gate in the byte that it shares with its decision.
const GATE_BITS: u8 = 5;

/// A caller while it is being read.
#[derive(Debug, Default)]
pub(super) struct PartialCaller {
    names: Option<(String, String)>,
    actors: Vec<CallerActor>,
    credential: Option<String>,
    client: Option<String>,
    session: Option<String>,
}

/// The tool, and the contract if there was one.
#[derive(Debug, Default)]
pub(super) struct PartialTool {
    pub(super) tool: Option<String>,
    pub(super) contract: Option<ContractReference>,
}

pub(super) fn write_caller(caller: &Caller, to: &mut Encoder) {
    let Caller { tenant, principal, actors, credential, client, session } = caller;
    to.field(tag::CALLER, |to| {
        to.text(tenant);
        to.text(principal);
    });
    if !actors.is_empty() {
        to.field(tag::ACTORS, |to| {
            for CallerActor { name, proven } in actors {
                to.byte(u8::from(*proven));
                to.text(name);
            }
        });
    }
    write_text(to, tag::CREDENTIAL, credential.as_deref());
    write_text(to, tag::CLIENT, client.as_deref());
    write_text(to, tag::SESSION, session.as_deref());
}

impl PartialCaller {
    pub(super) fn take(&mut self, tag: u8, from: &mut Decoder<'_>) -> Result<(), MalformedBytes> {
        match tag {
            tag::CALLER => self.names = Some((from.text()?, from.text()?)),
            tag::ACTORS => {
                while !from.is_at_end() {
                    let proven = truth(from)?;
                    self.actors.push(CallerActor { name: from.text()?, proven });
                }
            }
            tag::CREDENTIAL => self.credential = Some(from.text()?),
            tag::CLIENT => self.client = Some(from.text()?),
            _ => self.session = Some(from.text()?),
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Result<Caller, MalformedBytes> {
        let Self { names, actors, credential, client, session } = self;
        let (tenant, principal) = names.ok_or(MalformedBytes("it has no caller"))?;
        Ok(Caller { tenant, principal, actors, credential, client, session })
    }
}

/// Writes the tool as called. With a contract it is a name from the catalog and goes to the dictionary; without
/// one it is the client's own text and stays in the record.
pub(super) fn write_tool(
    tool: &str,
    contract: Option<&ContractReference>,
    to: &mut Encoder,
    dictionary: &mut Dictionary,
) {
    let Some(contract) = contract else { return to.field(tag::TOOL, |to| to.text(tool)) };
    let mut entry = Encoder::with_room(ENTRY_BYTES);
    entry.byte(CONTRACT_ENTRY);
    entry.text(tool);
    write_contract(contract, &mut entry);
    if let Some(id) = dictionary.refer(&entry.bytes) {
        return to.field(tag::CONTRACT_ENTRY, |to| to.bytes.extend_from_slice(&id.0));
    }
    to.field(tag::TOOL, |to| to.text(tool));
    to.field(tag::CONTRACT, |to| write_contract(contract, to));
}

fn write_contract(contract: &ContractReference, to: &mut Encoder) {
    let ContractReference { name, version, digest, upstream, upstream_tool, effect_class } = contract;
    for text in [name, version, upstream, upstream_tool] {
        to.text(text);
    }
    to.digest(digest);
    to.byte(effect_class.stored_number());
}

pub(super) fn read_contract(from: &mut Decoder<'_>) -> Result<ContractReference, MalformedBytes> {
    let [name, version, upstream, upstream_tool] = [from.text()?, from.text()?, from.text()?, from.text()?];
    let (digest, effect_class) = (from.digest()?, named(from)?);
    Ok(ContractReference { name, version, digest, upstream, upstream_tool, effect_class })
}

pub(super) fn read_tool_entry(from: &mut Decoder<'_>) -> Result<PartialTool, MalformedBytes> {
    expect_kind(from, CONTRACT_ENTRY)?;
    let (tool, contract) = (Some(from.text()?), Some(read_contract(from)?));
    from.end()?;
    Ok(PartialTool { tool, contract })
}

/// The tool and the contract's name of a dictionary entry.
pub(super) fn names_of_tool_entry(from: &mut Decoder<'_>) -> Result<[String; 2], MalformedBytes> {
    expect_kind(from, CONTRACT_ENTRY)?;
    Ok([from.text()?, from.text()?])
}

impl PartialTool {
    pub(super) fn finish(self) -> Result<(String, Option<ContractReference>), MalformedBytes> {
        Ok((self.tool.ok_or(MalformedBytes("it has no tool"))?, self.contract))
    }
}

/// Writes each verdict as one byte for gate and decision, followed by its duration.
pub(super) fn write_verdicts(verdicts: &[Verdict], to: &mut Encoder) {
    if verdicts.is_empty() {
        return;
    }
    to.field(tag::VERDICTS, |to| {
        for Verdict { gate, decision, took_us } in verdicts {
            to.byte(gate.stored_number() | decision.stored_number() << GATE_BITS);
            to.number(*took_us);
        }
    });
}

pub(super) fn read_verdicts(from: &mut Decoder<'_>) -> Result<Vec<Verdict>, MalformedBytes> {
    let mut verdicts = Vec::new();
    while !from.is_at_end() {
        let both = from.byte()?;
        let unknown = || MalformedBytes("it has an unknown verdict");
        verdicts.push(Verdict {
            gate: StoredAsNumber::from_stored(both & ((1 << GATE_BITS) - 1)).ok_or_else(unknown)?,
            decision: StoredAsNumber::from_stored(both >> GATE_BITS).ok_or_else(unknown)?,
            took_us: from.number()?,
        });
    }
    Ok(verdicts)
}

/// Writes what operators and issuers decide to the dictionary. What the client said in this one call, and what
/// shadow policies said, stays in the record.
pub(super) fn write_policy(
    policy: &PolicyRecord,
    to: &mut Encoder,
    dictionary: &mut Dictionary,
) -> Result<(), serde_json::Error> {
    let PolicyRecord { by, scopes, groups, task, intent, program_class, shadow } = policy;
    let mut entry = Encoder::with_room(ENTRY_BYTES);
    entry.byte(POLICY_ENTRY);
    write_terms([by, scopes], groups.as_ref(), &mut entry);
    match dictionary.refer(&entry.bytes) {
        Some(id) => to.field(tag::POLICY_ENTRY, |to| to.bytes.extend_from_slice(&id.0)),
        None => to.field(tag::POLICY, |to| write_terms([by, scopes], groups.as_ref(), to)),
    }
    let has_detail = task.is_some() || intent.is_some() || program_class.is_some() || shadow.is_some();
    let detail = has_detail.then(|| PolicyRecord {
        task: task.clone(),
        intent: intent.clone(),
        program_class: *program_class,
        shadow: shadow.clone(),
        ..PolicyRecord::default()
    });
    write_json(to, tag::POLICY_DETAIL, detail.as_ref())
}

fn write_terms(both: [&Texts; 2], groups: Option<&Texts>, to: &mut Encoder) {
    for texts in both {
        to.texts(texts.as_slice().iter().map(String::as_str));
    }
    to.byte(u8::from(groups.is_some()));
    if let Some(groups) = groups {
        to.texts(groups.as_slice().iter().map(String::as_str));
    }
}

pub(super) fn read_policy(from: &mut Decoder<'_>) -> Result<PolicyRecord, MalformedBytes> {
    let (by, scopes) = (from.texts()?, from.texts()?);
    let groups = if truth(from)? { Some(from.texts()?) } else { None };
    Ok(PolicyRecord { by, scopes, groups, ..PolicyRecord::default() })
}

pub(super) fn read_policy_entry(from: &mut Decoder<'_>) -> Result<PolicyRecord, MalformedBytes> {
    expect_kind(from, POLICY_ENTRY)?;
    let policy = read_policy(from)?;
    from.end()?;
    Ok(policy)
}

/// Joins the two halves of a policy record.
pub(super) fn with_detail(terms: Option<PolicyRecord>, detail: PolicyRecord) -> Result<PolicyRecord, MalformedBytes> {
    let PolicyRecord { by, scopes, groups, .. } =
        terms.ok_or(MalformedBytes("it has policy details but no policies"))?;
    Ok(PolicyRecord { by, scopes, groups, ..detail })
}

fn truth(from: &mut Decoder<'_>) -> Result<bool, MalformedBytes> {
    match from.byte()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(MalformedBytes("it has a boolean that is neither true nor false")),
    }
}

fn expect_kind(from: &mut Decoder<'_>, kind: u8) -> Result<(), MalformedBytes> {
    if from.byte()? == kind { Ok(()) } else { Err(MalformedBytes("it refers to the wrong kind of dictionary entry")) }
}
