//! Checks which host a request names and which web page sends it.
//!
//! A web page can make a browser send requests to a local port, and DNS rebinding makes them look same-origin; the
//! names that the browser writes into `Host` and `Origin` give it away. This is not authentication.

use http::{HeaderMap, HeaderName, StatusCode, header, request::Parts};

use crate::fault::ProtocolFault;

/// Names of this machine that no name server can move. Cookies do not know ports, so a page of another local server at
/// `localhost` gets the cookies of `localhost`; the console has a name of its own for that reason.
const LOCAL_HOSTNAMES: [&str; 4] = ["localhost", "127.0.0.1", "[::1]", "servanda.localhost"];

/// The hostnames and origins that the door accepts.
#[derive(Debug)]
pub(super) struct OriginGuard {
    hosts: Vec<String>,
    origins: Vec<String>,
}

impl OriginGuard {
    pub(super) fn new(hosts: Vec<String>, origins: Vec<String>) -> Self {
        Self { hosts, origins }
    }

    /// `also` is one more accepted hostname, which may change while the door is open.
    pub(super) fn check(&self, parts: &Parts, also: Option<&str>) -> Result<(), ProtocolFault> {
        self.check_host(parts, also)?;
        match single(&parts.headers, &header::ORIGIN) {
            SingleHeader::None => Ok(()),
            SingleHeader::One(origin) if self.admits(origin, also) => Ok(()),
            SingleHeader::One(_) | SingleHeader::Unusable => {
                Err(forbidden("web pages of this `Origin` may not call the gateway").hint("pages of this machine and of the host of `auth.resource` may call; other pages must call through a server of their own"))
            }
        }
    }

    /// Checks the host alone: for what pages of every origin may read.
    pub(super) fn check_host(&self, parts: &Parts, also: Option<&str>) -> Result<(), ProtocolFault> {
        // HTTP/2 has the authority in the request line instead of `Host`.
        let authority = match single(&parts.headers, &header::HOST) {
            SingleHeader::One(host) => Some(host),
            SingleHeader::None => parts.uri.authority().map(http::uri::Authority::as_str),
            SingleHeader::Unusable => None,
        };
        if !authority.and_then(hostname).is_some_and(|name| self.knows(name, also)) {
            return Err(forbidden("the `Host` header names a host that this gateway does not answer to")
                .hint("use `localhost`, or the hostname of the configured `auth.resource`"));
        }
        Ok(())
    }

    fn knows(&self, name: &str, also: Option<&str>) -> bool {
        let mut known = LOCAL_HOSTNAMES.into_iter().chain(self.hosts.iter().map(String::as_str)).chain(also);
        known.any(|known| known.eq_ignore_ascii_case(name))
    }

    fn admits(&self, origin: &str, also: Option<&str>) -> bool {
        if self.origins.iter().any(|allowed| allowed.eq_ignore_ascii_case(origin)) {
            return true;
        }
        let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        authority.and_then(hostname).is_some_and(|name| self.knows(name, also))
    }
}

/// The hostname of `hostname[:port]`, or `None` if the text has another form.
fn hostname(authority: &str) -> Option<&str> {
    let name_end = match authority.strip_prefix('[') {
        Some(rest) => rest.find(']')? + 2,
        None => authority.find(':').unwrap_or(authority.len()),
    };
    let (name, port) = authority.split_at_checked(name_end)?;
    let port_fits = port.is_empty() || port.strip_prefix(':').is_some_and(|digits| digits.parse::<u16>().is_ok());
    (port_fits && !name.is_empty() && !name.contains(['/', '@', '?', '#'])).then_some(name)
}

enum SingleHeader<'a> {
    None,
    One(&'a str),
    Unusable,
}

fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> SingleHeader<'a> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => SingleHeader::None,
        (Some(value), None) => value.to_str().map_or(SingleHeader::Unusable, |text| SingleHeader::One(text.trim())),
        (Some(_), Some(_)) => SingleHeader::Unusable,
    }
}

fn forbidden(message: &str) -> ProtocolFault {
    ProtocolFault::invalid_request(StatusCode::FORBIDDEN, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostnames() {
        for (authority, expected) in [
            ("localhost", Some("localhost")),
            ("LOCALHOST:80", Some("LOCALHOST")),
            ("127.0.0.1:8080", Some("127.0.0.1")),
            ("[::1]", Some("[::1]")),
            ("[::1]:8080", Some("[::1]")),
            ("localhost:", None),
            ("localhost:http", None),
            ("localhost:80:80", None),
            ("localhost@evil.example", None),
            ("localhost/path", None),
            ("[::1", None),
            ("[::1]evil", None),
            ("::1", None),
            ("", None),
        ] {
            assert_eq!(hostname(authority), expected, "{authority}");
        }
    }
}
