//! The session's cookie, and that of an attempt to sign in through the identity provider.
//!
//! The names' prefix makes a browser accept a cookie only for this host, for every path, and over a connection that it trusts. Chromium and
//! Firefox trust `http://` on loopback; a browser that does not keep the cookie there needs TLS in front of the gateway. Cookies know no
//! ports: docs/console.md says why the console has a host name of its own on loopback.

use http::{HeaderMap, HeaderValue, header};

use crate::sign_in::ATTEMPT_MS_MAX;

const NAME: &str = "__Host-servanda";
const ATTEMPT_NAME: &str = "__Host-servanda-sign-in";

/// The value of the session's cookie. None if there is none, or more than one: then it is not known which one the gateway gave.
pub(crate) fn read(headers: &HeaderMap) -> Option<&str> {
    value(headers, NAME)
}

/// The value of the cookie of an attempt to sign in, under the same condition.
pub(crate) fn read_attempt(headers: &HeaderMap) -> Option<&str> {
    value(headers, ATTEMPT_NAME)
}

fn value<'a>(headers: &'a HeaderMap, wanted: &str) -> Option<&'a str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let mut values = pairs.filter(|(name, _)| *name == wanted).map(|(_, value)| value);
    let first = values.next()?;
    values.next().is_none().then_some(first)
}

/// Gives the browser a session. It lasts as long as the browser runs, and at most as long as the session.
pub(crate) fn set(token: &str) -> Option<HeaderValue> {
    cookie(&format!("{NAME}={token}; Path=/; Secure; HttpOnly; SameSite=Strict"))
}

/// Gives the browser an attempt to sign in, for as long as it can be finished.
pub(crate) fn set_attempt(token: &str) -> Option<HeaderValue> {
    let seconds = ATTEMPT_MS_MAX / 1000;
    cookie(&format!("{ATTEMPT_NAME}={token}; Max-Age={seconds}; Path=/; Secure; HttpOnly; SameSite=Strict"))
}

/// Takes the attempt from the browser.
pub(crate) fn clear_attempt() -> Option<HeaderValue> {
    cookie(&format!("{ATTEMPT_NAME}=; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=0"))
}

/// Takes the session from the browser.
pub(crate) fn clear() -> Option<HeaderValue> {
    cookie(&format!("{NAME}=; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=0"))
}

fn cookie(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_counts_only_if_it_is_alone() {
        let read_lines = |lines: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(header::COOKIE, HeaderValue::from_static(line));
            }
            read(&headers).map(str::to_owned)
        };
        for (lines, expected) in [
            (&["a=1; __Host-servanda=x.y; b=2"][..], Some("x.y")),
            (&["a=1", "__Host-servanda=x"], Some("x")),
            (&["__Host-servanda=x; __Host-servanda=y"], None),
            (&["__Host-servanda=x", "__Host-servanda=x"], None),
            (&["servanda=x; __host-servanda=y"], None),
            (&["__Host-servanda-sign-in=y; __Host-servanda=x"], Some("x")),
            (&["__Host-servanda-sign-in=y"], None),
            (&[], None),
        ] {
            assert_eq!(read_lines(lines).as_deref(), expected, "{lines:?}");
        }
    }
}
