//! The wording of the engine's own refusals: no such tool, no upstream, a ledger too slow, an answer withheld.

use servanda_catalog::{ResolveError, ToolHold};
use servanda_contract::{
    CallId, GateName, Proposal, Refusal, TaxonomyClass,
    refusal::EffectKnowledge,
    taxonomy::{EnvelopeCode, NextAction},
    tool::EffectClass,
};
use servanda_effects::{
    JournalError,
    effect::{self, EffectRules},
};
use servanda_mcp::{RpcError, envelope::code};
use servanda_policy::PrincipalError;

use super::observe::InvalidAnswer;
use crate::questions::MissingInput;

/// After how long to retry a call that could not be put on record.
const RECORD_RETRY_AFTER_MS: u64 = 2_000;
/// After how long to retry a change of something that other calls are changing.
const TURN_RETRY_AFTER_MS: u64 = 1_000;

/// Where operators read why a tool is held back, and release it.
const QUARANTINE_REVIEW: &str = "`servanda quarantine list` says why, `servanda quarantine release` lets it go";
/// Where operators look when the ledger does not take what it should.
const LEDGER_REVIEW: &str = "`servanda doctor` looks at the ledger";

pub(crate) fn not_resolved(proposal: &Proposal, reason: ResolveError) -> Refusal {
    let call_id = proposal.call_id.clone();
    let shown: String = proposal.tool.chars().take(128).collect();
    match reason {
        ResolveError::Unknown { did_you_mean } => {
            // Many clients show their model the message alone.
            let meant = did_you_mean.as_ref().map_or_else(String::new, |name| format!("; did you mean `{name}`?"));
            let hint = "call a tool that `tools/list` has".to_owned();
            unknown_tool(call_id, format!("there is no tool `{shown}`{meant}"), hint)
        }
        ResolveError::Gone { upstream } => {
            let message = format!("`{shown}` is no longer offered by `{upstream}`");
            unknown_tool(call_id, message, "call a tool that `tools/list` has now".to_owned())
                .for_operators("it has no contract any more")
        }
        ResolveError::Withdrawn { upstream } => Refusal::new(
            call_id,
            GateName::Resolve,
            TaxonomyClass::DependencyUnavailable,
            format!(
                "`{shown}` has a contract, but the upstream `{upstream}` no longer offers it, or not to this client"
            ),
            "use another tool".to_owned(),
        )
        .for_operators("`servanda tools` shows what each upstream offers")
        .with_next_action(NextAction::UseAnotherTool),
        ResolveError::Held { hold } => held(call_id, &shown, &hold),
    }
}

fn unknown_tool(call_id: CallId, message: String, hint: String) -> Refusal {
    let mut refusal = Refusal::new(call_id, GateName::Resolve, TaxonomyClass::StructuralViolation, message, hint);
    refusal.envelope_code = EnvelopeCode::ToolNotFound;
    refusal.with_next_action(NextAction::UseAnotherTool)
}

/// The policies cannot represent the caller.
pub(crate) fn no_principal(call_id: CallId, error: &PrincipalError) -> Box<Refusal> {
    tracing::error!(%call_id, %error, "the policies cannot represent a caller");
    let message = "the policies cannot represent this caller".to_owned();
    let hint = "tell the user: only an operator can change this".to_owned();
    let refusal = Refusal::new(call_id, GateName::Policy, TaxonomyClass::PolicyViolation, message, hint);
    Box::new(refusal.for_operators("the policies do not accept the name of the tenant or the number of scopes"))
}

/// A tool that is held back. The reason is text that its server wrote, which must not reach the agent through the refusal: only operators
/// see it.
fn held(call_id: CallId, tool: &str, hold: &ToolHold) -> Refusal {
    let review = format!("`servanda diff {tool}` shows it, `servanda pin {tool}` agrees to it");
    let (class, why, operators) = match hold {
        ToolHold::Observed { .. } => (
            TaxonomyClass::PolicyViolation,
            "it changed something although its contract says that it only reads".to_owned(),
            QUARANTINE_REVIEW.to_owned(),
        ),
        // The reason is for operators only.
        ToolHold::Blocked { .. } => {
            (TaxonomyClass::PolicyViolation, "an operator holds it back".to_owned(), QUARANTINE_REVIEW.to_owned())
        }
        ToolHold::Quarantined { severity, .. } => (
            TaxonomyClass::PolicyViolation,
            format!("its definition at the upstream changed since a person agreed to it ({} change)", severity.word()),
            review,
        ),
        ToolHold::Unpinned => (
            TaxonomyClass::PolicyViolation,
            "no person has agreed to its definition at the upstream yet".to_owned(),
            review,
        ),
        ToolHold::Rejected { .. } => (
            TaxonomyClass::PolicyViolation,
            "its definition at the upstream cannot be used".to_owned(),
            format!("`servanda diff {tool}` says why; tell the server's author"),
        ),
        ToolHold::Incompatible { reasons } => (
            TaxonomyClass::DependencyUnavailable,
            format!("it does not take what its contract says ({})", counted(reasons.len(), "difference")),
            format!("`servanda diff {tool}` says where; correct the contract"),
        ),
    };
    let message = format!("`{tool}` is held back: {why}");
    Refusal::new(call_id, GateName::Resolve, class, message, "use another tool, or tell the user".to_owned())
        .for_operators(operators)
        .with_next_action(NextAction::UseAnotherTool)
}

fn counted(number: usize, thing: &str) -> String {
    if number == 1 { format!("one {thing}") } else { format!("{number} {thing}s") }
}

pub(crate) fn quarantined(call_id: &CallId, effect_class: EffectClass, broken: InvalidAnswer) -> Refusal {
    let mutates = effect_class.mutates();
    let effect = if mutates { EffectKnowledge::Happened } else { EffectKnowledge::None };
    let happened = if mutates { "; the effect happened, do not repeat the call" } else { "" };
    Refusal::new(
        call_id.clone(),
        GateName::Observe,
        TaxonomyClass::ObservationNormalizationFail,
        format!("the upstream's answer {}{happened}", broken.message),
        "the answer was kept back; a person can look at it".to_owned(),
    )
    .for_operators(format!("`servanda explain {call_id} --quarantined` shows the answer"))
    .with_field_errors(broken.errors)
    .with_effect(effect)
}

/// A contract whose upstream is not configured.
pub(crate) fn no_upstream(call_id: CallId, id: &str) -> Box<Refusal> {
    Box::new(
        Refusal::new(
            call_id,
            GateName::Perform,
            TaxonomyClass::DependencyUnavailable,
            format!("no upstream `{id}` is configured"),
            "use another tool, or tell the user".to_owned(),
        )
        .for_operators("add the upstream to servanda.yaml; `servanda check` finds such contracts")
        .with_next_action(NextAction::UseAnotherTool),
    )
}

/// A call that could not be put on record in the time it had.
pub(crate) fn fence_too_slow(call_id: CallId, class: EffectClass, can_come_again: bool) -> Box<Refusal> {
    let mut refusal = Box::new(
        Refusal::new(
            call_id,
            GateName::Fence,
            TaxonomyClass::DependencyUnavailable,
            "not sent: the call could not be put on record in time".to_owned(),
            "try again later".to_owned(),
        )
        .for_operators(LEDGER_REVIEW),
    );
    let of_key = effect::knowledge_of_unread_key(can_come_again, EffectRules::IN_FORCE);
    match effect::knowledge_without_mark(class, true, of_key) {
        EffectKnowledge::None => {}
        EffectKnowledge::Unknown => refusal.leave_in_doubt(),
        EffectKnowledge::UnknownBefore | EffectKnowledge::Happened => refusal.mark_unknown_before(),
    }
    refusal
}

/// A call that changes something that other calls are changing, and whose turn did not come.
pub(crate) fn turn_not_reached(call_id: CallId) -> Box<Refusal> {
    let mut refusal = Refusal::new(
        call_id,
        GateName::Fence,
        TaxonomyClass::IdempotencyConflict,
        "not sent: other calls were changing the same thing all the time".to_owned(),
        "wait, check whether the change is still wanted, then make the same call again".to_owned(),
    );
    refusal.retry_after_ms = Some(TURN_RETRY_AFTER_MS);
    Box::new(refusal)
}

/// A call that its caller gave up before anything was sent.
pub(crate) fn given_up(call_id: CallId) -> Box<Refusal> {
    let mut refusal = Refusal::new(
        call_id,
        GateName::State,
        TaxonomyClass::DependencyUnavailable,
        "the caller gave up the call before anything was sent".to_owned(),
        "call again if it is still wanted".to_owned(),
    )
    .with_next_action(NextAction::ReplanOrAskUser);
    refusal.retryable = false;
    Box::new(refusal)
}

/// A call that the upstream answered, and whose end is not in the store yet.
pub(crate) fn not_on_record_yet(call_id: &CallId, handle: &str, effect: EffectKnowledge) -> Refusal {
    let refusal = Refusal::new(
        call_id.clone(),
        GateName::Observe,
        TaxonomyClass::DependencyUnavailable,
        "the tool answered, but its answer could not be put on record yet".to_owned(),
        "do not start a new operation; the same call with the same key gets the answer once it is on record".to_owned(),
    );
    let mut refusal = refusal.with_effect(effect).with_handle(handle).with_next_action(NextAction::RetryWithSameKey);
    refusal.retryable = false;
    refusal
}

/// A call whose effect another dispatch continued while the call was running.
pub(crate) fn superseded_by_dispatch(call_id: &CallId) -> Refusal {
    let mut refusal = Refusal::new(
        call_id.clone(),
        GateName::Fence,
        TaxonomyClass::IdempotencyConflict,
        "another dispatch continued the operation while this call was running".to_owned(),
        "make the same call again with the same key: it is answered with the operation's outcome".to_owned(),
    )
    .with_next_action(NextAction::RetryWithSameKey);
    refusal.retryable = false;
    refusal
}

/// A call that did nothing, or does not know whether it did, while another call with its key did the operation.
pub(crate) fn done_by_another(call_id: &CallId) -> Refusal {
    Refusal::new(
        call_id.clone(),
        GateName::Fence,
        TaxonomyClass::IdempotencyConflict,
        "another call with the same key did the operation meanwhile".to_owned(),
        "make the same call again with the same key: it is answered with the result".to_owned(),
    )
    .with_effect(EffectKnowledge::Happened)
    .with_next_action(NextAction::RetryWithSameKey)
}

/// A call whose key could not be made.
pub(crate) fn no_key(call_id: CallId, error: &JournalError) -> Box<Refusal> {
    Box::new(
        Refusal::new(
            call_id,
            GateName::Fence,
            TaxonomyClass::DependencyUnavailable,
            format!("the key of the operation could not be made, so nothing was sent: {error}"),
            "try again later".to_owned(),
        )
        .for_operators(LEDGER_REVIEW),
    )
}

/// A call that brings the state of one operation and the key of another.
pub(crate) fn key_of_another_operation(call_id: CallId) -> Refusal {
    Refusal::new(
        call_id,
        GateName::Fence,
        TaxonomyClass::SignatureMismatch,
        "the `requestState` belongs to another operation than the one that is named, so nothing was sent".to_owned(),
        "continue with the key of the first call, or without a key".to_owned(),
    )
}

/// A call that brings the state of one upstream, for a tool that another upstream performs now.
pub(crate) fn performed_by_another_upstream(call_id: CallId) -> Refusal {
    Refusal::new(
        call_id,
        GateName::Resolve,
        TaxonomyClass::StaleState,
        "the tool moved to another upstream after the first one asked for input".to_owned(),
        "make the call again without `requestState`".to_owned(),
    )
}

/// A fenced call that the upstream did not give back.
pub(crate) fn lost_evidence(call_id: CallId) -> Box<Refusal> {
    let message = "the call was sent, and its outcome is unknown".to_owned();
    let hint = "do not send it again; look at the target, or ask a person".to_owned();
    let class = TaxonomyClass::UnknownError;
    Box::new(Refusal::new(call_id, GateName::Perform, class, message, hint).with_effect(EffectKnowledge::Unknown))
}

/// An upstream's error that the protocol itself defines, for the record.
pub(crate) fn rejected_by_protocol(call_id: &CallId, error: &RpcError) -> Refusal {
    Refusal::new(
        call_id.clone(),
        GateName::Perform,
        TaxonomyClass::StructuralViolation,
        format!("the request was rejected with error {}: {}", error.code, error.message),
        "the error was passed on as it was: it is for the client, not for the model".to_owned(),
    )
}

/// An inquiry whose parameters do not fit.
pub(crate) fn invalid_params(message: impl Into<String>) -> RpcError {
    RpcError::new(code::INVALID_PARAMS, message)
}

/// A state that a call cannot continue from, for the record.
pub(crate) fn round_refused(call_id: &CallId, error: &RpcError) -> Refusal {
    let hint = "see how the call that used it ended, and call again only if it is still wanted".to_owned();
    let class = TaxonomyClass::StaleState;
    let mut refusal = Refusal::new(call_id.clone(), GateName::Fence, class, error.message.clone(), hint);
    refusal.repairable = false;
    refusal.retryable = false;
    refusal
}

/// The protocol's error for a client that lacks a capability; `required` is JSON.
pub(crate) fn undeclared(required: &str) -> RpcError {
    let data = serde_json::value::RawValue::from_string(format!(r#"{{"requiredCapabilities":{required}}}"#)).ok();
    let message = "the upstream asks for input that the client did not declare it can give".to_owned();
    RpcError { code: code::MISSING_CLIENT_CAPABILITY, message, data }
}

/// A server asked for input, and its client did not give it.
pub(crate) fn input_not_given(call_id: &CallId, what: &MissingInput, effect: EffectKnowledge) -> Refusal {
    let hint = match effect {
        EffectKnowledge::None => "tell the user what was asked, and call again if it can be given",
        _ => "part of it may be done: tell the user, and look at the target before calling again",
    };
    let mut refusal = Refusal::new(
        call_id.clone(),
        GateName::Perform,
        TaxonomyClass::SemanticInvalidity,
        format!("the upstream asked for `{}` and did not get it: {}", what.method, what.why),
        hint.to_owned(),
    )
    .with_effect(effect);
    refusal.repairable = false;
    refusal.next_action = NextAction::ReplanOrAskUser;
    refusal
}

/// A caller whose calls were refused too often.
pub(crate) fn too_many_refused(call_id: &CallId, wait_ms: u64) -> Refusal {
    let mut refusal = Refusal::new(
        call_id.clone(),
        GateName::Resolve,
        TaxonomyClass::RateLimited,
        "too many of your calls were refused in the last minute, so this one was not checked".to_owned(),
        "wait, read why the earlier calls were refused, and correct them before calling again".to_owned(),
    );
    refusal.retry_after_ms = Some(wait_ms);
    refusal
}

/// A call that could not be put on record however it ended, so it is not read.
pub(crate) fn no_record_possible(call_id: &CallId, why: &str) -> Refusal {
    let mut refusal = Refusal::new(
        call_id.clone(),
        GateName::Resolve,
        TaxonomyClass::DependencyUnavailable,
        format!("the gateway cannot put calls on record at present, so this one was not read: {why}"),
        "make the same call again when the gateway's store takes writes".to_owned(),
    )
    .for_operators("`servanda doctor` looks at the store");
    refusal.retry_after_ms = Some(RECORD_RETRY_AFTER_MS);
    refusal
}

/// A task whose id could not be stored: it runs, and no client could ask for it.
pub(crate) fn task_not_kept(call_id: &CallId) -> Refusal {
    let mut refusal = Refusal::new(
        call_id.clone(),
        GateName::Observe,
        TaxonomyClass::DependencyUnavailable,
        "the upstream runs the call as a task, but the gateway could not store the task's id".to_owned(),
        "do not send it again; look at the target, or ask a person".to_owned(),
    )
    .with_effect(EffectKnowledge::Unknown)
    .with_next_action(NextAction::StopAndTellUser);
    // The task runs: sending the call again could do it twice.
    refusal.retryable = false;
    refusal
}
