//! Checks what a requester sends beside a tool's arguments and upstreams read: `_meta`, `inputResponses`, the parameters of inquiries. No
//! contract says what may be in them. They must be strict JSON within the gates' limits all the same, because servers are shared, and one
//! text must not mean two things to two readers.

use std::collections::BTreeSet;

use serde_json::value::RawValue;
use servanda_contract::json::{self, StrictError};
use servanda_gates::GateLimits;
use servanda_mcp::{
    RpcError,
    envelope::code,
    fields::member::{INPUT_RESPONSES, META},
};

use super::RequestTerms;

/// Refuses terms that are not strict JSON.
pub(crate) fn check_terms(terms: &RequestTerms, limits: GateLimits) -> Result<(), RpcError> {
    check_members(META, &terms.meta, limits)?;
    terms.input_responses.as_deref().map_or(Ok(()), |raw| check(INPUT_RESPONSES, raw, limits))
}

/// Refuses members of an object, `place`, that are not strict JSON or stand twice.
pub(crate) fn check_members(
    place: &str,
    members: &[(String, Box<RawValue>)],
    limits: GateLimits,
) -> Result<(), RpcError> {
    let mut names = BTreeSet::new();
    for (name, raw) in members {
        if !names.insert(name) {
            return Err(refuse(place, "a key stands twice in it", "keep one of the two"));
        }
        check(place, raw, limits)?;
    }
    Ok(())
}

/// Refuses a value that is not strict JSON. Integers that a double cannot represent are passed on as they were written, because nothing is
/// decided from them here.
pub(crate) fn check(place: &str, raw: &RawValue, limits: GateLimits) -> Result<(), RpcError> {
    let limits = json::JsonLimits { bytes_max: limits.arguments_bytes_max, depth_max: limits.arguments_depth_max };
    match json::decode(raw.get().as_bytes(), limits) {
        // The decoder reports too large integers only if everything else is in order.
        Ok(_) | Err(StrictError::IntegerTooLarge { .. }) => Ok(()),
        Err(error) => Err(refuse(place, &error.to_string(), error.hint())),
    }
}

fn refuse(place: &str, why: &str, hint: &str) -> RpcError {
    RpcError::new(code::INVALID_PARAMS, format!("`{place}` cannot be taken: {why}")).with_hint(hint)
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;
    use servanda_gates::GateLimits;

    use super::{check_members, check_terms};
    use crate::RequestTerms;

    const LIMITS: GateLimits = GateLimits { arguments_bytes_max: 1_000, arguments_depth_max: 8 };

    #[test]
    fn only_strict_json_within_the_limits_passes() {
        let deep = format!("{}{}", "[".repeat(9), "]".repeat(9));
        let long = format!("\"{}\"", "x".repeat(1_000));
        let table = [
            (r#"{"k":{"action":"accept","content":{"a":1.5}}}"#, true),
            ("null", true),
            ("9007199254740993", true),
            (r#"{"k":9007199254740993,"k":1}"#, false),
            (r#"{"k":1,"k":2}"#, false),
            (r#"{"k":1,"\u006b":2}"#, false),
            (r#""\ud800""#, false),
            ("1e999999", false),
            (deep.as_str(), false),
            (long.as_str(), false),
        ];
        for (text, taken) in table {
            let raw = || RawValue::from_string(text.to_owned()).unwrap();
            let answers = RequestTerms { input_responses: Some(raw()), ..RequestTerms::default() };
            let meta = RequestTerms { meta: vec![("a/b".to_owned(), raw())], ..RequestTerms::default() };
            for terms in [answers, meta] {
                let checked = check_terms(&terms, LIMITS);
                assert_eq!(checked.is_ok(), taken, "{text}");
                assert!(checked.err().is_none_or(|error| error.code == -32602));
            }
            let twice = [("a".to_owned(), raw()), ("a".to_owned(), raw())];
            assert!(check_members("params", &twice, LIMITS).is_err());
        }
    }
}
