//! What can go wrong at an upstream, typed, and what each kind proves about the outside world.
//!
//! The engine decides from the contract what to do about it (refuse, retry, record as unknown).

use serde_json::value::RawValue;
use servanda_contract::legibility;
use servanda_mcp::{Era, envelope::code};

use crate::MissingCredential;

/// How many characters of foreign text one of our messages quotes.
pub(crate) const QUOTE_CHARS_MAX: usize = 300;

/// Why a call brought no answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum PerformFailure {
    /// Nothing was sent: the server could not be reached or started, or did not take the request.
    #[error("the upstream is not available: {why}")]
    Unavailable {
        /// What is known about it.
        why: String,
    },
    /// Nothing was sent: the credentials for the server are missing.
    #[error("there are no credentials for the upstream: {0}")]
    NotPresented(MissingCredential),
    /// The server rejected the request's credentials, and there are no others to show. HTTP says that such a request was not executed, and
    /// the gateway relies on that: it repeats the same request with other credentials.
    #[error("the upstream rejected the credentials (HTTP status {status}): {why}")]
    NotLetIn {
        /// 401 or 403.
        status: u16,
        /// What can be done about it.
        why: MissingCredential,
    },
    /// Nothing was sent: the limit of requests, connections or watches is reached.
    #[error("the upstream is busy: the limit of {in_flight_max} at once is reached")]
    Busy {
        /// The limit.
        in_flight_max: usize,
    },
    /// The caller cancelled it.
    #[error("the call was cancelled {}", if *sent { "after it was sent" } else { "before anything was sent" })]
    Cancelled {
        /// Whether a byte had left.
        sent: bool,
    },
    /// It was sent and the deadline passed.
    #[error("the upstream did not answer before the deadline{}", note_suffix(note.as_deref()))]
    TimedOut {
        /// What the server did instead of answering, where that is known.
        note: Option<String>,
    },
    /// It was sent and the connection was lost.
    #[error("the upstream was lost before it answered: {why}")]
    Died {
        /// What is known about the loss.
        why: String,
    },
    /// The server answered with a JSON-RPC error.
    #[error("the upstream answered with error {code}: {}", quote(message))]
    Rejected {
        /// The code.
        code: i64,
        /// The server's text, bounded, with configured secrets removed.
        message: String,
        /// The server's data, as it wrote it, with configured secrets removed.
        data: Option<Box<RawValue>>,
        /// The era that was agreed on with the server; legacy while agreeing.
        era: Era,
    },
    /// The server answered with an HTTP status that is not an answer to the request.
    #[error("the upstream answered with HTTP status {status}{}", note_suffix(Some(excerpt).filter(|text| !text.is_empty()).map(String::as_str)))]
    HttpStatus {
        /// The status.
        status: u16,
        /// The beginning of the body, with configured secrets removed.
        excerpt: String,
        /// How long the gateway should wait before the next request, if the server said so.
        retry_after_ms: Option<u64>,
    },
    /// The server's answer is longer than allowed; it was not kept.
    #[error("the upstream's answer is longer than {bytes_max} bytes")]
    TooLarge {
        /// The limit.
        bytes_max: usize,
    },
    /// The server's answer is not an MCP answer.
    #[error("the upstream's answer is not valid: {why}")]
    Malformed {
        /// What is wrong.
        why: String,
    },
}

/// Why a tool list could not be read.
#[derive(Debug, Clone, thiserror::Error)]
pub enum UpstreamError {
    /// A page was not answered.
    #[error("the tool list could not be read: {0}")]
    Page(#[from] PerformFailure),
    /// A page is not a list of tools.
    #[error("the tool list is not valid: {why}")]
    NotAList {
        /// What is wrong.
        why: String,
    },
    /// A cursor came twice. Following it would never end.
    #[error("the tool list repeats a cursor on page {page}")]
    RepeatedCursor {
        /// The page that repeated it, from 1.
        page: usize,
    },
    /// More pages than allowed.
    #[error("the tool list has more than {pages_max} pages")]
    TooManyPages {
        /// The limit.
        pages_max: usize,
    },
    /// More tools than allowed.
    #[error("the tool list has more than {tools_max} tools")]
    TooManyTools {
        /// The limit.
        tools_max: usize,
    },
    /// More bytes than allowed over all pages.
    #[error("the tool list is longer than {bytes_max} bytes")]
    TooLarge {
        /// The limit.
        bytes_max: usize,
    },
}

impl PerformFailure {
    /// Whether it is certain that the upstream did not execute the call: nothing of it was sent, or the server rejected its credentials. A
    /// JSON-RPC error that the protocol reserves for requests a server does not begin is only the server's word: it may have begun anyway.
    pub fn provably_not_executed(&self) -> bool {
        !self.sent() || matches!(self, Self::NotLetIn { .. })
    }

    /// The missing credential, if that is the reason.
    pub fn lack(&self) -> Option<&MissingCredential> {
        match self {
            Self::NotPresented(why) | Self::NotLetIn { why, .. } => Some(why),
            _ => None,
        }
    }

    /// Whether a byte of the request may have been sent.
    pub(crate) fn sent(&self) -> bool {
        match self {
            Self::Unavailable { .. } | Self::NotPresented(_) | Self::Busy { .. } | Self::Cancelled { sent: false } => {
                false
            }
            Self::Cancelled { sent: true }
            | Self::NotLetIn { .. }
            | Self::TimedOut { .. }
            | Self::Died { .. }
            | Self::Rejected { .. }
            | Self::HttpStatus { .. }
            | Self::TooLarge { .. }
            | Self::Malformed { .. } => true,
        }
    }

    /// The lease of a dispatch ended before its bytes were sent.
    pub(crate) fn lease_ended() -> Self {
        Self::unavailable(
            "this gateway's lease on the call ended, so another gateway may have taken it over; nothing was sent",
        )
    }

    pub(crate) fn unavailable(why: impl Into<String>) -> Self {
        Self::Unavailable { why: why.into() }
    }

    pub(crate) fn malformed(why: impl Into<String>) -> Self {
        Self::Malformed { why: why.into() }
    }
}

/// Whether a code is one that the modern protocol reserves. Legacy servers may use it for anything.
pub(crate) fn is_modern(code: i64) -> bool {
    matches!(code, code::HEADER_MISMATCH | code::MISSING_CLIENT_CAPABILITY | code::UNSUPPORTED_PROTOCOL_VERSION)
}

/// Makes foreign text safe for one of our messages: one line, bounded, with hidden characters spelled out.
pub(crate) fn quote(text: &str) -> String {
    let line: String = text
        .trim()
        .chars()
        .take(QUOTE_CHARS_MAX)
        .map(|character| if character.is_control() { ' ' } else { character })
        .collect();
    let mut quoted = legibility::reveal(&line).into_owned();
    if text.trim().chars().nth(QUOTE_CHARS_MAX).is_some() {
        quoted.push('…');
    }
    quoted
}

fn note_suffix(note: Option<&str>) -> String {
    note.map_or_else(String::new, |note| format!(": {}", quote(note)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rejected(code: i64, era: Era) -> PerformFailure {
        PerformFailure::Rejected { code, message: "boom".to_owned(), data: None, era }
    }

    #[test]
    fn only_what_never_left_is_provably_not_executed() {
        let table = [
            (PerformFailure::unavailable("refused"), true),
            (PerformFailure::Busy { in_flight_max: 1 }, true),
            (PerformFailure::NotPresented(MissingCredential::unavailable("no secret")), true),
            (PerformFailure::NotLetIn { status: 401, why: MissingCredential::not_permitted("no login") }, true),
            (PerformFailure::Cancelled { sent: false }, true),
            (PerformFailure::Cancelled { sent: true }, false),
            (PerformFailure::TimedOut { note: None }, false),
            (PerformFailure::Died { why: "exit status: 1".to_owned() }, false),
            (rejected(-32603, Era::Legacy), false),
            (rejected(-32603, Era::Modern), false),
            (rejected(-32602, Era::Modern), false),
            (rejected(-32020, Era::Modern), false),
            (rejected(-32021, Era::Modern), false),
            (rejected(-32022, Era::Modern), false),
            (rejected(-32020, Era::Legacy), false),
            (rejected(-32021, Era::Legacy), false),
            (rejected(-32022, Era::Legacy), false),
            (PerformFailure::HttpStatus { status: 503, excerpt: String::new(), retry_after_ms: None }, false),
            (PerformFailure::TooLarge { bytes_max: 1 }, false),
            (PerformFailure::malformed("no result"), false),
        ];
        for (failure, expected) in table {
            assert_eq!(failure.provably_not_executed(), expected, "{failure}");
            assert!(!failure.to_string().contains('\n'));
        }
    }

    #[test]
    fn foreign_text_is_one_bounded_line() {
        assert_eq!(quote(" a\nb\u{1b}[31m "), "a b [31m");
        let long = quote(&"x".repeat(1_000));
        assert_eq!(long.chars().count(), QUOTE_CHARS_MAX + 1);
    }
}
