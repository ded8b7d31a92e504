//! The site to which passkeys of this console belong: the configured address, or this machine under its own name.
//!
//! The door has checked that the gateway answers to the request's host. Browsers offer passkeys at `https://` and at `localhost` and the names
//! below it; at every other address there are none.

use http::{HeaderMap, header};
use servanda_authority::passkey::RelyingParty;

/// The relying party of a request. None if browsers offer no passkeys at its address, or if the address is not the configured one.
pub(crate) fn relying_party(console_url: Option<&str>, headers: &HeaderMap) -> Option<RelyingParty> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = hosts.next()?.to_str().ok()?.to_ascii_lowercase();
    if hosts.next().is_some() {
        return None;
    }
    let configured = console_url.and_then(|url| RelyingParty::of_origin(url.trim_end_matches('/')).ok());
    let is_here = |party: &RelyingParty| party.origin().split_once("://").is_some_and(|(_, own)| own == host);
    if let Some(party) = configured.filter(is_here) {
        return Some(party);
    }
    let name = host.split(':').next().unwrap_or_default();
    let is_this_machine = name == "localhost" || name.ends_with(".localhost");
    if is_this_machine { RelyingParty::of_origin(&format!("http://{host}")).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn passkeys_belong_to_the_consoles_own_address() {
        let gateway = Some("https://gateway.example");
        for (configured, host, expected) in [
            (None, "servanda.localhost:7332", Some(("servanda.localhost", "http://servanda.localhost:7332"))),
            (None, "Localhost:7332", Some(("localhost", "http://localhost:7332"))),
            (None, "127.0.0.1:7332", None),
            (None, "[::1]:7332", None),
            (None, "gateway.example", None),
            (None, "localhost.evil.example", None),
            (None, "evillocalhost", None),
            (gateway, "gateway.example", Some(("gateway.example", "https://gateway.example"))),
            (gateway, "gateway.example:8443", None),
            (gateway, "evil.example", None),
            (gateway, "localhost:7332", Some(("localhost", "http://localhost:7332"))),
            (Some("https://localhost:8443"), "localhost:8443", Some(("localhost", "https://localhost:8443"))),
            (Some("http://gateway.example"), "gateway.example", None),
            (Some("http://127.0.0.1:7332"), "127.0.0.1:7332", None),
        ] {
            let headers = HeaderMap::from_iter([(header::HOST, HeaderValue::from_static(host))]);
            let party = relying_party(configured, &headers);
            let found = party.as_ref().map(|party| (party.id(), party.origin()));
            assert_eq!(found, expected, "{configured:?} {host}");
        }
        let mut two = HeaderMap::new();
        two.append(header::HOST, HeaderValue::from_static("localhost"));
        two.append(header::HOST, HeaderValue::from_static("other.localhost"));
        assert_eq!(relying_party(None, &two), None);
        assert_eq!(relying_party(gateway, &HeaderMap::new()), None);
    }
}
