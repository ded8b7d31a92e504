//! Integers in JSON text: which of them every reader holds exactly. The check works on the literal, because a double no longer
//! has the lost digits.

/// The largest integer that every JSON reader holds exactly: 2^53 − 1.
const INTEGER_MAX: u64 = (1 << 53) - 1;
/// Doubles from here on may be integers that lost digits: 2^53.
const INEXACT_FROM: f64 = 9_007_199_254_740_992.0;
/// Doubles below this are written without an exponent in canonical form (RFC 8785), so that they read as integers there.
const EXPONENT_FROM: f64 = 1e21;

/// Whether an integer of this size loses digits in a double.
pub(super) const fn is_inexact(value: u64) -> bool {
    value > INTEGER_MAX
}

/// Whether a double may have been an integer that lost digits; only the text can tell.
pub(super) fn may_be_inexact(value: f64) -> bool {
    value.abs() >= INEXACT_FROM
}

/// The integer value of a double, if every reader holds it exactly.
pub(super) fn exact(value: f64) -> Option<i64> {
    // Converted through text, because `as` would also convert numbers that are not exact.
    (value.abs() < INEXACT_FROM && value.fract() == 0.0).then(|| format!("{value:.0}").parse().ok())?
}

/// The offset of the first number that lost digits: an integer literal beyond ±(2^53 − 1), or another literal whose
/// canonical form would be one (9007199254740993.0), so that canonical bytes are always strict JSON themselves.
/// `text` is known to be well-formed JSON.
pub(super) fn first_inexact(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'"' => at += string_len(text.get(at..)?),
            b'-' | b'0'..=b'9' => {
                let literal = number_at(text.get(at..)?);
                if is_inexact_integer(literal) {
                    return Some(at);
                }
                at += literal.len();
            }
            _ => at += 1,
        }
    }
    None
}

/// The length of the string literal at the start, quotes included.
fn string_len(text: &[u8]) -> usize {
    let mut escaped = false;
    for (offset, &byte) in text.iter().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return offset + 1,
            _ => {}
        }
    }
    text.len()
}

/// The number literal at the start.
fn number_at(text: &[u8]) -> &[u8] {
    let len = text.iter().take_while(|byte| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E')).count();
    text.get(..len).unwrap_or(text)
}

fn is_inexact_integer(literal: &[u8]) -> bool {
    let Ok(literal) = std::str::from_utf8(literal) else { return false };
    let digits = literal.strip_prefix('-').unwrap_or(literal);
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than fit a u64 do not parse, and are inexact.
        return digits.parse::<u64>().ok().is_none_or(is_inexact);
    }
    digits.parse::<f64>().is_ok_and(|value| (INEXACT_FROM..EXPONENT_FROM).contains(&value))
}
