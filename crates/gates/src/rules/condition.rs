//! One condition over one result, with the same bounds as the rules over arguments.

use std::sync::Arc;

use cel::{Context, Env, Program, Value as CelValue};
use serde_json::Value;

use super::{COST_MAX, compile, cost, to_cel};

/// What conditions are over.
const RESULT: &str = "result";

/// A condition, ready to be looked at.
pub(crate) struct Condition {
    environment: Arc<Env>,
    program: Program,
}

impl Condition {
    /// Compiles a condition over `result`.
    pub(crate) fn compile(expression: &str) -> Result<Self, String> {
        let environment = Arc::new(Env::stdlib());
        let (program, _) = compile(expression, RESULT, &environment)?;
        Ok(Self { environment, program })
    }

    /// Whether it holds. What cannot be decided neither holds nor does not.
    pub(crate) fn holds(&self, result: &Value) -> Result<bool, &'static str> {
        if cost::bound(self.program.expression(), RESULT, result) > COST_MAX {
            return Err("the condition would take too many steps for a result of this size");
        }
        let mut context = Context::with_env(Arc::clone(&self.environment));
        context.add_variable_from_value(RESULT, to_cel(result));
        match self.program.execute(&context) {
            Ok(CelValue::Bool(holds)) => Ok(holds),
            // The library's own words repeat values.
            Ok(_) | Err(_) => Err("the condition cannot be decided for this result"),
        }
    }
}

impl std::fmt::Debug for Condition {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Condition")
    }
}
