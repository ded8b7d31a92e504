//! One expression over a result, and optionally over the call's arguments too, with the same bounds as the
//! rules over arguments alone.

use std::{collections::BTreeSet, sync::Arc};

use cel::{Context, Env, Program, Value as CelValue};
use serde_json::Value;

use super::{ARGUMENTS, COST_MAX, compile, cost, to_cel};

/// The variable that every condition can use.
const RESULT: &str = "result";

/// A compiled expression.
pub(crate) struct ResultCondition {
    environment: Arc<Env>,
    program: Program,
    /// The arguments that it names.
    named: BTreeSet<String>,
}

impl ResultCondition {
    /// Compiles one over `result`.
    pub(crate) fn compile(expression: &str) -> Result<Self, String> {
        Self::over(expression, &[RESULT]).map(|condition| Self { named: BTreeSet::new(), ..condition })
    }

    /// Compiles one over `args` and `result`.
    pub(crate) fn compile_for_call(expression: &str) -> Result<Self, String> {
        Self::over(expression, &[ARGUMENTS, RESULT])
    }

    fn over(expression: &str, variables: &'static [&'static str]) -> Result<Self, String> {
        let environment = Arc::new(Env::stdlib());
        let (program, named) = compile(expression, variables, &environment)?;
        Ok(Self { environment, program, named })
    }

    /// The arguments that it names.
    pub(crate) fn named(&self) -> &BTreeSet<String> {
        &self.named
    }

    /// Whether it holds. The error says why it cannot be decided.
    pub(crate) fn holds(&self, result: &Value) -> Result<bool, &'static str> {
        self.holds_for(&Value::Null, result)
    }

    /// The same, for a call with these arguments.
    pub(crate) fn holds_for(&self, arguments: &Value, result: &Value) -> Result<bool, &'static str> {
        match self.evaluate(arguments, result)? {
            CelValue::Bool(holds) => Ok(holds),
            _ => Err(UNDECIDED),
        }
    }

    /// Whether its value for a result equals `expected`.
    pub(crate) fn says(&self, expected: &Value, result: &Value) -> Result<bool, &'static str> {
        Ok(self.evaluate(&Value::Null, result)? == to_cel(expected))
    }

    fn evaluate(&self, arguments: &Value, result: &Value) -> Result<CelValue, &'static str> {
        if cost::bound(self.program.expression(), &[(ARGUMENTS, arguments), (RESULT, result)]) > COST_MAX {
            return Err("the condition would take too many steps for a result of this size");
        }
        let mut context = Context::with_env(Arc::clone(&self.environment));
        context.add_variable_from_value(ARGUMENTS, to_cel(arguments));
        context.add_variable_from_value(RESULT, to_cel(result));
        // The library's own message repeats values, so it is not used.
        self.program.execute(&context).map_err(|_| UNDECIDED)
    }
}

const UNDECIDED: &str = "the condition cannot be decided for this result";

impl std::fmt::Debug for ResultCondition {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Condition")
    }
}
