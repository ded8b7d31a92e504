//! Where spans go and which. An address or a header that cannot be used is found when the settings are made; no message repeats one.

use std::{fmt, net::IpAddr};

use reqwest::{
    Url,
    header::{CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, TE, USER_AGENT},
};

/// Where OTLP over HTTP takes spans, below the collector's address.
const HTTP_PATH: &str = "/v1/traces";
/// The method of OTLP over gRPC.
const GRPC_PATH: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

/// How spans travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtlpProtocol {
    /// Protobuf over HTTP.
    Http,
    /// gRPC.
    Grpc,
}

/// Where spans go, which, and how many may wait.
#[derive(Debug, Clone)]
pub struct TraceSettings {
    /// The collector.
    pub collector: CollectorAddress,
    /// The share of calls that are exported though nothing about them is remarkable, from 0 to 1.
    pub sample_share: f64,
    /// From this on, a call is slow, and exported.
    pub slow_ms: u64,
    /// How many spans may wait to be sent.
    pub queue_spans_max: usize,
    /// How long one attempt to send may take.
    pub send_ms_max: u64,
    /// `service.name`.
    pub service_name: String,
}

/// A collector: its address, the protocol it speaks, and what it is shown.
#[derive(Clone)]
pub struct CollectorAddress {
    pub(super) url: Url,
    pub(super) protocol: OtlpProtocol,
    pub(super) headers: HeaderMap,
}

/// Why a collector cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TraceSettingsError {
    /// The address cannot be used.
    #[error("{0}")]
    Address(String),
    /// A header cannot be sent.
    #[error("the header `{0}` cannot be sent: its name or its value is none, or belongs to the protocol")]
    Header(String),
    /// Headers would be sent unencrypted.
    #[error("headers may be secrets, so with them the address needs `https`, or `http` to this machine")]
    Unencrypted,
    /// No HTTP client can be made.
    #[error("no HTTP client can be made: {0}")]
    Client(String),
}

impl CollectorAddress {
    /// Reads the address of a collector. For HTTP, `/v1/traces` is added unless the address ends with it.
    pub fn parse(text: &str, protocol: OtlpProtocol) -> Result<Self, TraceSettingsError> {
        let wrong = |why: &str| TraceSettingsError::Address(why.to_owned());
        let mut url = Url::parse(text).map_err(|error| wrong(&format!("it is not a URL: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err(wrong("it needs `http://` or `https://` and a host"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(wrong("it has a user or a password; a secret goes into `credential` or `headers`"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(wrong("it has a query or a fragment, to which no path can be added"));
        }
        let base = url.path().trim_end_matches('/').to_owned();
        let path = match protocol {
            OtlpProtocol::Http if base.ends_with(HTTP_PATH) => base,
            OtlpProtocol::Http => base + HTTP_PATH,
            OtlpProtocol::Grpc => base + GRPC_PATH,
        };
        url.set_path(&path);
        Ok(Self { url, protocol, headers: HeaderMap::new() })
    }

    /// The same with a header. Its value is never shown.
    pub fn with_header(mut self, name: &str, value: &[u8]) -> Result<Self, TraceSettingsError> {
        let wrong = || TraceSettingsError::Header(name.to_owned());
        if self.url.scheme() != "https" && !self.is_loopback() {
            return Err(TraceSettingsError::Unencrypted);
        }
        let known = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
        let is_taken = [CONTENT_TYPE, HOST, TE, USER_AGENT].contains(&known)
            || ["content-length", "connection", "transfer-encoding"].contains(&known.as_str())
            || known.as_str().starts_with("grpc-");
        let mut value = HeaderValue::from_bytes(value).map_err(|_| wrong())?;
        if is_taken || value.is_empty() {
            return Err(wrong());
        }
        value.set_sensitive(true);
        self.headers.insert(known, value);
        Ok(self)
    }

    fn is_loopback(&self) -> bool {
        let host = self.url.host_str().unwrap_or_default();
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    }
}

/// Paths and headers may have secrets.
impl fmt::Debug for CollectorAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let origin = self.url.origin().ascii_serialization();
        formatter
            .debug_struct("CollectorAddress")
            .field("origin", &origin)
            .field("protocol", &self.protocol)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let table = [
            ("http://127.0.0.1:4318", OtlpProtocol::Http, Ok("http://127.0.0.1:4318/v1/traces")),
            ("https://c.example/otlp/", OtlpProtocol::Http, Ok("https://c.example/otlp/v1/traces")),
            ("https://c.example/v1/traces", OtlpProtocol::Http, Ok("https://c.example/v1/traces")),
            (
                "http://c:4317",
                OtlpProtocol::Grpc,
                Ok("http://c:4317/opentelemetry.proto.collector.trace.v1.TraceService/Export"),
            ),
            ("c:4317", OtlpProtocol::Grpc, Err("`http://`")),
            ("https://ada:t0p@c.example", OtlpProtocol::Http, Err("a user or a password")),
            ("https://c.example/?key=t0p", OtlpProtocol::Http, Err("a query")),
            ("collector", OtlpProtocol::Http, Err("not a URL")),
        ];
        for (text, protocol, expected) in table {
            match (CollectorAddress::parse(text, protocol), expected) {
                (Ok(collector), Ok(url)) => assert_eq!(collector.url.as_str(), url),
                (Err(error), Err(part)) => {
                    let says = error.to_string();
                    assert!(says.contains(part) && !says.contains("t0p"), "{text}: {says}");
                }
                (got, _) => panic!("{text}: {got:?}"),
            }
        }
    }

    #[test]
    fn headers_need_encryption_and_are_not_shown() {
        let collector = |text| CollectorAddress::parse(text, OtlpProtocol::Http).unwrap();
        let far = collector("http://collector.example:4318");
        assert_eq!(far.with_header("authorization", b"t0p").unwrap_err(), TraceSettingsError::Unencrypted);
        for near in ["http://localhost:4318", "http://[::1]:4318", "https://collector.example"] {
            let shown = collector(near).with_header("Authorization", b"Bearer t0p").unwrap();
            assert_eq!(shown.headers["authorization"], "Bearer t0p");
            assert!(!format!("{shown:?} {:?}", shown.headers).contains("t0p"));
        }
        for (name, value) in [("content-type", "x"), ("grpc-timeout", "1S"), ("a b", "x"), ("a", ""), ("a", "t0p\n")] {
            let error = collector("https://c.example").with_header(name, value.as_bytes()).unwrap_err();
            assert_eq!(error, TraceSettingsError::Header(name.to_owned()));
            assert!(!error.to_string().contains("t0p"));
        }
    }
}
