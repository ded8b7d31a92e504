//! What a failure at the upstream means to the caller: the class, what is known about the outside world, and whether the same call may be
//! made again. A pure table: only a call that provably never left counts as not executed. What a server says about itself is no proof.

use servanda_contract::{
    CallId, GateName, Refusal, TaxonomyClass, record::Outcome, refusal::EffectKnowledge, taxonomy::NextAction,
    tool::ToolContract,
};
use servanda_effects::effect::{EffectRules, knowledge_after_attempt};
use servanda_gates::CompiledContract;
use servanda_mcp::{Era, RpcError, envelope::code};
use servanda_upstream::{CredentialLack, PerformFailure};

use crate::questions::ClientFailure;

/// The refusal for a failure, and the outcome to record. `was_sent_before` says that an earlier dispatch with the key may have done the
/// operation.
pub(crate) fn interpret(
    call_id: &CallId,
    contract: &ToolContract,
    failure: &PerformFailure,
    was_sent_before: bool,
) -> (Refusal, Outcome) {
    let class = class(contract, failure);
    let (attempt, outcome) = knowledge(contract, failure);
    let effect = knowledge_after_attempt(attempt, was_sent_before, EffectRules::IN_FORCE);
    if attempt != effect {
        return (earlier_dispatch_in_doubt(call_id, class, failure, effect), Outcome::Unknown);
    }
    let hint = hint(failure, effect);
    let mut refusal =
        Refusal::new(call_id.clone(), GateName::Perform, class, failure.to_string(), hint).with_effect(effect);
    // The same call may be made again only if nothing was sent, or if nothing can be changed and the class says so.
    let cancelled = matches!(failure, PerformFailure::Cancelled { .. });
    let read_again = effect == EffectKnowledge::None && (refusal.retryable || class == TaxonomyClass::Timeout);
    // Trying again does not help a caller that lacks permission.
    let locked_out = class == TaxonomyClass::PermissionDenied && failure.lack().is_some();
    refusal.retryable = !cancelled && !locked_out && (outcome == Outcome::NotExecuted || read_again);
    if refusal.retryable {
        refusal.next_action = NextAction::RetryAfterDelay;
    } else if refusal.next_action == NextAction::RetryAfterDelay {
        // The caller gave up the call, so only the caller can say whether it is still wanted.
        refusal.next_action = NextAction::ReplanOrAskUser;
    }
    refusal.operator_hint = operator_hint(failure).map(str::to_owned);
    if effect == EffectKnowledge::Unknown {
        refusal.fail_closed = true;
        refusal.escalate = true;
        refusal.next_action = NextAction::StopAndTellUser;
    }
    (refusal, outcome)
}

/// The message for a call that ran out of time: first the limit and where a person changes it, then what else is known.
pub(crate) fn out_of_time(failure: &PerformFailure, contract: &CompiledContract, deadline_ms: Option<u64>) -> String {
    let of_contract_ms = contract.contract().timeout_ms();
    let said = match (deadline_ms, contract.time_limit_place()) {
        (Some(waited_ms), _) if waited_ms < of_contract_ms => {
            format!(
                "no answer within the {waited_ms} ms that its caller waits; its contract allows {of_contract_ms} ms"
            )
        }
        (_, Some(place)) => format!("no answer within {of_contract_ms} ms: {place}"),
        (_, None) => format!("no answer within {of_contract_ms} ms: `{}`", contract.contract().timeout_field()),
    };
    match failure {
        PerformFailure::TimedOut { note: Some(note) } => format!("{said}; {note}"),
        _ => said,
    }
}

/// This attempt did nothing, but an earlier one with the same key may have done the operation. Only calls whose upstream knows keys are
/// sent a second time, so the same call with the same key is safe.
fn earlier_dispatch_in_doubt(
    call_id: &CallId,
    class: TaxonomyClass,
    failure: &PerformFailure,
    effect: EffectKnowledge,
) -> Refusal {
    let message =
        format!("nothing was done this time, but an earlier call with this key may have been done: {failure}");
    let hint = "make the same call again later, with the same key and no other";
    let mut refusal =
        Refusal::new(call_id.clone(), GateName::Perform, class, message, hint.to_owned()).with_effect(effect);
    refusal.retryable = true;
    refusal.fail_closed = true;
    refusal.next_action = NextAction::RetryWithSameKey;
    refusal
}

/// The error to pass on as it is: one that the protocol defines to mean that the server did not take the request. A tool result cannot say
/// this, and the client knows what to do about it. The error is for the client; it does not prove that nothing was done.
pub(crate) fn protocol_error(failure: &ClientFailure, requester_era: Era, wants_task: bool) -> Option<RpcError> {
    let error = server_error(failure)?;
    let passes = match error.code {
        code::HEADER_MISMATCH | code::MISSING_CLIENT_CAPABILITY | code::UNSUPPORTED_PROTOCOL_VERSION => true,
        code::URL_ELICITATION_REQUIRED => requester_era == Era::Legacy,
        // The tool cannot be called as a task.
        code::METHOD_NOT_FOUND => requester_era == Era::Legacy && wants_task,
        _ => false,
    };
    passes.then_some(error)
}

/// The server's own error as a caller may be told it, if the server answered with one.
pub(crate) fn server_error(failure: &ClientFailure) -> Option<RpcError> {
    let PerformFailure::Rejected { code, message, data, .. } = &**failure else { return None };
    Some(RpcError { code: *code, message: message.clone(), data: data.clone() })
}

/// What is known of a call that was answered with an error of the protocol: a server may do something first and then answer so. A tool that
/// changes nothing leaves no doubt.
pub(crate) fn after_protocol_error(
    contract: &ToolContract,
    failure: &PerformFailure,
    was_sent_before: bool,
) -> (EffectKnowledge, Outcome) {
    if was_sent_before {
        return (EffectKnowledge::Unknown, Outcome::Unknown);
    }
    if contract.effect_class().mutates() && !means_not_executed(contract, failure) {
        (EffectKnowledge::Unknown, Outcome::Unknown)
    } else {
        (EffectKnowledge::None, Outcome::NotExecuted)
    }
}

/// The failure of a step that follows something that was sent and answered: another round, or a question about a task. The step itself may
/// not have left, but that no longer proves that nothing was executed.
pub(crate) fn after_sending(failure: PerformFailure) -> PerformFailure {
    match failure {
        PerformFailure::Unavailable { why } => PerformFailure::Died { why },
        PerformFailure::Busy { in_flight_max } => {
            PerformFailure::Died { why: format!("it already has {in_flight_max} requests in flight") }
        }
        PerformFailure::Cancelled { .. } => PerformFailure::Cancelled { sent: true },
        lacking @ (PerformFailure::NotPresented(_) | PerformFailure::NotLetIn { .. }) => {
            PerformFailure::Died { why: lacking.to_string() }
        }
        other => other,
    }
}

/// The failure of a task that ended with that error. Whatever the code, the task had begun: nothing proves that nothing was done.
pub(crate) fn rejected(error: RpcError) -> PerformFailure {
    let RpcError { code, message, data } = error;
    PerformFailure::Rejected { code, message, data, era: Era::Legacy }
}

fn class(contract: &ToolContract, failure: &PerformFailure) -> TaxonomyClass {
    match failure {
        PerformFailure::TimedOut { .. } => TaxonomyClass::Timeout,
        PerformFailure::Unavailable { .. }
        | PerformFailure::Died { .. }
        | PerformFailure::Cancelled { .. }
        | PerformFailure::HttpStatus { .. } => TaxonomyClass::DependencyUnavailable,
        PerformFailure::NotPresented(why) | PerformFailure::NotLetIn { why, .. } => match why.lack {
            CredentialLack::Unavailable => TaxonomyClass::DependencyUnavailable,
            CredentialLack::NotPermitted => TaxonomyClass::PermissionDenied,
        },
        PerformFailure::Busy { .. } => TaxonomyClass::RateLimited,
        PerformFailure::TooLarge { .. } | PerformFailure::Malformed { .. } => {
            TaxonomyClass::ObservationNormalizationFail
        }
        PerformFailure::Rejected { code, message, .. } => mapped_class(contract, &code.to_string())
            .or_else(|| mapped_class_in_text(contract, message))
            .unwrap_or(TaxonomyClass::UnknownError),
    }
}

/// What is known after a failure. Once a byte has left, the effect is unknown, even after a clean error; a tool that changes nothing
/// leaves no doubt.
fn knowledge(contract: &ToolContract, failure: &PerformFailure) -> (EffectKnowledge, Outcome) {
    if failure.provably_not_executed() || means_not_executed(contract, failure) {
        (EffectKnowledge::None, Outcome::NotExecuted)
    } else if !contract.effect_class().mutates() {
        (EffectKnowledge::None, Outcome::ToolError)
    } else {
        (EffectKnowledge::Unknown, Outcome::Unknown)
    }
}

fn hint(failure: &PerformFailure, effect: EffectKnowledge) -> String {
    match (effect, failure) {
        (EffectKnowledge::Unknown, _) => {
            "it may have happened: do not send it again; look at the target, or ask a person".to_owned()
        }
        (_, PerformFailure::Unavailable { .. }) => "nothing was sent; try again later, or use another tool".to_owned(),
        (_, PerformFailure::NotPresented(why) | PerformFailure::NotLetIn { why, .. }) => match &why.hint {
            Some(hint) => format!("nothing was done; tell a person who runs this: `{hint}`"),
            None => "nothing was done; tell a person who runs this".to_owned(),
        },
        (_, PerformFailure::Busy { .. }) => "nothing was sent; wait a moment and try again".to_owned(),
        (_, PerformFailure::TimedOut { .. }) => "nothing was changed; ask for less, or try again later".to_owned(),
        (_, PerformFailure::TooLarge { .. }) => "nothing was changed; ask for less at a time".to_owned(),
        (_, PerformFailure::Cancelled { .. }) => "nothing was changed; call again if it is still wanted".to_owned(),
        (_, PerformFailure::Rejected { .. }) => {
            "read the upstream's message and correct the call if it says how".to_owned()
        }
        (_, PerformFailure::Died { .. } | PerformFailure::HttpStatus { .. } | PerformFailure::Malformed { .. }) => {
            "nothing was changed; try again, and tell a person if it fails again".to_owned()
        }
    }
}

/// What the operator can do about a server that did not answer, or does not let the gateway in.
fn operator_hint(failure: &PerformFailure) -> Option<&'static str> {
    match failure {
        PerformFailure::Unavailable { .. }
        | PerformFailure::NotPresented(_)
        | PerformFailure::NotLetIn { .. }
        | PerformFailure::Died { .. }
        | PerformFailure::HttpStatus { .. }
        | PerformFailure::Malformed { .. } => Some("`servanda doctor` looks at every upstream"),
        PerformFailure::Busy { .. }
        | PerformFailure::TimedOut { .. }
        | PerformFailure::TooLarge { .. }
        | PerformFailure::Cancelled { .. }
        | PerformFailure::Rejected { .. } => None,
    }
}

/// Whether the contract says that this error of the upstream means that nothing was done.
pub(crate) fn means_not_executed(contract: &ToolContract, failure: &PerformFailure) -> bool {
    match failure {
        PerformFailure::Rejected { code, message, .. } => {
            lists_code(contract, *code) || says_not_executed(contract, message)
        }
        PerformFailure::HttpStatus { status, excerpt, .. } => {
            lists_code(contract, i64::from(*status)) || says_not_executed(contract, excerpt)
        }
        _ => false,
    }
}

/// Whether the contract says that this text in a tool's own error means that nothing was done.
pub(crate) fn says_not_executed(contract: &ToolContract, message: &str) -> bool {
    let message = message.to_lowercase();
    // A number is a code: in a text it may mean anything.
    let texts =
        not_executed_errors(contract).iter().filter(|text| text.parse::<i64>().is_err() && !text.trim().is_empty());
    texts.into_iter().any(|text| message.contains(&text.to_lowercase()))
}

fn lists_code(contract: &ToolContract, code: i64) -> bool {
    not_executed_errors(contract).iter().any(|listed| listed.parse() == Ok(code))
}

fn not_executed_errors(contract: &ToolContract) -> &[String] {
    contract.effect.as_ref().map_or(&[], |effect| &effect.not_executed_errors)
}

/// The taxonomy class the contract maps an upstream's own code to.
fn mapped_class(contract: &ToolContract, code: &str) -> Option<TaxonomyClass> {
    contract.observability.error_taxonomy_mapping.get(code).and_then(|name| TaxonomyClass::from_name(name))
}

/// The taxonomy class of the first mapped text that occurs in an upstream's message.
pub(crate) fn mapped_class_in_text(contract: &ToolContract, message: &str) -> Option<TaxonomyClass> {
    let message = message.to_lowercase();
    let mapping = &contract.observability.error_taxonomy_mapping;
    mapping
        .iter()
        .find(|(text, _)| !text.is_empty() && message.contains(&text.to_lowercase()))
        .and_then(|(_, name)| TaxonomyClass::from_name(name))
}

#[cfg(test)]
mod tests {
    use servanda_contract::{
        CallId, TaxonomyClass, ToolContract, document, record::Outcome, refusal::EffectKnowledge, tool::EffectClass,
    };
    use servanda_mcp::{Era, RpcError};
    use servanda_upstream::PerformFailure;

    use super::{interpret, protocol_error};
    use crate::questions::{ClientFailure, QuestionRules};

    fn put(failure: PerformFailure) -> ClientFailure {
        QuestionRules::new(&std::sync::Arc::from("up"), true).failure_for_client(failure, &mut Vec::new())
    }

    fn contract(class: EffectClass) -> ToolContract {
        let text = include_str!("../../../contract/tests/fixtures/void_invoice.yaml");
        let mut contract: ToolContract = document::read("void_invoice.yaml", text).unwrap();
        contract.effect.as_mut().unwrap().class = class;
        contract.observability.error_taxonomy_mapping.insert("-32602".to_owned(), "STRUCTURAL_VIOLATION".to_owned());
        contract
    }

    fn rejected(code: i64, message: &str) -> PerformFailure {
        super::rejected(RpcError::new(code, message))
    }

    #[test]
    fn errors_of_the_protocol_itself_pass() {
        // code, for a modern requester, for a legacy one, for a legacy one that wants a task
        let table = [
            (-32020, true, true, true),
            (-32021, true, true, true),
            (-32022, true, true, true),
            (-32042, false, true, true),
            (-32601, false, false, true),
            (-32602, false, false, false),
            (-32603, false, false, false),
        ];
        for (code, modern, legacy, with_task) in table {
            let failure = put(rejected(code, "why"));
            let passes = |era, task| protocol_error(&failure, era, task).is_some();
            let found = [passes(Era::Modern, false), passes(Era::Legacy, false), passes(Era::Legacy, true)];
            assert_eq!(found, [modern, legacy, with_task], "{code}");
        }
        let died = put(PerformFailure::Died { why: String::new() });
        assert!(protocol_error(&died, Era::Legacy, true).is_none());
    }

    #[test]
    fn only_what_provably_never_left_may_be_sent_again() {
        use EffectKnowledge::{None, Unknown};
        use TaxonomyClass as Class;
        let unavailable = PerformFailure::Unavailable { why: "refused".to_owned() };
        let died = PerformFailure::Died { why: "exit".to_owned() };
        let table = [
            // failure, class, knowledge for R, knowledge for N, outcome for N
            (unavailable, Class::DependencyUnavailable, None, None, Outcome::NotExecuted),
            (PerformFailure::Busy { in_flight_max: 1 }, Class::RateLimited, None, None, Outcome::NotExecuted),
            (PerformFailure::Cancelled { sent: false }, Class::DependencyUnavailable, None, None, Outcome::NotExecuted),
            (PerformFailure::Cancelled { sent: true }, Class::DependencyUnavailable, None, Unknown, Outcome::Unknown),
            (PerformFailure::TimedOut { note: Option::None }, Class::Timeout, None, Unknown, Outcome::Unknown),
            (died, Class::DependencyUnavailable, None, Unknown, Outcome::Unknown),
            (rejected(-32603, "boom"), Class::UnknownError, None, Unknown, Outcome::Unknown),
            (rejected(-32602, "bad"), Class::StructuralViolation, None, Unknown, Outcome::Unknown),
            (rejected(-32021, "no"), Class::UnknownError, None, Unknown, Outcome::Unknown),
            (rejected(7, "No such invoice"), Class::StaleState, None, Unknown, Outcome::Unknown),
            (
                PerformFailure::TooLarge { bytes_max: 1 },
                Class::ObservationNormalizationFail,
                None,
                Unknown,
                Outcome::Unknown,
            ),
        ];
        for (failure, class, for_reads, for_changes, outcome) in table {
            let (read, _) = interpret(&CallId::new(), &contract(EffectClass::R), &failure, false);
            let (change, changed) = interpret(&CallId::new(), &contract(EffectClass::N), &failure, false);
            assert_eq!(
                (read.error_code, read.effect, change.effect, changed),
                (class, for_reads, for_changes, outcome),
                "{failure}"
            );
            let cancelled = matches!(failure, PerformFailure::Cancelled { .. });
            assert_eq!(change.retryable, for_changes == None && !cancelled, "{failure}");
            assert_eq!(change.hint.contains("do not send it again"), for_changes == Unknown, "{failure}");
        }
    }

    #[test]
    fn a_contract_may_say_which_errors_mean_that_nothing_was_done() {
        let mut contract = contract(EffectClass::N);
        contract.effect.as_mut().unwrap().not_executed_errors =
            vec!["-32602".to_owned(), "insufficient funds".to_owned()];
        let table = [
            (rejected(-32602, "bad"), Outcome::NotExecuted),
            (rejected(7, "Insufficient funds on the account"), Outcome::NotExecuted),
            (rejected(-32603, "see -32602"), Outcome::Unknown),
            (PerformFailure::Died { why: "insufficient funds".to_owned() }, Outcome::Unknown),
        ];
        for (failure, expected) in table {
            let (refusal, outcome) = interpret(&CallId::new(), &contract, &failure, false);
            assert_eq!(outcome, expected, "{failure}");
            assert_eq!(refusal.effect == EffectKnowledge::None, expected == Outcome::NotExecuted, "{failure}");
        }
    }
}
