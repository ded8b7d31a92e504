//! Semantic rules: CEL expressions over `args`, compiled when a contract is admitted and bounded in cost when evaluated.
//!
//! The bound is worked out before a rule runs, from the size of the expression and of the arguments, so that a rule can
//! never be a way to stop the gateway. A rule that cannot be decided does not pass.

use std::sync::Arc;

use cel::{
    Context, Env, Program, Value as CelValue,
    common::ast::{EntryExpr, Expr, IdedExpr},
};
use serde_json::Value;
use servanda_contract::{FieldError, tool::SemanticRule};

/// Steps one rule may take on one call.
const COST_MAX: u64 = 1_000_000;
/// Characters of one expression.
const EXPRESSION_CHARS_MAX: usize = 4_096;

/// A contract's rules, ready to run.
#[derive(Debug)]
pub(crate) struct CompiledRules(Vec<CompiledRule>);

struct CompiledRule {
    source: SemanticRule,
    environment: Arc<Env>,
    rule: Program,
    when: Option<Program>,
}

impl std::fmt::Debug for CompiledRule {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("CompiledRule").field("source", &self.source).finish_non_exhaustive()
    }
}

impl CompiledRules {
    /// Compiles every rule; the error has a reason for each that does not.
    pub(crate) fn compile(rules: &[SemanticRule]) -> Result<Self, Vec<String>> {
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

    /// Every rule that the arguments break, or that cannot be decided for them.
    pub(crate) fn violations(&self, arguments: &Value) -> Vec<FieldError> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let args = to_cel(arguments);
        let elements = count_elements(arguments);
        self.0.iter().filter_map(|rule| rule.violation(&args, elements)).collect()
    }
}

impl CompiledRule {
    fn compile(source: &SemanticRule, environment: &Arc<Env>) -> Result<Self, String> {
        let compile = |expression: &str| -> Result<Program, String> {
            if expression.chars().count() > EXPRESSION_CHARS_MAX {
                return Err(format!("longer than {EXPRESSION_CHARS_MAX} characters"));
            }
            let program = environment.compile(expression).map_err(|error| format!("does not compile: {error}"))?;
            let unknown = program.references().variables().into_iter().find(|name| *name != "args").map(str::to_owned);
            match unknown {
                Some(name) => Err(format!("knows only `args`, not `{name}`")),
                None => Ok(program),
            }
        };
        Ok(Self {
            source: source.clone(),
            environment: environment.clone(),
            rule: compile(&source.rule)?,
            when: source.when.as_deref().map(compile).transpose()?,
        })
    }

    fn violation(&self, args: &CelValue, elements: u64) -> Option<FieldError> {
        let applies = self.when.as_ref().map_or(Ok(true), |when| self.decide(when, args, elements));
        let holds = match applies {
            Ok(false) => return None,
            Ok(true) => self.decide(&self.rule, args, elements),
            Err(reason) => Err(reason),
        };
        let actual = match holds {
            Ok(true) => return None,
            Ok(false) => "values that break it".to_owned(),
            Err(reason) => format!("not decidable: {reason}"),
        };
        let pointer = self.source.fields.first().cloned().unwrap_or_default();
        let field = if pointer.is_empty() { "arguments".to_owned() } else { pointer.trim_start_matches('/').replace('/', ".") };
        let message = format!("{} (rule `{}`)", self.source.message, self.source.id);
        Some(FieldError { field, pointer, expected: self.source.rule.clone(), actual, message, did_you_mean: None })
    }

    fn decide(&self, program: &Program, args: &CelValue, elements: u64) -> Result<bool, String> {
        if cost(program.expression(), elements) > COST_MAX {
            return Err("it would take too many steps for arguments of this size".to_owned());
        }
        let mut context = Context::with_env(self.environment.clone());
        context.add_variable_from_value("args", args.clone());
        match program.execute(&context) {
            Ok(CelValue::Bool(holds)) => Ok(holds),
            Ok(_) => Err("it is neither true nor false".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// An upper bound on the steps an expression takes: every loop runs at most once per element there is.
fn cost(expression: &IdedExpr, elements: u64) -> u64 {
    let of = |inner: &IdedExpr| cost(inner, elements);
    let sum = |inner: &[IdedExpr]| inner.iter().map(of).fold(0, u64::saturating_add);
    let inside = match &expression.expr {
        Expr::Call(call) => sum(&call.args).saturating_add(call.target.as_deref().map_or(0, of)),
        Expr::Comprehension(loops) => {
            // A range built inside the expression may be longer than any in the arguments, but not than its own cost allows.
            let turns = elements.saturating_mul(size(&loops.iter_range));
            let body = of(&loops.loop_cond).saturating_add(of(&loops.loop_step));
            let around = of(&loops.iter_range).saturating_add(of(&loops.accu_init)).saturating_add(of(&loops.result));
            turns.saturating_mul(body).saturating_add(around)
        }
        Expr::List(list) => sum(&list.elements),
        Expr::Map(map) => entries(map.entries.iter().map(|entry| &entry.expr), elements),
        Expr::Struct(made) => entries(made.entries.iter().map(|entry| &entry.expr), elements),
        Expr::Select(select) => of(&select.operand),
        Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => 0,
    };
    inside.saturating_add(1)
}

fn entries<'a>(entries: impl Iterator<Item = &'a EntryExpr>, elements: u64) -> u64 {
    entries.fold(0, |sum, entry| {
        let (key, value) = match entry {
            EntryExpr::StructField(field) => (0, cost(&field.value, elements)),
            EntryExpr::MapEntry(entry) => (cost(&entry.key, elements), cost(&entry.value, elements)),
        };
        sum.saturating_add(key).saturating_add(value)
    })
}

/// The number of nodes of a range that can make it longer: one for a plain reference.
fn size(range: &IdedExpr) -> u64 {
    match &range.expr {
        Expr::Call(call) if call.func_name == "_+_" => call.args.iter().map(size).fold(0, u64::saturating_add),
        Expr::List(list) => u64::try_from(list.elements.len()).unwrap_or(u64::MAX).max(1),
        Expr::Comprehension(loops) => size(&loops.iter_range),
        _ => 1,
    }
}

/// Members and items of a value, at least one.
fn count_elements(value: &Value) -> u64 {
    1 + match value {
        Value::Array(items) => items.iter().map(count_elements).sum::<u64>(),
        Value::Object(members) => members.values().map(count_elements).sum(),
        _ => 0,
    }
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
