//! Which operation a call belongs to, as its client says. Gate 2 judges it: the statements must agree and keep
//! their limits, because from here on two calls with the same statement may be treated as one.
//!
//! Deliberately not here: the key that is derived from it, which may need a secret.

use serde_json::Value;
use servanda_contract::{FieldError, OperationKeys};

use crate::CompiledContract;

/// The argument in which a model can name its operation, unless the contract has an argument of that name.
pub const OPERATION_ARGUMENT: &str = "servanda_operation_id";
/// The most characters of a key or an id.
pub const KEY_CHARS_MAX: usize = 255;

/// The ways in which a client can name the operation of a call.
const HOW: &str = "a key in `_meta[\"servanda/idempotency-key\"]` or the header `Idempotency-Key`, or an operation id in \
                   `_meta[\"servanda/operation-id\"]` or the argument `servanda_operation_id`";

/// Evidence: the client's statements about its operation are consistent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Operation {
    identity: Option<OperationIdentity>,
    operation_id: Option<String>,
}

/// What decides whether two calls are one operation. A key wins over an operation id, and an operation id over
/// a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OperationIdentity {
    /// A key that the client chose.
    Key(String),
    /// A business operation, perhaps of a workflow and a run.
    Operation {
        /// The operation.
        id: String,
        /// Its workflow, or empty.
        workflow: String,
        /// Its run, or empty.
        run: String,
    },
    /// A step of the agent's plan.
    Step(String),
}

impl Operation {
    /// What identifies the operation, if the client said anything.
    pub fn identity(&self) -> Option<&OperationIdentity> {
        self.identity.as_ref()
    }

    /// The operation id that the client gave, if it did, even if something else decides.
    pub fn operation_id(&self) -> Option<&str> {
        self.operation_id.as_deref()
    }
}

/// Whether calls of the tool may name their operation in [`OPERATION_ARGUMENT`]: the tool changes something,
/// and has no argument of that name itself.
pub fn takes_operation_argument(contract: &CompiledContract) -> bool {
    contract.contract().effect_class().mutates() && !contract.input().declares(OPERATION_ARGUMENT)
}

/// Takes the operation out of the arguments of a tool that changes something, unless the tool has an argument
/// of that name.
pub(crate) fn take_argument(contract: &CompiledContract, arguments: &mut Value) -> Option<Value> {
    if !takes_operation_argument(contract) {
        return None;
    }
    arguments.as_object_mut()?.shift_remove(OPERATION_ARGUMENT)
}

/// Judges everything that a client said about its operation.
pub(crate) fn judge(
    contract: &CompiledContract,
    keys: &OperationKeys,
    argument: Option<Value>,
) -> Result<Operation, Vec<FieldError>> {
    let mut errors = Vec::new();
    let mut check = |place: &OperationField, text: Option<&str>| {
        if let Some(fault) = text.and_then(fault) {
            errors.push(place.error("1 to 255 visible characters", fault));
        }
    };
    check(&META_KEY, keys.idempotency_key.as_deref());
    check(&HEADER_KEY, keys.header_key.as_deref());
    check(&META_OPERATION, keys.operation_id.as_deref());
    check(&META_STEP, keys.step_id.as_deref());
    check(&META_WORKFLOW, keys.workflow_id.as_deref());
    check(&META_RUN, keys.run_id.as_deref());
    let argument = match argument {
        None => None,
        Some(Value::String(text)) => {
            check(&ARGUMENT, Some(&text));
            Some(text)
        }
        Some(_) => {
            errors.push(ARGUMENT.error("a string", "another type"));
            None
        }
    };
    let key = agreed((&META_KEY, &keys.idempotency_key), (&HEADER_KEY, &keys.header_key), &mut errors);
    let operation_id = agreed((&META_OPERATION, &keys.operation_id), (&ARGUMENT, &argument), &mut errors);
    let said = match (key, &operation_id, &keys.step_id) {
        (Some(key), _, _) => Some(OperationIdentity::Key(key)),
        (None, Some(id), _) => Some(OperationIdentity::Operation {
            id: id.clone(),
            workflow: keys.workflow_id.clone().unwrap_or_default(),
            run: keys.run_id.clone().unwrap_or_default(),
        }),
        (None, None, Some(step)) => Some(OperationIdentity::Step(step.clone())),
        (None, None, None) => None,
    };
    let wanted = contract.contract().idempotency.required && contract.contract().effect_class().mutates();
    if wanted && said.is_none() && errors.is_empty() {
        errors.push(META_KEY.error(HOW, "no key and no operation id"));
    }
    if errors.is_empty() { Ok(Operation { identity: said, operation_id }) } else { Err(errors) }
}

/// The hint for such errors.
pub(crate) fn hint() -> String {
    format!("say which operation it is, in one way or in two that agree: {HOW}")
}

/// A place in which a client can say something about its operation.
struct OperationField {
    field: &'static str,
    pointer: &'static str,
}

const META_KEY: OperationField = OperationField { field: "_meta[\"servanda/idempotency-key\"]", pointer: "" };
const META_OPERATION: OperationField = OperationField { field: "_meta[\"servanda/operation-id\"]", pointer: "" };
const META_STEP: OperationField = OperationField { field: "_meta[\"servanda/step-id\"]", pointer: "" };
const META_WORKFLOW: OperationField = OperationField { field: "_meta[\"servanda/workflow-id\"]", pointer: "" };
const META_RUN: OperationField = OperationField { field: "_meta[\"servanda/run-id\"]", pointer: "" };
const HEADER_KEY: OperationField = OperationField { field: "the header Idempotency-Key", pointer: "" };
const ARGUMENT: OperationField = OperationField { field: OPERATION_ARGUMENT, pointer: "/servanda_operation_id" };

impl OperationField {
    fn error(&self, expected: &str, actual: &str) -> FieldError {
        FieldError {
            field: self.field.to_owned(),
            pointer: self.pointer.to_owned(),
            expected: expected.to_owned(),
            actual: actual.to_owned(),
            message: format!("`{}` must be {expected}, but is {actual}", self.field),
            did_you_mean: None,
        }
    }
}

/// The value of two places, which must be equal if both have one.
fn agreed(
    (one_place, one): (&OperationField, &Option<String>),
    (other_place, other): (&OperationField, &Option<String>),
    errors: &mut Vec<FieldError>,
) -> Option<String> {
    if let (Some(one), Some(other)) = (one, other)
        && one != other
    {
        let expected = format!("the same as {}", one_place.field);
        errors.push(other_place.error(&expected, "another text"));
    }
    one.clone().or_else(|| other.clone())
}

/// What is wrong with a key, without repeating it.
fn fault(text: &str) -> Option<&'static str> {
    let chars = text.chars().count();
    if chars == 0 {
        Some("empty")
    } else if chars > KEY_CHARS_MAX {
        Some("longer")
    } else if text.chars().any(|character| character.is_control() || is_invisible(character)) {
        Some("a text with invisible characters")
    } else if text.trim() != text {
        Some("a text with white space around it")
    } else {
        None
    }
}

/// Characters that make two keys differ for a machine and not for a person.
fn is_invisible(character: char) -> bool {
    matches!(character, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2064}' | '\u{feff}')
}
