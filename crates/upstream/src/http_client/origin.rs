//! The origin of a server and the targets of requests to it, prepared once.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hyper::{Uri, header::HeaderValue};
use percent_encoding::percent_decode_str;
use url::{Host, Url};

/// Scheme, host and port.
#[derive(Debug)]
pub(crate) struct Origin {
    tls: bool,
    host: String,
    port: u16,
    host_header: HeaderValue,
}

/// The target of a request in the forms that the versions of HTTP need.
#[derive(Debug, Clone)]
pub(crate) struct RequestTarget {
    /// Path and query.
    pub(super) path: Uri,
    /// The whole URL, without user and password.
    pub(super) absolute: Uri,
}

impl Origin {
    /// The origin of an `http` or `https` URL.
    pub(crate) fn from_url(url: &Url) -> Result<Self, String> {
        let host = match url.host() {
            Some(Host::Domain(name)) => name.to_owned(),
            Some(Host::Ipv4(address)) => address.to_string(),
            Some(Host::Ipv6(address)) => address.to_string(),
            None => return Err("its URL names no host".to_owned()),
        };
        let port = url.port_or_known_default().ok_or("its URL has no port")?;
        let host_header =
            HeaderValue::from_str(&authority(url)).map_err(|_| "its host is not a valid header value".to_owned())?;
        Ok(Self { tls: url.scheme() == "https", host, port, host_header })
    }

    pub(super) fn is_tls(&self) -> bool {
        self.tls
    }

    pub(super) fn host(&self) -> &str {
        &self.host
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn host_header(&self) -> &HeaderValue {
        &self.host_header
    }
}

impl RequestTarget {
    /// The address of requests to this URL.
    pub(crate) fn from_url(url: &Url) -> Result<Self, String> {
        let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
        let path = format!("{}{query}", url.path());
        let uri = |text: String| Uri::try_from(text).map_err(|error| format!("its URL is not valid: {error}"));
        Ok(Self { absolute: uri(format!("{}://{}{path}", url.scheme(), authority(url)))?, path: uri(path)? })
    }
}

/// The user and the password of a URL, as an `Authorization` header.
pub(crate) fn basic_authorization(url: &Url) -> Option<HeaderValue> {
    if url.username().is_empty() && url.password().is_none() {
        return None;
    }
    let mut pair: Vec<u8> = percent_decode_str(url.username()).collect();
    pair.push(b':');
    pair.extend(percent_decode_str(url.password().unwrap_or_default()));
    let mut value = HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(pair))).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// The host, with the port if it is not the scheme's default.
fn authority(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_made_ready_for_both_versions_of_http() {
        // URL, host to connect to, port, host header, path, whole URL
        let table = [
            ("http://a.test/mcp", "a.test", 80, "a.test", "/mcp", "http://a.test/mcp"),
            (
                "https://a.test:8443/x?y=%20z",
                "a.test",
                8443,
                "a.test:8443",
                "/x?y=%20z",
                "https://a.test:8443/x?y=%20z",
            ),
            ("https://u:p@a.test:443", "a.test", 443, "a.test", "/", "https://a.test/"),
            ("http://[::1]:9000/", "::1", 9000, "[::1]:9000", "/", "http://[::1]:9000/"),
            (
                "http://b\u{fc}cher.test/",
                "xn--bcher-kva.test",
                80,
                "xn--bcher-kva.test",
                "/",
                "http://xn--bcher-kva.test/",
            ),
        ];
        for (text, host, port, header, path, absolute) in table {
            let url = Url::parse(text).unwrap();
            let (origin, target) = (Origin::from_url(&url).unwrap(), RequestTarget::from_url(&url).unwrap());
            assert_eq!((origin.host(), origin.port()), (host, port), "{text}");
            assert_eq!(origin.host_header(), header, "{text}");
            assert_eq!((target.path.to_string(), target.absolute.to_string()), (path.to_owned(), absolute.to_owned()));
        }
    }

    #[test]
    fn user_and_password_of_a_url_are_shown_as_basic_authorization() {
        // RFC 7617, section 2, and percent encoding.
        let table = [
            ("http://Aladdin:open%20sesame@a.test/", Some("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==")),
            ("http://a@b.test/", Some("Basic YTo=")),
            ("http://a.test/", None),
        ];
        for (text, expected) in table {
            let value = basic_authorization(&Url::parse(text).unwrap());
            assert_eq!(value.as_ref().map(|value| value.to_str().unwrap()), expected, "{text}");
        }
    }
}
