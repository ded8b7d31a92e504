//! Why a request got no answer.

/// Why a request got no answer. The text contains no address, because an address may hold secrets.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpError {
    /// No connection was made, so nothing was sent.
    #[error("{0}")]
    NotConnected(String),
    /// The connection was lost, or the response is not HTTP.
    #[error("{}", chain(.0))]
    Lost(hyper::Error),
}

impl HttpError {
    /// Whether nothing was sent because there was no connection.
    pub(crate) fn is_connect(&self) -> bool {
        matches!(self, Self::NotConnected(_))
    }
}

/// An error and its causes.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut parts = vec![error.to_string()];
    let mut source = error.source();
    while let Some(cause) = source {
        parts.push(cause.to_string());
        source = cause.source();
    }
    parts.dedup();
    parts.join(": ")
}
