//! The errors of inquiries, in the requester's era and with the requester's names. A server's own error is passed on as the rules for
//! questions allow it.

use serde_json::value::RawValue;
use servanda_mcp::{
    Era, RawObject, RpcError,
    envelope::{code, to_json},
};
use servanda_upstream::PerformFailure;

use crate::{answers::upstream_failure, questions::ClientFailure, world::UpstreamMember};

/// The error for a failed inquiry: the server's own error if it answered with one.
pub(crate) fn from_failure(failure: &ClientFailure, member: &UpstreamMember) -> RpcError {
    upstream_failure::server_error(failure).unwrap_or_else(|| {
        RpcError::new(code::INTERNAL_ERROR, format!("`{}`: {failure}", member.id))
            .with_hint("try again later; operators: `servanda doctor` looks at every upstream")
    })
}

/// The same for a request about one resource. "Not found" gets the code of the requester's era.
pub(crate) fn from_read_failure(
    failure: &ClientFailure,
    member: &UpstreamMember,
    requester_era: Era,
    exposed: &str,
) -> RpcError {
    let error = from_failure(failure, member);
    let PerformFailure::Rejected { code, .. } = &**failure else { return error };
    let named = error.data.as_deref().is_some_and(names_uri);
    let not_found = match *code {
        code::RESOURCE_NOT_FOUND => true,
        // The modern code only says that a parameter is wrong; a URI in the data says which one.
        code::INVALID_PARAMS => named || requester_era == Era::Modern,
        _ => false,
    };
    if !not_found {
        return error;
    }
    let data = RawValue::from_string(with_uri(error.data.as_deref(), exposed)).ok();
    RpcError { code: not_found_code(requester_era), data, ..error }
}

/// The error for a URI that belongs to no upstream here.
pub(crate) fn no_resource(requester_era: Era, exposed: &str) -> RpcError {
    let shown: String = exposed.chars().take(1_000).collect();
    let data = RawValue::from_string(with_uri(None, &shown)).ok();
    RpcError { code: not_found_code(requester_era), message: "there is no such resource".to_owned(), data }
}

const fn not_found_code(requester_era: Era) -> i64 {
    match requester_era {
        Era::Legacy => code::RESOURCE_NOT_FOUND,
        Era::Modern => code::INVALID_PARAMS,
    }
}

fn names_uri(data: &RawValue) -> bool {
    serde_json::from_str::<RawObject<'_>>(data.get()).is_ok_and(|members| members.get("uri").is_some())
}

/// The server's data with the URI that the requester knows; other members stay.
fn with_uri(data: Option<&RawValue>, exposed: &str) -> String {
    let members = data.and_then(|data| serde_json::from_str::<RawObject<'_>>(data.get()).ok()).unwrap_or_default();
    let mut json = format!(r#"{{"uri":{},"#, to_json(exposed));
    members.without(&["uri"]).write_members(&mut json);
    json.pop();
    json.push('}');
    json
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::value::RawValue;
    use servanda_mcp::{Era, RpcError};
    use servanda_upstream::PerformFailure;

    use super::{from_read_failure, no_resource};
    use crate::{
        questions::{ClientFailure, QuestionRules},
        testing::member,
    };

    fn put(failure: PerformFailure) -> ClientFailure {
        QuestionRules::new(&Arc::from("up"), true).failure_for_client(failure, &mut Vec::new())
    }

    fn rejected(code: i64, data: Option<&str>) -> ClientFailure {
        let data = data.map(|text| RawValue::from_string(text.to_owned()).unwrap());
        put(crate::answers::upstream_failure::rejected(RpcError { code, message: "theirs".to_owned(), data }))
    }

    #[test]
    fn what_is_not_there_is_said_in_the_requesters_era() {
        const OURS: &str = r#"{"uri":"servanda://up/x"}"#;
        let (legacy, modern) = (Era::Legacy, Era::Modern);
        // the server's code and data, the requester's era, the code and data it gets
        let table = [
            (-32002, None, modern, -32602, Some(OURS)),
            (-32002, Some(r#"{"uri":"x","why":1.0}"#), modern, -32602, Some(r#"{"uri":"servanda://up/x","why":1.0}"#)),
            (-32002, Some(r#"{"uri":"x"}"#), legacy, -32002, Some(OURS)),
            (-32602, Some(r#"{"uri":"x"}"#), legacy, -32002, Some(OURS)),
            (-32602, Some(r#"{"uri":"x"}"#), modern, -32602, Some(OURS)),
            (-32602, None, modern, -32602, Some(OURS)),
            (-32602, None, legacy, -32602, None),
            (-32602, Some("7"), legacy, -32602, Some("7")),
            (-32601, Some(r#"{"uri":"x"}"#), modern, -32601, Some(r#"{"uri":"x"}"#)),
            (-32603, None, modern, -32603, None),
            (7, Some("[1]"), legacy, 7, Some("[1]")),
        ];
        let member = Arc::new(member("up"));
        for (code, data, era, expected_code, expected_data) in table {
            let error = from_read_failure(&rejected(code, data), &member, era, "servanda://up/x");
            let answered = (error.code, error.data.as_deref().map(RawValue::get), error.message.as_str());
            assert_eq!(answered, (expected_code, expected_data, "theirs"), "{code} {data:?} {era:?}");
        }
        assert_eq!(no_resource(modern, "x").code, -32602);
        assert_eq!(no_resource(legacy, "x").data.unwrap().get(), r#"{"uri":"x"}"#);
    }

    #[test]
    fn a_server_that_is_down_is_an_error_with_a_hint() {
        let failure = put(PerformFailure::Unavailable { why: "refused".to_owned() });
        let error = from_read_failure(&failure, &member("up"), Era::Modern, "x");
        assert_eq!(error.code, -32603);
        assert!(error.message.contains("`up`") && error.data.unwrap().get().contains("servanda doctor"));
    }
}
