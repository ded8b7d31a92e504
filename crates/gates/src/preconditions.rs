//! The preconditions of a contract, and the version that its caller must have seen. They are compiled when the
//! contract is admitted, turned into queries for a call, and compared with the answers of read-only tools.

use bytes::Bytes;
use serde_json::{Map, Value};
use servanda_contract::{
    CallId, GateName, Refusal, TaxonomyClass, refusal::EffectKnowledge, schema::CompiledSchema, tool::ToolContract,
};

use crate::{
    placeholders::{placeholders, rendered_members},
    rules::ResultCondition,
};

/// The most queries before one call.
const DEMANDS_MAX: usize = 16;

/// All preconditions of a contract.
#[derive(Debug, Default)]
pub(crate) struct CompiledPreconditions(Vec<CompiledPrecondition>);

/// One query to a read-only tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreconditionQuery {
    /// The precondition, as the contract names it.
    pub id: String,
    /// The tool, by contract name.
    pub tool: String,
    /// The arguments, as JSON.
    pub arguments: Bytes,
}

#[derive(Debug)]
struct CompiledPrecondition {
    id: String,
    tool: String,
    arguments: Map<String, Value>,
    check: PreconditionCheck,
}

#[derive(Debug)]
enum PreconditionCheck {
    /// The condition must hold.
    Holds { condition: ResultCondition, message: String },
    /// The value must equal the caller's argument of this name.
    IsArgument { name: String, rule: ResultCondition },
}

impl CompiledPreconditions {
    /// Compiles the preconditions. The error has a reason for each that cannot be compiled.
    pub(crate) fn compile(contract: &ToolContract, input: Option<&CompiledSchema>) -> Result<Self, Vec<String>> {
        let mut reasons = Vec::new();
        let mut demands = Vec::new();
        for (number, precondition) in contract.preconditions.iter().enumerate() {
            let about = format!("preconditions[{number}] `{}`", precondition.id);
            let condition = match ResultCondition::compile_for_call(&precondition.expect.rule) {
                Ok(condition) => condition,
                Err(reason) => {
                    reasons.push(format!("{about}: expect.rule {reason}"));
                    continue;
                }
            };
            let message = precondition.expect.message.clone();
            let (id, tool, arguments) =
                (precondition.id.clone(), precondition.tool.clone(), precondition.arguments.clone());
            demands.push((
                about,
                CompiledPrecondition { id, tool, arguments, check: PreconditionCheck::Holds { condition, message } },
            ));
        }
        if let Some(version) = contract.effect.as_ref().and_then(|effect| effect.version.as_ref()) {
            let about = "effect.version".to_owned();
            if !is_required(contract, &version.argument) {
                reasons.push(format!("{about}: the input schema does not require `{}`", version.argument));
            }
            match ResultCondition::compile(&version.rule) {
                Ok(rule) => {
                    let wanted = PreconditionCheck::IsArgument { name: version.argument.clone(), rule };
                    let (tool, arguments) = (version.tool.clone(), version.arguments.clone());
                    demands.push((
                        about,
                        CompiledPrecondition { id: "version".to_owned(), tool, arguments, check: wanted },
                    ));
                }
                Err(reason) => reasons.push(format!("{about}: rule {reason}")),
            }
        }
        if demands.len() > DEMANDS_MAX {
            reasons.push(format!("preconditions: more than {DEMANDS_MAX} questions before a call"));
        }
        for (about, demand) in &demands {
            let unknown = demand.names().into_iter().filter(|name| input.is_some_and(|input| !input.may_have(name)));
            reasons.extend(unknown.map(|name| format!("{about}: the input schema declares no `{name}`")));
        }
        if reasons.is_empty() {
            Ok(Self(demands.into_iter().map(|(_, demand)| demand).collect()))
        } else {
            Err(reasons)
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The queries for a call with these arguments.
    pub(crate) fn questions(&self, arguments: &Value) -> Vec<PreconditionQuery> {
        let question = |demand: &CompiledPrecondition| {
            let arguments = rendered_members(&demand.arguments, arguments);
            let (id, tool) = (demand.id.clone(), demand.tool.clone());
            PreconditionQuery { id, tool, arguments: Bytes::from(arguments.to_string()) }
        };
        self.0.iter().map(question).collect()
    }

    /// Compares the answers, in the order of the queries, with the preconditions. A precondition without an
    /// answer does not hold.
    pub(crate) fn judge(
        &self,
        call_id: &CallId,
        arguments: &Value,
        answers: &[Result<Value, String>],
    ) -> Result<(), Box<Refusal>> {
        for number in 0..self.0.len() {
            self.judge_one(number, call_id, arguments, answers.get(number).cloned())?;
        }
        Ok(())
    }

    /// Compares the answer to one query with its precondition.
    pub(crate) fn judge_one(
        &self,
        number: usize,
        call_id: &CallId,
        arguments: &Value,
        answer: Option<Result<Value, String>>,
    ) -> Result<(), Box<Refusal>> {
        let Some(demand) = self.0.get(number) else { return Ok(()) };
        let answer = answer.unwrap_or_else(|| Err("no tool was asked".to_owned()));
        match answer.and_then(|result| demand.holds(arguments, &result).map_err(str::to_owned)) {
            Ok(true) => Ok(()),
            Ok(false) => Err(demand.does_not_hold(call_id)),
            Err(why) => Err(demand.not_answered(call_id, &why)),
        }
    }
}

impl CompiledPrecondition {
    /// The call's arguments that it needs.
    fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        self.arguments.values().for_each(|value| placeholders(value, &mut names));
        match &self.check {
            PreconditionCheck::Holds { condition, .. } => names.extend(condition.named().iter().cloned()),
            PreconditionCheck::IsArgument { name, .. } => names.push(name.clone()),
        }
        names
    }

    fn holds(&self, arguments: &Value, result: &Value) -> Result<bool, &'static str> {
        match &self.check {
            PreconditionCheck::Holds { condition, .. } => condition.holds_for(arguments, result),
            PreconditionCheck::IsArgument { name, rule } => {
                arguments.get(name).map_or(Ok(false), |said| rule.says(said, result))
            }
        }
    }

    fn does_not_hold(&self, call_id: &CallId) -> Box<Refusal> {
        let (message, hint) = match &self.check {
            PreconditionCheck::Holds { message, .. } => (
                format!("{message} (precondition `{}`)", self.id),
                format!("look at the present state, `{}` shows it, and plan again", self.tool),
            ),
            PreconditionCheck::IsArgument { name, .. } => (
                format!("it changed since `{name}` was read, so nothing was sent"),
                format!(
                    "read it again with `{}`; if the change is still wanted, send what it says as `{name}`",
                    self.tool
                ),
            ),
        };
        refusal(call_id, TaxonomyClass::StaleState, message, hint)
    }

    fn not_answered(&self, call_id: &CallId, why: &str) -> Box<Refusal> {
        let message = format!(
            "the precondition `{}` could not be checked with `{}`, so nothing was sent: {why}",
            self.id, self.tool
        );
        let mut refusal = refusal(call_id, TaxonomyClass::DependencyUnavailable, message, "try again later".to_owned());
        refusal.operator_hint = Some("`servanda tools` shows the state of that tool".to_owned());
        refusal
    }
}

fn refusal(call_id: &CallId, class: TaxonomyClass, message: String, hint: String) -> Box<Refusal> {
    let refusal = Refusal::new(call_id.clone(), GateName::State, class, message, hint);
    Box::new(refusal.with_effect(EffectKnowledge::None))
}

fn is_required(contract: &ToolContract, argument: &str) -> bool {
    let required = contract.affordance.input_schema.get("required").and_then(Value::as_array);
    required.is_some_and(|names| names.iter().any(|name| name.as_str() == Some(argument)))
}
