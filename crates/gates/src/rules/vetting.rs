//! What a rule may consist of. Everything a rule can do is listed here, so that its cost is known, and a
//! mistake in it is found when the contract is admitted, not at the first call.

use std::{collections::BTreeSet, sync::Arc};

use cel::{
    Context, Env,
    common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators},
};
use serde_json::{Map, Value};
use servanda_contract::schema::{CompiledSchema, SchemaProfile};

/// The deepest nesting of calls. Evaluation is recursive too; measured without optimisation it takes 40 KB of
/// stack for each level.
const DEPTH_MAX: usize = 24;

const OPERATORS: [&str; 19] = [
    operators::LOGICAL_AND,
    operators::LOGICAL_OR,
    operators::LOGICAL_NOT,
    operators::NOT_STRICTLY_FALSE,
    operators::EQUALS,
    operators::NOT_EQUALS,
    operators::GREATER,
    operators::GREATER_EQUALS,
    operators::LESS,
    operators::LESS_EQUALS,
    operators::IN,
    operators::CONDITIONAL,
    operators::ADD,
    operators::SUBSTRACT,
    operators::MULTIPLY,
    operators::DIVIDE,
    operators::MODULO,
    operators::NEGATE,
    operators::INDEX,
];
/// The standard functions, except those on types that a JSON value does not have.
const FUNCTIONS: [&str; 25] = [
    "bool",
    "bytes",
    "contains",
    "double",
    "duration",
    "dyn",
    "endsWith",
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getFullYear",
    "getHours",
    "getMilliseconds",
    "getMinutes",
    "getMonth",
    "getSeconds",
    "int",
    "matches",
    "size",
    "startsWith",
    "string",
    "timestamp",
    "type",
    "uint",
];
/// The types that `type(x)` may be compared with.
const TYPES: [&str; 10] = ["bool", "bytes", "double", "int", "list", "map", "null_type", "string", "timestamp", "uint"];

/// Refuses an expression that uses anything else; `given` lists the only variables. Returns the members of the
/// first variable that the expression names.
pub(super) fn vet(
    expression: &IdedExpr,
    environment: &Arc<Env>,
    given: &'static [&'static str],
) -> Result<BTreeSet<String>, String> {
    let mut vetting = ExpressionVetter { environment, given, variables: given.to_vec(), named: BTreeSet::new() };
    vetting.vet(expression, 0)?;
    Ok(vetting.named)
}

struct ExpressionVetter<'a> {
    environment: &'a Arc<Env>,
    given: &'static [&'static str],
    variables: Vec<&'a str>,
    /// The members that are selected from the first given variable itself.
    named: BTreeSet<String>,
}

impl<'a> ExpressionVetter<'a> {
    fn vet(&mut self, expression: &'a IdedExpr, depth: usize) -> Result<(), String> {
        if depth > DEPTH_MAX {
            return Err(format!("nested deeper than {DEPTH_MAX} levels"));
        }
        let depth = depth + 1;
        match &expression.expr {
            Expr::Literal(_) => Ok(()),
            Expr::Ident(name) if self.variables.contains(&name.as_str()) || TYPES.contains(&name.as_str()) => Ok(()),
            Expr::Ident(name) => Err(format!("knows only `{}`, not `{name}`", self.given.join("` and `"))),
            Expr::Select(select) => {
                if self.is_variable(&select.operand) {
                    self.named.insert(select.field.clone());
                }
                self.vet(&select.operand, depth)
            }
            Expr::List(list) => list.elements.iter().try_for_each(|element| self.vet(element, depth)),
            Expr::Map(map) => map.entries.iter().try_for_each(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => self.vet(&entry.key, depth).and_then(|()| self.vet(&entry.value, depth)),
                EntryExpr::StructField(_) => Err("makes an object of a type that does not exist".to_owned()),
            }),
            Expr::Call(call) => self.call(call, depth),
            Expr::Comprehension(loops) => {
                self.vet(&loops.iter_range, depth)?;
                self.vet(&loops.accu_init, depth)?;
                let known = self.variables.len();
                self.variables.extend([loops.iter_var.as_str(), loops.accu_var.as_str()]);
                self.variables.extend(loops.iter_var2.as_deref());
                let parts = [&loops.loop_cond, &loops.loop_step, &loops.result];
                let verdict = parts.into_iter().try_for_each(|part| self.vet(part, depth));
                self.variables.truncate(known);
                verdict
            }
            Expr::Struct(_) | Expr::Unspecified => Err("makes an object of a type that does not exist".to_owned()),
        }
    }

    /// Whether an expression is the first given variable. A loop variable of the same name hides it.
    fn is_variable(&self, expression: &IdedExpr) -> bool {
        let Some(first) = self.given.first() else { return false };
        matches!(&expression.expr, Expr::Ident(name) if name == first)
            && self.variables.iter().filter(|name| *name == first).count() == 1
    }

    fn call(&mut self, call: &'a CallExpr, depth: usize) -> Result<(), String> {
        let name = call.func_name.as_str();
        if !OPERATORS.contains(&name) && !FUNCTIONS.contains(&name) {
            return Err(format!("knows no function `{name}`"));
        }
        if name == "matches" {
            self.pattern(call.args.last())?;
        }
        call.target.iter().try_for_each(|target| self.vet(target, depth))?;
        call.args.iter().try_for_each(|argument| self.vet(argument, depth))
    }

    /// A pattern comes from the contract's author, never from a caller, and is bounded like the patterns of
    /// schemas.
    fn pattern(&self, pattern: Option<&IdedExpr>) -> Result<(), String> {
        let Some(Expr::Literal(LiteralValue::String(pattern))) = pattern.map(|pattern| &pattern.expr) else {
            return Err("`matches` takes its pattern as literal text only".to_owned());
        };
        let pattern = pattern.inner();
        let schema = Map::from_iter([("pattern".to_owned(), Value::from(pattern))]);
        CompiledSchema::compile(&schema, SchemaProfile::Results).map_err(|error| error.to_string())?;
        let unusable = |reason: String| format!("the pattern `{pattern}` cannot be used: {reason}");
        let probe = self.environment.compile("''.matches(args)").map_err(|error| unusable(error.to_string()))?;
        let mut context = Context::with_env(self.environment.clone());
        context.add_variable_from_value("args", pattern.to_owned());
        probe.execute(&context).map(|_| ()).map_err(|error| unusable(error.to_string()))
    }
}
