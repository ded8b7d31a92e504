//! The attributes of spans, from the record alone. A record has no arguments and no results; of its texts, only names and ids are taken, no
//! sentence: a message may quote what an upstream wrote.

use servanda_contract::{
    CallRecord, Digest, GateName, TaxonomyClass,
    digest::DigestDomain,
    record::{Outcome, Verdict},
    tool::EffectClass,
};

use super::{
    names,
    otlp::{OtlpAttribute, OtlpScalar, OtlpStatus, OtlpStatusCode, OtlpValue},
};

/// The longest text of an attribute. Names of tools are chosen by those who call, and a name that no tool has is on record too.
const TEXT_CHARS_MAX: usize = 256;

/// Attributes under construction.
#[derive(Debug, Default)]
pub(super) struct AttributeSet(Vec<OtlpAttribute>);

impl AttributeSet {
    pub(super) fn text(mut self, key: &str, text: &str) -> Self {
        self.add(key, OtlpScalar::Text(short(text)));
        self
    }

    pub(super) fn optional_text(self, key: &str, text: Option<&str>) -> Self {
        match text {
            Some(text) => self.text(key, text),
            None => self,
        }
    }

    pub(super) fn flag(mut self, key: &str, flag: bool) -> Self {
        self.add(key, OtlpScalar::Flag(flag));
        self
    }

    pub(super) fn optional_number(mut self, key: &str, number: Option<u32>) -> Self {
        if let Some(number) = number {
            self.add(key, OtlpScalar::Number(i64::from(number)));
        }
        self
    }

    pub(super) fn finish(self) -> Vec<OtlpAttribute> {
        self.0
    }

    fn add(&mut self, key: &str, value: OtlpScalar) {
        self.0.push(OtlpAttribute { key: key.to_owned(), value: Some(OtlpValue { value: Some(value) }) });
    }
}

/// A text that is not too long.
pub(super) fn short(text: &str) -> String {
    text.chars().take(TEXT_CHARS_MAX).collect()
}

/// The attributes of the span of a whole call.
pub(super) fn of_call(record: &CallRecord) -> Vec<OtlpAttribute> {
    let contract = record.contract.as_deref();
    let refusal = record.refusal.as_ref();
    let (decision, gate) = decision(record);
    let set = AttributeSet::default()
        .text(names::MCP_METHOD, names::TOOLS_CALL)
        .text(names::OPERATION, names::EXECUTE_TOOL)
        .text(names::TOOL, &record.tool)
        .optional_text(names::ERROR_TYPE, is_error(record).then_some(names::TOOL_ERROR))
        .optional_text(names::CONTRACT_NAME, contract.map(|contract| contract.name.as_str()))
        .optional_text(names::CONTRACT_VERSION, contract.map(|contract| contract.version.as_str()))
        .text(names::TOOL_CALL_ID, record.call_id.as_str())
        .optional_text(names::SIDE_EFFECT_CLASS, side_effect_class(record))
        .text(names::VALIDATION_STATUS, validation_status(record))
        .optional_text(names::ERROR_CODE, error_class(record).map(TaxonomyClass::name))
        .flag(names::RETRYABLE, refusal.is_some_and(|refusal| refusal.retryable))
        .flag(names::REPAIRABLE, refusal.is_some_and(|refusal| refusal.repairable))
        .optional_text(names::KEY_HASH, record.effect_id.as_deref().map(key_hash).as_deref())
        .optional_text(names::TOOL_APPROVAL_ID, record.ticket_id.as_deref())
        .text(names::TENANT, &record.caller.tenant)
        .flag(names::REPLAYABLE, is_replayable(record));
    set.text(names::CALL_ID, record.call_id.as_str())
        .optional_text(names::CONTINUES, record.continues.as_ref().map(servanda_contract::CallId::as_str))
        .text(names::OUTCOME, record.outcome.name())
        .text(names::DECISION_OUTCOME, decision)
        .optional_text(names::DECISION_GATE, gate.map(|gate| gate.to_string()).as_deref())
        .optional_text(names::APPROVAL_ID, record.ticket_id.as_deref())
        .optional_text(names::EFFECT_ID, record.effect_id.as_deref())
        .optional_text(names::UPSTREAM, contract.map(|contract| contract.upstream.as_str()))
        .finish()
}

/// The attributes of the span of a call at its upstream.
pub(super) fn at_upstream(record: &CallRecord) -> Vec<OtlpAttribute> {
    let contract = record.contract.as_deref();
    AttributeSet::default()
        .text(names::MCP_METHOD, names::TOOLS_CALL)
        .text(names::OPERATION, names::EXECUTE_TOOL)
        .text(names::TOOL, upstream_tool(record))
        .optional_text(names::ERROR_TYPE, is_upstream_error(record).then(|| error_type_at_upstream(record)))
        .text(names::CALL_ID, record.call_id.as_str())
        .optional_text(names::UPSTREAM, contract.map(|contract| contract.upstream.as_str()))
        .optional_number(names::ATTEMPTS, record.attempts)
        .finish()
}

/// The attributes of the span of a stage.
pub(super) fn of_stage(verdict: &Verdict, word: &str) -> Vec<OtlpAttribute> {
    let set = AttributeSet::default().text(names::GATE, &verdict.gate.to_string());
    set.text(names::GATE_DECISION, word).finish()
}

/// The tool's name at its upstream.
pub(super) fn upstream_tool(record: &CallRecord) -> &str {
    record.contract.as_deref().map_or(&record.tool, |contract| &contract.upstream_tool)
}

/// The status of a span: an error says its class and stage, never a message.
pub(super) fn status(record: &CallRecord, is_error: bool) -> Option<OtlpStatus> {
    let class = error_class(record).map_or("ERROR", TaxonomyClass::name);
    let message = match record.refused_at() {
        Some(gate) => format!("{class} at {gate}"),
        None => class.to_owned(),
    };
    is_error.then(|| OtlpStatus { message, code: OtlpStatusCode::Error.into() })
}

/// Whether the caller got an answer with `isError`.
pub(super) fn is_error(record: &CallRecord) -> bool {
    match record.outcome {
        Outcome::Refused | Outcome::ToolError | Outcome::NotExecuted | Outcome::Quarantined | Outcome::Unknown => true,
        Outcome::Completed
        | Outcome::Dispatching
        | Outcome::InputRequired
        | Outcome::TaskCreated
        | Outcome::Replayed
        | Outcome::Previewed => record.refusal.is_some(),
    }
}

/// Whether the upstream is at fault, or its answer is.
pub(super) fn is_upstream_error(record: &CallRecord) -> bool {
    matches!(record.refused_at(), Some(GateName::Perform | GateName::Observe))
        || matches!(record.outcome, Outcome::ToolError | Outcome::Unknown | Outcome::Quarantined)
}

fn error_type_at_upstream(record: &CallRecord) -> &'static str {
    match (record.outcome, record.refused_at(), error_class(record)) {
        // The tool said so itself.
        (Outcome::ToolError, None, _) | (_, _, None) => names::TOOL_ERROR,
        (.., Some(class)) => class.name(),
    }
}

fn error_class(record: &CallRecord) -> Option<TaxonomyClass> {
    record.class.filter(|class| *class != TaxonomyClass::Success)
}

/// What was decided before anything was sent, and by which gate if it did not let the call on.
fn decision(record: &CallRecord) -> (&'static str, Option<GateName>) {
    let before = record.refused_at().filter(|gate| !matches!(gate, GateName::Perform | GateName::Observe));
    match (&record.refusal, before) {
        (Some(refusal), Some(gate)) if refusal.requires_approval => ("approval_pending", Some(gate)),
        (Some(_), Some(gate)) => ("refused", Some(gate)),
        _ if record.outcome == Outcome::Previewed => ("previewed", None),
        _ => ("allowed", None),
    }
}

/// How the specification names the same. A record does not say whether a call repairs another, so `repaired` is never said.
fn validation_status(record: &CallRecord) -> &'static str {
    match (decision(record).0, record.refused_at()) {
        ("approval_pending", _) => "approval_pending",
        (_, Some(GateName::Parse | GateName::Structure | GateName::Types | GateName::Bounds | GateName::Semantics)) => {
            "failed"
        }
        (_, None | Some(GateName::Perform | GateName::Observe)) => "passed",
        _ => "blocked",
    }
}

/// The class of the program among the arguments if there is one, else whether the contract says that something may change.
fn side_effect_class(record: &CallRecord) -> Option<&'static str> {
    let program = record.policy.as_ref().and_then(|policy| policy.program_class);
    let contract = record.contract.as_deref();
    program.map(servanda_contract::tool::SideEffectClass::word).or_else(|| {
        contract.map(|contract| if contract.effect_class == EffectClass::R { "READ_ONLY" } else { "WRITE" })
    })
}

/// One key has one effect while it is kept, so the hash of the effect's handle tells the same as a hash of the key, which no record has.
fn key_hash(effect_id: &str) -> String {
    Digest::compute(DigestDomain::Span, &[b"idempotency key", effect_id.as_bytes()]).to_string()
}

/// Whether the record has what its decision can be made from again: contract, canonical proposal, verdicts.
fn is_replayable(record: &CallRecord) -> bool {
    record.contract.is_some() && record.proposal_digest.is_some() && !record.verdicts.is_empty()
}
