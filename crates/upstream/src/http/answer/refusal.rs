//! Reads a response that is not a success: what it says about the request, and whether the server has forgotten the handshake, so that the
//! next request needs a new one. Pure functions.

use hyper::{StatusCode, header::HeaderMap};
use servanda_mcp::{Era, Id, Message, ProtocolVersion, envelope::code};

use crate::{
    PerformFailure, conversation::server_error::failure_from_rpc_error, credentials::redaction::Redaction,
    eras::handshake::supported, failure::is_modern,
};

/// The error code of servers that have no specific one.
const SERVER_ERROR: i64 = -32000;

/// What was agreed with the server.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProtocolAgreement {
    pub(super) era: Era,
    /// Whether there is a legacy session.
    pub(super) in_session: bool,
}

/// The JSON-RPC error in the response, or its status.
pub(super) fn failure_from_response(
    status: StatusCode,
    retry_after_ms: Option<u64>,
    body: &[u8],
    id: i64,
    era: Era,
    redaction: &Redaction,
) -> PerformFailure {
    match Message::parse(body) {
        Ok(Message::Failure { id: answered, error }) if concerns(status, answered.as_ref(), error.code, id) => {
            failure_from_rpc_error(error, era, redaction)
        }
        _ => {
            let excerpt = redaction.quote(&String::from_utf8_lossy(body));
            PerformFailure::HttpStatus { status: status.as_u16(), excerpt, retry_after_ms }
        }
    }
}

/// How long a busy server wants the gateway to wait.
pub(super) fn retry_after_ms(status: StatusCode, headers: &HeaderMap) -> Option<u64> {
    let busy = matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
    if busy { crate::retry_after::retry_after_ms(headers) } else { None }
}

/// An error without an id is about the request, except in a 404, which any proxy may have written. Only a server writes the codes of the
/// modern protocol.
fn concerns(status: StatusCode, answered: Option<&Id>, code: i64, id: i64) -> bool {
    match answered {
        Some(answered) => *answered == Id::Number(id),
        None => status != StatusCode::NOT_FOUND || is_modern(code),
    }
}

/// Whether the server has forgotten the handshake or speaks another era by now, as after a restart. This proves nothing about the request.
/// A wrong guess costs one handshake.
pub(super) fn ends_agreement(agreement: ProtocolAgreement, status: StatusCode, failure: &PerformFailure) -> bool {
    match agreement.era {
        Era::Legacy => ends_legacy_agreement(agreement.in_session, status, failure),
        Era::Modern => ends_modern_agreement(status, failure),
    }
}

fn ends_legacy_agreement(in_session: bool, status: StatusCode, failure: &PerformFailure) -> bool {
    match (status, failure) {
        (StatusCode::NOT_FOUND, PerformFailure::Rejected { message, .. }) => in_session && tells_no_session(message),
        (StatusCode::NOT_FOUND, _) => in_session,
        // Servers built after the TypeScript examples answer an unknown session with 400 and a message instead of 404.
        (StatusCode::BAD_REQUEST, PerformFailure::Rejected { code: SERVER_ERROR, message, .. }) => {
            tells_no_session(message)
        }
        // Answers of Python servers have an id of their own, so only the excerpt is known.
        (StatusCode::BAD_REQUEST, PerformFailure::HttpStatus { excerpt, .. }) => tells_no_session(excerpt),
        (StatusCode::BAD_REQUEST, PerformFailure::Rejected { code, .. }) => is_modern(*code),
        _ => false,
    }
}

fn ends_modern_agreement(status: StatusCode, failure: &PerformFailure) -> bool {
    // 422 is what servers built on rmcp answer to anything but `initialize` outside a session.
    let refuses = matches!(status, StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND | StatusCode::UNPROCESSABLE_ENTITY);
    let about_the_request = match failure {
        PerformFailure::Rejected { code: code::UNSUPPORTED_PROTOCOL_VERSION, data, .. } => {
            // Only a server that lists its versions can show that it no longer speaks ours.
            supported(data.as_deref()).is_none_or(|versions| versions.contains(&ProtocolVersion::NEWEST))
        }
        PerformFailure::Rejected {
            code: code::INVALID_PARAMS | code::METHOD_NOT_FOUND | code::INTERNAL_ERROR, ..
        } => true,
        PerformFailure::Rejected { code, .. } => is_modern(*code),
        _ => false,
    };
    refuses && !about_the_request
}

fn tells_no_session(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    text.contains("session") || text.contains("not initialized")
}

#[cfg(test)]
mod tests {
    use hyper::header::{DATE, RETRY_AFTER};

    use super::*;

    fn rejected(code: i64, message: &str) -> PerformFailure {
        PerformFailure::Rejected { code, message: message.to_owned(), data: None, era: Era::Legacy }
    }

    fn unsupported(data: &str) -> PerformFailure {
        let data = serde_json::value::RawValue::from_string(data.to_owned()).ok();
        PerformFailure::Rejected { code: -32022, message: "unsupported".to_owned(), data, era: Era::Modern }
    }

    fn status(status: u16, excerpt: &str) -> PerformFailure {
        PerformFailure::HttpStatus { status, excerpt: excerpt.to_owned(), retry_after_ms: None }
    }

    #[test]
    fn a_refusal_that_is_not_about_the_agreement_keeps_it() {
        let in_session = ProtocolAgreement { era: Era::Legacy, in_session: true };
        let sessionless = ProtocolAgreement { era: Era::Legacy, in_session: false };
        let modern = ProtocolAgreement { era: Era::Modern, in_session: false };
        let table = [
            (in_session, 404, status(404, ""), true),
            (in_session, 404, rejected(-32001, "Session not found"), true),
            (in_session, 404, rejected(-32602, "there is no such row"), false),
            (in_session, 400, rejected(-32000, "Bad Request: No valid session ID provided"), true),
            (in_session, 400, rejected(-32000, "Bad Request: Server not initialized"), true),
            (in_session, 400, status(400, r#"{"id":"server-error","error":{"message":"Missing session ID"}}"#), true),
            (in_session, 400, rejected(-32022, "unsupported protocol version"), true),
            (in_session, 400, rejected(-32000, "the row is locked"), false),
            (in_session, 400, rejected(-32602, "no session"), false),
            (in_session, 503, status(503, "no session"), false),
            (sessionless, 404, status(404, ""), false),
            (sessionless, 400, rejected(-32000, "Bad Request: Server not initialized"), true),
            (modern, 400, rejected(-32000, "Bad Request: Server not initialized"), true),
            (modern, 400, status(400, "Missing session ID"), true),
            (modern, 422, status(422, "expect initialize request"), true),
            (modern, 404, status(404, ""), true),
            (modern, 404, rejected(-32601, "no such method"), false),
            (modern, 400, rejected(-32602, "no such row"), false),
            (modern, 400, rejected(-32020, "header mismatch"), false),
            (modern, 400, rejected(-32021, "missing capability"), false),
            (modern, 404, rejected(-32021, "missing capability"), false),
            (modern, 400, rejected(-32022, "unsupported"), false),
            (modern, 400, unsupported(r#"{"supported":["2026-07-28"]}"#), false),
            (modern, 400, unsupported(r#"{"supported":["2025-11-25"]}"#), true),
            (modern, 503, status(503, ""), false),
            (modern, 401, status(401, ""), false),
        ];
        for (agreement, code, failure, expected) in table {
            let status = StatusCode::from_u16(code).unwrap();
            assert_eq!(ends_agreement(agreement, status, &failure), expected, "{agreement:?} {code} {failure}");
        }
    }

    #[test]
    fn only_a_busy_server_that_says_how_long_is_left_alone_for_a_while() {
        let table = [
            (503, Some("2"), Some(2_000)),
            (429, Some(" 1 "), Some(1_000)),
            (500, Some("2"), None),
            (503, Some("-1"), None),
            (503, Some("Wed, 21 Oct 2026 07:28:00 GMT"), Some(60_000)),
            (500, Some("Wed, 21 Oct 2026 07:28:00 GMT"), None),
            (503, None, None),
        ];
        for (status, written, expected) in table {
            let mut headers = HeaderMap::new();
            headers.extend(written.map(|written| (RETRY_AFTER, written.parse().unwrap())));
            headers.insert(DATE, "Wed, 21 Oct 2026 07:27:00 GMT".parse().unwrap());
            let found = retry_after_ms(StatusCode::from_u16(status).unwrap(), &headers);
            assert_eq!(found, expected, "{status} {written:?}");
        }
    }

    #[test]
    fn refusals_are_read_from_the_body_or_from_the_status() {
        let redaction = Redaction::default();
        let table = [
            (400, r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no"}}"#, "error -32000"),
            (400, r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32022,"message":"no"}}"#, "error -32022"),
            (400, r#"{"jsonrpc":"2.0","id":8,"error":{"code":-32022,"message":"no"}}"#, "HTTP status 400"),
            (404, r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32001,"message":"no"}}"#, "error -32001"),
            (404, r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"no"}}"#, "HTTP status 404"),
            (404, r#"{"jsonrpc":"2.0","error":{"code":-32021,"message":"no","data":{"a":1}}}"#, "error -32021"),
            (502, "<html>Bad Gateway</html>", "HTTP status 502: <html>Bad Gateway</html>"),
            (401, "", "HTTP status 401"),
        ];
        for (status, body, expected) in table {
            let status = StatusCode::from_u16(status).unwrap();
            let shown = failure_from_response(status, None, body.as_bytes(), 7, Era::Modern, &redaction).to_string();
            assert!(shown.contains(expected), "{shown}");
        }
    }
}
