//! Which page of which site makes the browser send a request.
//!
//! A browser says so in `Sec-Fetch-Site`, and in `Origin` for every POST. Neither can be set by a page. Our own pages ask for no `Referer`, and
//! browsers then write `Origin: null`, so that `Sec-Fetch-Site` alone decides where a browser sends it. This stops other sites and other ports
//! of this machine; it is not authentication, because a program that is no browser writes what it likes.

use http::{HeaderMap, HeaderName, Method, header};

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// Where a request comes from, as the browser says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestOrigin {
    /// A page of this console, or the person's own typing.
    Own,
    /// A link on another site. The browser sends no cookie with it.
    ForeignLink,
    /// Another site tries to post or to read.
    Foreign,
}

/// Judges where a request comes from.
pub(crate) fn judge(method: &Method, headers: &HeaderMap) -> RequestOrigin {
    let site = headers.get(FETCH_SITE).map(|value| value.to_str().unwrap_or_default());
    if *method == Method::GET || *method == Method::HEAD {
        let navigates = headers.get(FETCH_MODE).is_some_and(|mode| mode == "navigate");
        return match site {
            None | Some("none" | "same-origin") => RequestOrigin::Own,
            Some(_) if navigates => RequestOrigin::ForeignLink,
            Some(_) => RequestOrigin::Foreign,
        };
    }
    let has_own_origin = || {
        let origin = single(headers, &header::ORIGIN)?;
        let authority = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"))?;
        Some(authority.eq_ignore_ascii_case(single(headers, &header::HOST)?))
    };
    let is_own = match site {
        // A browser that names an origin as well must name ours.
        Some("same-origin") => {
            let names_none = headers.get_all(header::ORIGIN).iter().all(|origin| origin == "null");
            names_none || has_own_origin() == Some(true)
        }
        Some(_) => false,
        None => has_own_origin() == Some(true),
    };
    if is_own { RequestOrigin::Own } else { RequestOrigin::Foreign }
}

fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(first)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn judged(method: &Method, headers: &[(&'static str, &'static str)]) -> RequestOrigin {
        let mut map = HeaderMap::new();
        map.insert(header::HOST, HeaderValue::from_static("127.0.0.1:7332"));
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_static(value));
        }
        judge(method, &map)
    }

    #[test]
    fn only_this_consoles_pages_post() {
        use RequestOrigin::{Foreign, Own};
        let own = ("origin", "http://127.0.0.1:7332");
        for (headers, expected) in [
            (&[("sec-fetch-site", "same-origin"), own][..], Own),
            (&[("sec-fetch-site", "same-origin")], Own),
            (&[("sec-fetch-site", "same-origin"), ("origin", "null")], Own),
            (&[own], Own),
            (&[("origin", "https://127.0.0.1:7332")], Own),
            (&[], Foreign),
            (&[("origin", "null")], Foreign),
            (&[("origin", "http://127.0.0.1:9999")], Foreign),
            (&[("origin", "http://127.0.0.1:7332.evil.example")], Foreign),
            (&[own, own], Foreign),
            (&[("sec-fetch-site", "same-site"), own], Foreign),
            (&[("sec-fetch-site", "cross-site"), own], Foreign),
            (&[("sec-fetch-site", "none"), own], Foreign),
            (&[("sec-fetch-site", "same-origin"), ("origin", "http://evil.example")], Foreign),
        ] {
            assert_eq!(judged(&Method::POST, headers), expected, "{headers:?}");
        }
    }

    #[test]
    fn other_sites_may_link_here_and_not_read() {
        use RequestOrigin::{Foreign, ForeignLink, Own};
        for (headers, expected) in [
            (&[][..], Own),
            (&[("sec-fetch-site", "none"), ("sec-fetch-mode", "navigate")], Own),
            (&[("sec-fetch-site", "same-origin"), ("sec-fetch-mode", "cors")], Own),
            (&[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")], ForeignLink),
            (&[("sec-fetch-site", "same-site"), ("sec-fetch-mode", "navigate")], ForeignLink),
            (&[("sec-fetch-site", "same-site"), ("sec-fetch-mode", "no-cors")], Foreign),
            (&[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "cors")], Foreign),
        ] {
            assert_eq!(judged(&Method::GET, headers), expected, "{headers:?}");
        }
    }
}
