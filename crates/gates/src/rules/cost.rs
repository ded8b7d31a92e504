//! An upper bound on the cost of evaluating an expression, computed without evaluating it.
//!
//! Every value that an expression can make is tracked by its size: its length, the weight of its heaviest
//! element, and its total weight. A loop costs its turns times its body, and what it builds is as heavy as its
//! turns allow. So a value that is doubled again and again, or a list of lists, shows in the bound before it
//! shows in memory.

use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators};
use serde_json::Value;

/// A pattern is compiled again whenever it is used.
const PATTERN_COST: u64 = 10_000;
/// More characters than any number, time or duration has as text.
const SCALAR_CHARS: u64 = 64;

/// An upper bound on the steps `expression` takes over the values of these variables.
pub(super) fn bound(expression: &IdedExpr, variables: &[(&str, &Value)]) -> u64 {
    bound_in(expression, variables, None)
}

fn bound_in(expression: &IdedExpr, variables: &[(&str, &Value)], outer: Option<&VariableScope<'_, '_>>) -> u64 {
    match (variables, outer) {
        ([(name, value), rest @ ..], outer) => {
            let scope = VariableScope { name, value: ValueBound::Exactly(value), outer };
            bound_in(expression, rest, Some(&scope))
        }
        ([], Some(scope)) => cost(expression, scope).steps,
        // There is always one variable.
        ([], None) => u64::MAX,
    }
}

/// What is known about a value without evaluating it.
#[derive(Clone, Copy)]
enum ValueBound<'v> {
    Exactly(&'v Value),
    AtMost(ValueSize),
}

#[derive(Clone, Copy)]
struct ValueSize {
    /// The number of items, members or characters.
    len: u64,
    /// The weight of the heaviest one.
    each: u64,
    /// The weight of the whole value.
    total: u64,
}

#[derive(Clone, Copy)]
struct ExpressionCost<'v> {
    steps: u64,
    value: ValueBound<'v>,
}

/// The visible variables, innermost first.
#[derive(Clone, Copy)]
struct VariableScope<'s, 'v> {
    name: &'s str,
    value: ValueBound<'v>,
    outer: Option<&'s VariableScope<'s, 'v>>,
}

fn cost<'v>(expression: &IdedExpr, scope: &VariableScope<'_, 'v>) -> ExpressionCost<'v> {
    match &expression.expr {
        Expr::Literal(literal) => ExpressionCost { steps: 1, value: ValueBound::AtMost(literal_size(literal)) },
        Expr::Ident(name) => ExpressionCost { steps: 1, value: scope.find(name) },
        Expr::Select(select) => {
            let operand = cost(&select.operand, scope);
            let value = if select.test { ValueBound::AtMost(SCALAR) } else { operand.value.member(&select.field) };
            ExpressionCost { steps: operand.steps.saturating_add(1), value }
        }
        Expr::List(list) => built(list.elements.iter(), scope),
        Expr::Map(map) => built(map.entries.iter().flat_map(|entry| parts(&entry.expr)), scope),
        Expr::Struct(made) => built(made.entries.iter().flat_map(|entry| parts(&entry.expr)), scope),
        Expr::Call(call) => call_cost(call, scope),
        Expr::Comprehension(loops) => loop_cost(loops, scope),
        Expr::Unspecified => ExpressionCost { steps: u64::MAX, value: ValueBound::AtMost(SCALAR) },
    }
}

/// A list or map literal.
fn built<'e, 'v>(elements: impl Iterator<Item = &'e IdedExpr>, scope: &VariableScope<'_, 'v>) -> ExpressionCost<'v> {
    let mut steps: u64 = 1;
    let mut size = ValueSize { len: 0, each: 0, total: 1 };
    for element in elements {
        let element = cost(element, scope);
        let weight = element.value.size().total;
        steps = steps.saturating_add(element.steps).saturating_add(weight);
        size = size.appended(weight);
    }
    ExpressionCost { steps, value: ValueBound::AtMost(size) }
}

fn parts(entry: &EntryExpr) -> impl Iterator<Item = &IdedExpr> {
    let (key, value) = match entry {
        EntryExpr::StructField(field) => (None, &field.value),
        EntryExpr::MapEntry(entry) => (Some(&entry.key), &entry.value),
    };
    key.into_iter().chain(std::iter::once(value))
}

fn call_cost<'v>(call: &CallExpr, scope: &VariableScope<'_, 'v>) -> ExpressionCost<'v> {
    let operands: Vec<ExpressionCost<'v>> =
        call.target.as_deref().into_iter().chain(&call.args).map(|operand| cost(operand, scope)).collect();
    let evaluated = operands.iter().fold(1, |sum: u64, operand| sum.saturating_add(operand.steps));
    let value = |position: usize| operands.get(position).map_or(ValueBound::AtMost(SCALAR), |operand| operand.value);
    let name = call.func_name.as_str();
    // Every function that is not named here reads its operands once and returns a scalar.
    let (work, result) = match name {
        operators::LOGICAL_AND | operators::LOGICAL_OR | operators::LOGICAL_NOT | operators::NOT_STRICTLY_FALSE => {
            (0, ValueBound::AtMost(SCALAR))
        }
        operators::CONDITIONAL => (0, ValueBound::AtMost(value(1).size().max(value(2).size()))),
        operators::INDEX => (1, ValueBound::AtMost(value(0).size().element())),
        operators::ADD => {
            let sum = value(0).size().joined(value(1).size());
            (sum.total, ValueBound::AtMost(sum))
        }
        "matches" => {
            let (text, pattern) = (value(0).size().total, value(1).size().total);
            (text.saturating_mul(pattern).saturating_add(PATTERN_COST), ValueBound::AtMost(SCALAR))
        }
        _ => {
            let weight = operands.iter().fold(0, |sum: u64, operand| sum.saturating_add(operand.value.size().total));
            let text = weight.max(SCALAR_CHARS);
            let result = match name {
                "dyn" => value(0).size(),
                "string" | "bytes" => ValueSize { len: text, each: 1, total: text },
                _ => SCALAR,
            };
            (weight, ValueBound::AtMost(result))
        }
    };
    ExpressionCost { steps: evaluated.saturating_add(work), value: result }
}

fn loop_cost<'v>(loops: &ComprehensionExpr, scope: &VariableScope<'_, 'v>) -> ExpressionCost<'v> {
    let range = cost(&loops.iter_range, scope);
    let start = cost(&loops.accu_init, scope);
    let (turns, element) = (range.value.size().len, range.value.size().element());
    let item = VariableScope { name: &loops.iter_var, value: ValueBound::AtMost(element), outer: Some(scope) };
    let second = loops.iter_var2.as_deref().unwrap_or_default();
    let item = VariableScope { name: second, value: ValueBound::AtMost(element), outer: Some(&item) };
    let accumulating = VariableScope { name: &loops.accu_var, value: start.value, outer: Some(&item) };
    let (goes_on, step) = (cost(&loops.loop_cond, &accumulating), cost(&loops.loop_step, &accumulating));
    // Only macros make loops, and they either add the same amount to the accumulator on every turn, or replace
    // it.
    let accumulated = start.value.size().grown(step.value.size(), turns);
    let after = VariableScope { name: &loops.accu_var, value: ValueBound::AtMost(accumulated), outer: Some(&item) };
    let result = cost(&loops.result, &after);
    let turn = goes_on.steps.saturating_add(step.steps).saturating_add(element.total);
    let steps =
        [start.steps, turns.saturating_mul(turn), result.steps].into_iter().fold(range.steps, u64::saturating_add);
    ExpressionCost { steps, value: result.value }
}

/// One number, boolean or null.
const SCALAR: ValueSize = ValueSize { len: 1, each: 1, total: 1 };

impl ValueSize {
    fn text(len: usize) -> Self {
        let len = u64::try_from(len).unwrap_or(u64::MAX).max(1);
        Self { len, each: 1, total: len }
    }

    fn element(self) -> Self {
        Self { len: self.each, each: self.each, total: self.each }
    }

    fn appended(self, weight: u64) -> Self {
        Self {
            len: self.len.saturating_add(1),
            each: self.each.max(weight),
            total: self.total.saturating_add(weight).saturating_add(1),
        }
    }

    fn joined(self, other: Self) -> Self {
        Self {
            len: self.len.saturating_add(other.len),
            each: self.each.max(other.each),
            total: self.total.saturating_add(other.total),
        }
    }

    fn max(self, other: Self) -> Self {
        Self { len: self.len.max(other.len), each: self.each.max(other.each), total: self.total.max(other.total) }
    }

    /// The size of an accumulator that one turn grows from `self` to `after`, after all turns.
    fn grown(self, after: Self, turns: u64) -> Self {
        let grow = |from: u64, to: u64| from.saturating_add(to.saturating_sub(from).saturating_mul(turns)).max(to);
        Self { len: grow(self.len, after.len), each: self.each.max(after.each), total: grow(self.total, after.total) }
    }
}

impl ValueBound<'_> {
    fn size(self) -> ValueSize {
        match self {
            Self::Exactly(value) => measure(value),
            Self::AtMost(size) => size,
        }
    }

    fn member(self, name: &str) -> Self {
        match self {
            Self::Exactly(value) => value.get(name).map_or(Self::AtMost(SCALAR), Self::Exactly),
            Self::AtMost(size) => Self::AtMost(size.element()),
        }
    }
}

impl<'v> VariableScope<'_, 'v> {
    fn find(&self, name: &str) -> ValueBound<'v> {
        if self.name == name {
            return self.value;
        }
        // The name of a type: nothing else is out of scope.
        self.outer.map_or(ValueBound::AtMost(SCALAR), |outer| outer.find(name))
    }
}

fn measure(value: &Value) -> ValueSize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => SCALAR,
        Value::String(text) => ValueSize::text(text.len()),
        Value::Array(items) => {
            items.iter().fold(ValueSize { len: 0, each: 0, total: 1 }, |size, item| size.appended(measure(item).total))
        }
        Value::Object(members) => {
            members.iter().fold(ValueSize { len: 0, each: 0, total: 1 }, |size, (name, member)| {
                size.appended(measure(member).total.saturating_add(ValueSize::text(name.len()).total))
            })
        }
    }
}

fn literal_size(literal: &LiteralValue) -> ValueSize {
    match literal {
        LiteralValue::String(text) => ValueSize::text(text.inner().len()),
        LiteralValue::Bytes(bytes) => ValueSize::text(bytes.inner().len()),
        _ => SCALAR,
    }
}
