//! A call as policies see it: only what some policy reads is built, and it fits the schema by construction.

use std::sync::Arc;

use cedar_policy::{Context, Entities, EvalResult, Expression, Request, RestrictedExpression, eval_expression};
use servanda_contract::{
    Timestamp,
    json::CanonicalBytes,
    tool::{QuestionKind, SideEffectClass},
};

use crate::{
    arguments, bucket::PolicyRule, context_needs::CombinedNeeds, principal::Principal, vocabulary::PolicyTool,
};

/// The call to decide.
#[derive(Debug, Clone, Copy)]
pub struct PolicyCall<'a> {
    /// Who calls.
    pub principal: &'a Principal,
    /// The name of the tool's contract.
    pub tool: &'a str,
    /// The arguments, after the gates that validate them.
    pub arguments: &'a CanonicalBytes,
    /// Time, environment and purpose.
    pub circumstances: &'a CallCircumstances<'a>,
}

/// What else is known about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallCircumstances<'a> {
    /// The tenant in whose name the call is made; it must be the principal's.
    pub tenant: &'a str,
    /// The environment the gateway is in, e.g. `production`.
    pub environment: &'a str,
    /// When it arrived.
    pub time: Timestamp,
    /// The name that the client's software gives itself. Not to be trusted.
    pub client: Option<&'a str>,
    /// The task that the client names.
    pub task: Option<&'a str>,
    /// The intent that the client states: `read`, `write` or `destructive`.
    pub intent: Option<&'a str>,
    /// The kind of question, if the decision is about an upstream's question to the caller during the call; `None` if it is
    /// about the call.
    pub question: Option<QuestionKind>,
    /// How grave the call is, if the program in its arguments decides; `None` if it is as grave as the contract says.
    pub program_class: Option<SideEffectClass>,
}

/// A request to Cedar.
#[derive(Debug)]
pub(crate) struct CedarRequest {
    pub request: Request,
    pub entities: Arc<Entities>,
}

impl CedarRequest {
    /// Whether a rule's condition holds; a rule without a condition always holds.
    pub(crate) fn holds_for(&self, rule: &PolicyRule) -> Result<bool, String> {
        rule.condition.as_ref().map_or(Ok(true), |condition| self.holds(condition))
    }

    /// Whether a condition holds.
    pub(crate) fn holds(&self, condition: &Expression) -> Result<bool, String> {
        match eval_expression(&self.request, &self.entities, condition) {
            Ok(EvalResult::Bool(holds)) => Ok(holds),
            Ok(_) => Err("the condition is neither true nor false".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Why a request cannot be built.
#[derive(Debug)]
pub(crate) enum CedarRequestError {
    Arguments(String),
    Engine(String),
}

/// The request for a call.
pub(crate) fn for_call(
    call: &PolicyCall<'_>,
    tool: &PolicyTool,
    needs: &CombinedNeeds<'_>,
) -> Result<CedarRequest, CedarRequestError> {
    let mut context = context_pairs(call.circumstances, needs, true)?;
    if needs.any_argument() {
        let arguments = arguments::read(call.arguments.bytes(), &tool.facts.parameters().arguments, needs)
            .map_err(CedarRequestError::Arguments)?;
        context.push(("args".to_owned(), arguments));
    }
    // Cedar can refuse only a number beyond the range of its decimals here; its own message would quote the number.
    let beyond = || CedarRequestError::Arguments("a number beyond what a policy can hold".to_owned());
    let context = Context::from_pairs(context).map_err(|_| beyond())?;
    question(call.principal, tool, context)
}

/// The request for a call, for policies that read none of its arguments.
pub(crate) fn for_call_without_arguments(
    principal: &Principal,
    tool: &PolicyTool,
    circumstances: &CallCircumstances<'_>,
    needs: &CombinedNeeds<'_>,
) -> Result<CedarRequest, CedarRequestError> {
    let context = Context::from_pairs(context_pairs(circumstances, needs, true)?).map_err(engine)?;
    question(principal, tool, context)
}

/// The request that is the same for all calls of a tool by a principal.
pub(crate) fn for_all_calls(principal: &Principal, tool: &PolicyTool) -> Result<CedarRequest, CedarRequestError> {
    question(principal, tool, Context::empty())
}

/// The request for a list: no arguments, no time, nothing of a single call.
pub(crate) fn for_list(
    principal: &Principal,
    tool: &PolicyTool,
    circumstances: &CallCircumstances<'_>,
    needs: &CombinedNeeds<'_>,
) -> Result<CedarRequest, CedarRequestError> {
    let context = context_pairs(circumstances, needs, false)?;
    let context = Context::from_pairs(context).map_err(engine)?;
    question(principal, tool, context)
}

fn context_pairs(
    circumstances: &CallCircumstances<'_>,
    needs: &CombinedNeeds<'_>,
    of_call: bool,
) -> Result<Vec<(String, RestrictedExpression)>, CedarRequestError> {
    let mut pairs = Vec::new();
    let mut add = |name: &str, value: Option<&str>| {
        if let Some(value) = value.filter(|_| needs.attribute(name)) {
            pairs.push((name.to_owned(), RestrictedExpression::new_string(value.to_owned())));
        }
    };
    add("tenant", Some(circumstances.tenant));
    add("client", circumstances.client);
    if of_call {
        add("task", circumstances.task);
        add("intent", circumstances.intent);
        add("question", circumstances.question.map(QuestionKind::word));
    }
    if needs.attribute("env") {
        pairs.push(("env".to_owned(), environment(circumstances, of_call)?));
    }
    Ok(pairs)
}

fn environment(
    circumstances: &CallCircumstances<'_>,
    with_time: bool,
) -> Result<RestrictedExpression, CedarRequestError> {
    let name = RestrictedExpression::new_string(circumstances.environment.to_owned());
    let mut members = vec![("name".to_owned(), name)];
    if with_time {
        let time_ms = i64::try_from(circumstances.time.unix_ms()).map_err(engine)?;
        members.push(("time_ms".to_owned(), RestrictedExpression::new_long(time_ms)));
        members.push(("time".to_owned(), RestrictedExpression::new_datetime(circumstances.time.to_string())));
    }
    RestrictedExpression::new_record(members).map_err(engine)
}

fn question(principal: &Principal, tool: &PolicyTool, context: Context) -> Result<CedarRequest, CedarRequestError> {
    let (action, resource) = (tool.facts.action(), tool.facts.resource());
    let request = Request::new(principal.uid.clone(), action, resource, context, None).map_err(engine)?;
    let entities = principal.entities_with(tool).map_err(engine)?;
    Ok(CedarRequest { request, entities })
}

#[expect(clippy::needless_pass_by_value, reason = "it is handed to map_err")]
fn engine(error: impl ToString) -> CedarRequestError {
    CedarRequestError::Engine(error.to_string())
}
