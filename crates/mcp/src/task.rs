//! The shapes of tasks in both eras: legacy tasks are in the core of the protocol, modern ones in an extension.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::RawObject;

/// The modern era's name for a task's time to live; the legacy era uses `ttl`.
const MODERN_TTL: &str = "ttlMs";

/// The id of the task that a legacy result is about: a task that was started, or one that was asked for.
pub fn legacy_id(result: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct LegacyTaskResult<'a> {
        #[serde(borrow)]
        task: &'a RawValue,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct LegacyTaskRef {
        task_id: String,
    }
    let begun: LegacyTaskResult<'_> = serde_json::from_str(result).ok()?;
    serde_json::from_str::<LegacyTaskRef>(begun.task.get()).ok().map(|named| named.task_id)
}

/// Whether a task notification's parameters are of the modern era: the eras use different names for the time to live.
pub fn is_modern(params: &RawValue) -> bool {
    let params = serde_json::from_str::<RawObject<'_>>(params.get());
    params.is_ok_and(|params| params.get(MODERN_TTL).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_begun_task_is_named() {
        assert_eq!(legacy_id(r#"{"task":{"taskId":"t","status":"working"}}"#).as_deref(), Some("t"));
        for other in ["{}", r#"{"task":5}"#, r#"{"taskId":"t"}"#] {
            assert_eq!(legacy_id(other), None);
        }
    }

    #[test]
    fn the_eras_are_told_apart_by_the_time_to_live() {
        for (params, modern) in [
            (r#"{"taskId":"t","ttlMs":null}"#, true),
            (r#"{"taskId":"t","ttl":1}"#, false),
            ("{}", false),
            ("[]", false),
        ] {
            assert_eq!(is_modern(&RawValue::from_string(params.to_owned()).unwrap()), modern, "{params}");
        }
    }
}
