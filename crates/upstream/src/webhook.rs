//! Sends one HTTP request to an operator's callback, which is not an MCP server.
//!
//! It reports what came back and decides nothing: the sender decides whether to try again. Redirects are not followed, the body of the
//! answer is not read, and no message here repeats an address, which may hold a secret.

use std::{fmt, net::IpAddr, time::Duration};

use bytes::Bytes;
use hyper::{
    Method,
    header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT},
};
use servanda_effects::PortFuture;
use url::Url;

use crate::{
    http_client::{ClientLimits, HttpClient, HttpError, HttpRequestBody, Origin, RequestTarget},
    retry_after::retry_after_ms,
};

/// How long connecting may take.
const CONNECT_MS_MAX: u64 = 10_000;

/// The receiver's address: over TLS, or on this machine.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookAddress(Url);

/// What is sent.
#[derive(Debug, Clone)]
pub struct WebhookMessage {
    /// Header fields apart from the usual ones.
    pub headers: Vec<(&'static str, String)>,
    /// A JSON document.
    pub body: Bytes,
}

/// What came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WebhookResponse {
    /// The HTTP status.
    pub status: u16,
    /// How long the receiver wants the gateway to wait before the next message, if it says so.
    pub retry_after_ms: Option<u64>,
}

/// Why nothing came back. The text contains no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct WebhookSendError(pub String);

/// Sends webhook messages.
#[derive(Debug, Clone)]
pub struct WebhookClient {
    answer_ms_max: u64,
}

impl WebhookAddress {
    /// Reads a URL; the error says what is wrong with it without repeating it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let url = Url::parse(text).map_err(|error| format!("it is not a URL: {error}"))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err("it has a user or a password, which would be sent along".to_owned());
        }
        match url.scheme() {
            "https" => Ok(Self(url)),
            "http" if is_loopback(&url) => Ok(Self(url)),
            "http" => Err("`http` is only for this machine; the receiver needs `https`".to_owned()),
            other => Err(format!("its scheme is `{other}`; `https` is needed, or `http` to this machine")),
        }
    }

    /// Its scheme, host and port. Only these may be shown, because the rest may hold a token.
    pub fn origin(&self) -> String {
        self.0.origin().ascii_serialization()
    }
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

impl fmt::Debug for WebhookAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "PostAddress({})", self.origin())
    }
}

impl WebhookClient {
    /// Creates a client that waits this long for an answer.
    pub fn new(answer_ms_max: u64) -> Result<Self, WebhookSendError> {
        Ok(Self { answer_ms_max })
    }

    /// Sends a message once. The body of the answer is dropped unread.
    pub fn send<'a>(
        &'a self,
        to: &'a WebhookAddress,
        letter: WebhookMessage,
    ) -> PortFuture<'a, Result<WebhookResponse, WebhookSendError>> {
        Box::pin(async move {
            let mut headers = HeaderMap::new();
            headers.insert(USER_AGENT, HeaderValue::from_static(concat!("servanda/", env!("CARGO_PKG_VERSION"))));
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            for (name, value) in &letter.headers {
                let value =
                    HeaderValue::from_str(value).map_err(|_| WebhookSendError(format!("`{name}` cannot be sent")))?;
                headers.insert(HeaderName::from_static(name), value);
            }
            // Messages are few. A kept connection that the receiver is just closing would cost one of the message's attempts.
            let limits =
                ClientLimits { connect_ms_max: CONNECT_MS_MAX, idle_ms_max: 0, unended_ms_max: 0, idle_connections: 0 };
            let origin = Origin::from_url(&to.0).map_err(WebhookSendError)?;
            let target = RequestTarget::from_url(&to.0).map_err(WebhookSendError)?;
            let not_posted = |error: HttpError| {
                let connecting = if error.is_connect() { "the receiver could not be reached: " } else { "" };
                WebhookSendError(format!("{connecting}{error}"))
            };
            let client = HttpClient::new(origin, limits).map_err(not_posted)?;
            let sending = client.send(Method::POST, &target, headers, HttpRequestBody::bytes(letter.body));
            let sent = tokio::time::timeout(Duration::from_millis(self.answer_ms_max), sending).await;
            let late = |_| WebhookSendError(format!("there was no answer within {} ms", self.answer_ms_max));
            let answer = sent.map_err(late)?.map_err(not_posted)?;
            Ok(WebhookResponse { status: answer.status().as_u16(), retry_after_ms: retry_after_ms(answer.headers()) })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::WebhookAddress;

    #[test]
    fn only_tls_or_this_machine_is_an_address() {
        let table = [
            ("https://hooks.example.com/x", Ok("https://hooks.example.com")),
            ("https://10.0.0.7:8443/x?token=t0p", Ok("https://10.0.0.7:8443")),
            ("http://127.0.0.1:9000/x", Ok("http://127.0.0.1:9000")),
            ("http://[::1]:9000/", Ok("http://[::1]:9000")),
            ("http://localhost/x", Ok("http://localhost")),
            ("http://hooks.example.com/t0p", Err("only for this machine")),
            ("http://10.0.0.7/t0p", Err("only for this machine")),
            ("http://127.0.0.1.example.com/t0p", Err("only for this machine")),
            ("http://localhost.example.com/t0p", Err("only for this machine")),
            ("https://ada:t0p@hooks.example.com/", Err("a user or a password")),
            ("file:///etc/passwd", Err("`file`")),
            ("hooks.example.com", Err("not a URL")),
        ];
        for (text, expected) in table {
            match (WebhookAddress::parse(text), expected) {
                (Ok(address), Ok(origin)) => {
                    assert_eq!(address.origin(), origin);
                    assert!(!format!("{address:?}").contains("t0p"));
                }
                (Err(why), Err(part)) => assert!(why.contains(part) && !why.contains("t0p"), "{text}: {why}"),
                (got, _) => panic!("{text}: {got:?}"),
            }
        }
    }
}
