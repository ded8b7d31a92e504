//! A server's questions as they stand in messages: what a server wrote, and the `inputRequests` object of a modern client. Whether a
//! question may be asked is decided by the rules, not here.

use serde_json::value::RawValue;
use servanda_mcp::{RawObject, envelope::to_json};

use super::ClientQuestion;

/// The most questions of one request that wait for their answers at once.
pub(crate) const QUESTIONS_MAX: usize = 64;

/// A request that a server makes of the client, as the server wrote it.
#[derive(Debug)]
pub(crate) struct ServerQuestion {
    pub(crate) method: String,
    pub(crate) params: Option<Box<RawValue>>,
}

/// The input that was not given, and why.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MissingInput {
    pub(crate) method: String,
    pub(crate) why: String,
}

/// Questions as a modern client reads them.
pub(crate) fn input_requests(open: &[(String, ClientQuestion)]) -> String {
    let member = |(key, asking): &(String, ClientQuestion)| {
        let params = asking.params().map_or_else(String::new, |params| format!(r#","params":{}"#, params.get()));
        format!(r#"{}:{{"method":{}{params}}}"#, to_json(key), to_json(asking.method()))
    };
    format!("{{{}}}", open.iter().map(member).collect::<Vec<_>>().join(","))
}

/// The requests of an `inputRequests` object, in order; none if it is not one.
pub(crate) fn read_input_requests(raw: &RawValue) -> Option<Vec<(String, ServerQuestion)>> {
    let requests: RawObject<'_> = serde_json::from_str(raw.get()).ok()?;
    let read = |(key, request): (&str, &RawValue)| {
        let request: RawObject<'_> = serde_json::from_str(request.get()).ok()?;
        let method = serde_json::from_str(request.get("method")?.get()).ok()?;
        Some((key.to_owned(), ServerQuestion { method, params: request.get("params").map(ToOwned::to_owned) }))
    };
    requests.iter().map(read).collect()
}
