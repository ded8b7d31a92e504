//! The values among a call's arguments, with what a grant can hold them to: the amount of a number, the folder of a path, the place that a
//! URL leads to.
//!
//! A value that could be read in two ways has none of these: a bound then does not match it, and people are asked. Deliberately not here:
//! which bound a value gets (`grant_bounds`).

use serde_json::{Number, Value};
use servanda_identity::effects::UrlRules;

/// The most values among the arguments of a call that a grant covers. Each becomes conditions of one policy, which are limited.
pub const LEAVES_MAX: usize = 24;
/// The longest value, as JSON.
const LEAF_BYTES_MAX: usize = 2_048;
/// Steps of one in a Cedar decimal.
const DECIMAL_STEPS: i64 = 10_000;
/// Digits after the point of a Cedar decimal.
const FRACTION_DIGITS: usize = 4;
/// The longest path.
const PATH_BYTES_MAX: usize = 1_024;

/// One value among the arguments.
#[derive(Debug, Clone, PartialEq)]
pub struct ArgumentLeaf {
    /// Where it stands: a JSON Pointer.
    pub pointer: String,
    /// The value: a text, a number, true, false, null, or an empty list or object.
    pub value: Value,
    /// The number in steps of a ten-thousandth, if it has no finer digits and is not too large.
    pub amount: Option<i64>,
    /// The text, if it is a path that every program reads alike.
    pub path: Option<String>,
    /// Scheme, host and port of a URL that every program reads alike.
    pub origin: Option<String>,
}

/// Why calls with these arguments cannot be covered by a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LeafFault {
    /// They are not an object.
    #[error("the arguments are not a JSON object")]
    NotAnObject,
    /// There are too many.
    #[error("the call has more than {LEAVES_MAX} values")]
    TooMany,
    /// One is too long.
    #[error("a value is longer than {LEAF_BYTES_MAX} bytes")]
    TooLong,
}

/// The values among canonical arguments, in the order of their pointers.
pub fn argument_leaves(arguments: &[u8]) -> Result<Vec<ArgumentLeaf>, LeafFault> {
    let value: Value = serde_json::from_slice(arguments).map_err(|_| LeafFault::NotAnObject)?;
    let members = value.as_object().ok_or(LeafFault::NotAnObject)?;
    let (mut pointer, mut leaves) = (String::new(), Vec::new());
    // A call without arguments has no values. An empty object inside the arguments is one.
    members.iter().try_for_each(|(name, member)| inside(name, member, &mut pointer, &mut leaves))?;
    leaves.sort_by(|one, other| one.pointer.cmp(&other.pointer));
    Ok(leaves)
}

fn collect(value: &Value, pointer: &mut String, leaves: &mut Vec<ArgumentLeaf>) -> Result<(), LeafFault> {
    match value {
        Value::Object(members) if !members.is_empty() => {
            members.iter().try_for_each(|(name, member)| inside(name, member, pointer, leaves))
        }
        Value::Array(items) if !items.is_empty() => {
            let mut items = items.iter().enumerate();
            items.try_for_each(|(index, item)| inside(&index.to_string(), item, pointer, leaves))
        }
        leaf => {
            if leaves.len() >= LEAVES_MAX {
                return Err(LeafFault::TooMany);
            }
            if pointer.len() > LEAF_BYTES_MAX || leaf.to_string().len() > LEAF_BYTES_MAX {
                return Err(LeafFault::TooLong);
            }
            leaves.push(ArgumentLeaf::new(pointer.clone(), leaf.clone()));
            Ok(())
        }
    }
}

fn inside(step: &str, value: &Value, pointer: &mut String, leaves: &mut Vec<ArgumentLeaf>) -> Result<(), LeafFault> {
    let length = pointer.len();
    pointer.push('/');
    pointer.push_str(&step.replace('~', "~0").replace('/', "~1"));
    collect(value, pointer, leaves)?;
    pointer.truncate(length);
    Ok(())
}

impl ArgumentLeaf {
    fn new(pointer: String, value: Value) -> Self {
        let text = value.as_str();
        let amount = match &value {
            Value::Number(number) => amount(number),
            _ => None,
        };
        let path = text.filter(|text| is_plain_path(text)).map(str::to_owned);
        let origin = text.and_then(origin);
        Self { pointer, value, amount, path, origin }
    }

    /// The number as a decimal, if it is one: `12.5`.
    pub fn number(&self) -> Option<String> {
        self.amount.map(write_amount)
    }

    /// The last named member of its pointer: `amount_cents` of `/items/0/amount_cents`.
    pub(crate) fn name(&self) -> &str {
        let is_number = |step: &&str| step.bytes().all(|byte| byte.is_ascii_digit());
        self.pointer.rsplit('/').find(|step| !is_number(step)).unwrap_or_default()
    }
}

/// A number in steps of a ten-thousandth; none if that would round it or it does not fit.
fn amount(number: &Number) -> Option<i64> {
    if let Some(whole) = number.as_i64() {
        return whole.checked_mul(DECIMAL_STEPS);
    }
    // Rust writes no exponents, only the shortest digits that mean this number.
    number.as_f64().filter(|float| float.is_finite()).and_then(|float| read_amount(&float.to_string()))
}

/// Reads a decimal number with at most four digits after the point.
pub(crate) fn read_amount(text: &str) -> Option<i64> {
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let are_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !are_digits(whole) || !are_digits(fraction) || fraction.len() > FRACTION_DIGITS {
        return None;
    }
    let fraction: i64 = format!("{fraction:0<FRACTION_DIGITS$}").parse().ok()?;
    let whole: i64 = whole.parse().ok()?;
    whole.checked_mul(DECIMAL_STEPS)?.checked_add(fraction)?.checked_mul(sign)
}

/// The amount as Cedar's decimals are written: `12.5`.
pub(crate) fn write_amount(amount: i64) -> String {
    let (whole, fraction) = (amount.unsigned_abs() / 10_000, amount.unsigned_abs() % 10_000);
    let digits = format!("{fraction:04}");
    let digits = match digits.trim_end_matches('0') {
        "" => "0",
        digits => digits,
    };
    format!("{}{whole}.{digits}", if amount < 0 { "-" } else { "" })
}

/// Whether a text is a path that no program reads as another: plain characters, no step that leads up or nowhere, nothing that a shell, a
/// server or another system would decode or repair first.
pub(crate) fn is_plain_path(text: &str) -> bool {
    let steps = text.strip_prefix('/').unwrap_or(text);
    text.len() <= PATH_BYTES_MAX && !steps.is_empty() && steps.split('/').all(is_plain_step)
}

/// Whether a text is a folder whose contents a bound can mean: a plain path and a slash, and not the root.
pub(crate) fn is_plain_folder(text: &str) -> bool {
    text.strip_suffix('/').is_some_and(is_plain_path)
}

fn is_plain_step(step: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-+=@, ".contains(&byte);
    // Some systems drop dots and blanks at the end of a name.
    !step.is_empty() && step.bytes().all(is_plain) && !step.starts_with([' ', '-']) && !step.ends_with([' ', '.'])
}

/// Scheme, host and port of a URL: `https://api.example:443`. None for everything that programs might read differently, that has a user in
/// it, or that leads inside a private network.
fn origin(text: &str) -> Option<String> {
    let schemes = ["https", "http", "wss", "ws"].map(str::to_owned);
    let destination = UrlRules::new(&schemes, &[]).ok()?.admit(text).ok()?;
    let scheme = text.split("://").next()?.to_ascii_lowercase();
    Some(format!("{scheme}://{destination}"))
}
