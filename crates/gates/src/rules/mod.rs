//! Semantic rules: CEL expressions over `args`, vetted and compiled when a contract is admitted, bounded in cost when
//! evaluated.
//!
//! The bound is computed before a rule runs, from the expression and the arguments, so that a rule can never
//! stop the gateway. A rule that cannot be decided does not pass.

mod condition;
mod cost;
mod nesting;
#[cfg(test)]
mod tests;
mod vetting;

use std::{collections::BTreeSet, sync::Arc};

pub(crate) use condition::ResultCondition;

use cel::{Context, Env, ExecutionError, Program, Value as CelValue};
use serde_json::Value;
use servanda_contract::{FieldError, schema::CompiledSchema, tool::SemanticRule};

/// The most steps that one rule may take on one call.
const COST_MAX: u64 = 1_000_000;
/// The most characters of one expression. The parser takes up to 10 µs for each (measured with optimisation),
/// so twice as many would occupy a thread for longer than anything else that is admitted.
const EXPRESSION_CHARS_MAX: usize = 2_048;
/// The deepest nesting of brackets. Measured: in a build without optimisation the parser takes 180 KB of stack
/// for each level, and aborts the process at twelve levels on a thread of 2 MB.
const BRACKETS_DEPTH_MAX: usize = 6;
/// The stack that an expression is compiled on. The parser recurses along chains too (`args.a.a.a`, `1+1+1`), and so does the code that
/// drops its tree: measured without optimisation, 4,096 characters of the worst chain take less than half of it.
const COMPILE_STACK_BYTES: usize = 32 << 20;

/// The variable that rules can use.
const ARGUMENTS: &str = "args";

/// A contract's rules, ready to run.
#[derive(Debug, Default)]
pub(crate) struct CompiledRules(Vec<CompiledRule>);

struct CompiledRule {
    source: SemanticRule,
    environment: Arc<Env>,
    rule: Program,
    when: Option<Program>,
    /// The arguments that either expression names.
    named: BTreeSet<String>,
}

impl std::fmt::Debug for CompiledRule {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("CompiledRule").field("source", &self.source).finish_non_exhaustive()
    }
}

impl CompiledRules {
    /// Compiles every rule. The error has a reason for each that does not compile.
    pub(crate) fn compile(rules: &[SemanticRule]) -> Result<Self, Vec<String>> {
        if rules.is_empty() {
            return Ok(Self(Vec::new()));
        }
        let environment = Arc::new(Env::stdlib());
        let mut compiled = Vec::with_capacity(rules.len());
        let mut reasons = Vec::new();
        for source in rules {
            match CompiledRule::compile(source, &environment) {
                Ok(rule) => compiled.push(rule),
                Err(reason) => reasons.push(format!("rule `{}`: {reason}", source.id)),
            }
        }
        if reasons.is_empty() { Ok(Self(compiled)) } else { Err(reasons) }
    }

    /// Every rule over an argument that can never be there: such a rule is never decidable, or never evaluated.
    pub(crate) fn undeclared(&self, input: &CompiledSchema) -> Vec<String> {
        let reasons = self.0.iter().flat_map(|rule| {
            let unknown = rule.named.iter().filter(|name| !input.may_have(name));
            unknown.map(|name| format!("rule `{}`: the input schema declares no `{name}`", rule.source.id))
        });
        reasons.collect()
    }

    /// Every rule that the arguments break, or that cannot be decided for them.
    pub(crate) fn violations(&self, arguments: &Value) -> Vec<FieldError> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let args = to_cel(arguments);
        self.0.iter().filter_map(|rule| rule.violation(arguments, &args)).collect()
    }
}

impl CompiledRule {
    fn compile(source: &SemanticRule, environment: &Arc<Env>) -> Result<Self, String> {
        let mut named = BTreeSet::new();
        let mut compile = |expression: &str| -> Result<Program, String> {
            let (program, members) = compile(expression, &[ARGUMENTS], environment)?;
            named.extend(members);
            Ok(program)
        };
        let rule = compile(&source.rule)?;
        let when = source.when.as_deref().map(compile).transpose()?;
        Ok(Self { source: source.clone(), environment: environment.clone(), rule, when, named })
    }

    fn violation(&self, arguments: &Value, args: &CelValue) -> Option<FieldError> {
        let applies = self.when.as_ref().map_or(Ok(true), |when| self.decide(when, arguments, args));
        let holds = match applies {
            Ok(false) => return None,
            Ok(true) => self.decide(&self.rule, arguments, args),
            Err(reason) => Err(reason),
        };
        let actual = match holds {
            Ok(true) => return None,
            Ok(false) => "false for these values".to_owned(),
            Err(reason) => format!("not decidable: {reason}"),
        };
        let pointer = self.source.fields.first().cloned().unwrap_or_default();
        let field =
            if pointer.is_empty() { "arguments".to_owned() } else { pointer.trim_start_matches('/').replace('/', ".") };
        let message = format!("{} (rule `{}`)", self.source.message, self.source.id);
        Some(FieldError { field, pointer, expected: self.source.rule.clone(), actual, message, did_you_mean: None })
    }

    fn decide(&self, program: &Program, arguments: &Value, args: &CelValue) -> Result<bool, String> {
        if cost::bound(program.expression(), &[(ARGUMENTS, arguments)]) > COST_MAX {
            return Err("it would take too many steps for arguments of this size".to_owned());
        }
        let mut context = Context::with_env(self.environment.clone());
        context.add_variable_from_value(ARGUMENTS, args.clone());
        match program.execute(&context) {
            Ok(CelValue::Bool(holds)) => Ok(holds),
            Ok(_) => Err("it is neither true nor false".to_owned()),
            Err(error) => Err(self.reason(&error)),
        }
    }

    /// Why a rule could not be decided. The library's own messages repeat values, so they are never used.
    fn reason(&self, error: &ExecutionError) -> String {
        let written = |name: &str| {
            let mentions = |source: &str| source.contains(name);
            mentions(&self.source.rule) || self.source.when.as_deref().is_some_and(mentions)
        };
        match error {
            // A key may also have been a value; one that is written in the rule is no secret.
            ExecutionError::NoSuchKey(name) if written(name) => format!("`{name}` is absent"),
            ExecutionError::NoSuchKey(_) | ExecutionError::IndexOutOfBounds(_) => {
                "something it needs is absent".to_owned()
            }
            ExecutionError::DivisionByZero(_) | ExecutionError::RemainderByZero(_) => "it divides by zero".to_owned(),
            ExecutionError::Overflow(..) => "a number grows too large".to_owned(),
            ExecutionError::FunctionError { function, .. } => format!("`{function}` does not take this value"),
            _ => "the values have types that do not go together".to_owned(),
        }
    }
}

/// Compiles and vets an expression over these variables. Also returns the members of the first variable that it
/// names.
fn compile(
    expression: &str,
    variables: &'static [&'static str],
    environment: &Arc<Env>,
) -> Result<(Program, BTreeSet<String>), String> {
    if expression.chars().count() > EXPRESSION_CHARS_MAX {
        return Err(format!("longer than {EXPRESSION_CHARS_MAX} characters: write several rules"));
    }
    if nesting::bracket_depth(expression) > BRACKETS_DEPTH_MAX {
        return Err(format!("has brackets nested deeper than {BRACKETS_DEPTH_MAX} levels"));
    }
    // A refused tree is dropped on this stack too. An admitted one is so shallow that dropping it needs no stack of its own.
    stacker::grow(COMPILE_STACK_BYTES, || {
        let program = environment.compile(expression).map_err(|error| format!("does not compile: {error}"))?;
        let named = vetting::vet(program.expression(), environment, variables)?;
        Ok((program, named))
    })
}

/// JSON integers are CEL ints and the rest doubles, so that `args.count > 0` means what it says.
fn to_cel(value: &Value) -> CelValue {
    match value {
        Value::Null => CelValue::Null,
        Value::Bool(flag) => CelValue::Bool(*flag),
        Value::Number(number) => {
            number.as_i64().map_or_else(|| CelValue::Float(number.as_f64().unwrap_or(f64::NAN)), CelValue::Int)
        }
        Value::String(text) => CelValue::String(Arc::new(text.clone())),
        Value::Array(items) => CelValue::List(Arc::new(items.iter().map(to_cel).collect())),
        Value::Object(members) => {
            let members: std::collections::HashMap<String, CelValue> =
                members.iter().map(|(name, member)| (name.clone(), to_cel(member))).collect();
            CelValue::from(members)
        }
    }
}
