//! HTTP requests among the arguments: what a method does by RFC 9110, and the ways in which a request asks for another method than
//! the one it is sent with. Whether a server keeps to it cannot be told from a request.

use crate::effects::{Effect, Verdict, shown};

/// Headers and parameters that ask a server to take the request for another method.
const OVERRIDES: &[&str] =
    &["x-http-method-override", "x-http-method", "x-method-override", "_method", "httpmethod", "x-original-method"];

/// What a request of `method` to `url` would do. `headers` are names and values, in any case.
pub fn classify_request<'h>(method: &str, url: &str, headers: impl IntoIterator<Item = (&'h str, &'h str)>) -> Verdict {
    if url.len() > 64 * 1024 || url.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return Verdict::of_text(Effect::Unknown, "the URL is too long or holds control characters");
    }
    if let Some(scheme) = foreign_scheme(url) {
        return Verdict::of_text(Effect::Unknown, format!("the URL's scheme {} is not http or https", shown(&scheme)));
    }
    let stated = judge_method(method);
    let overriding = headers.into_iter().filter(|(name, _)| is_override(name)).map(|(_, value)| value.to_owned());
    let in_query = query_pairs(url).filter(|(name, _)| is_override(name)).map(|(_, value)| value);
    overriding.chain(in_query).map(|method| overridden(&method)).fold(stated, Verdict::or_heavier)
}

fn judge_method(method: &str) -> Verdict {
    // Methods are case-sensitive, but enough servers take `post` for `POST` that only the spelling of the standard reads.
    match method {
        "GET" | "HEAD" | "OPTIONS" | "QUERY" => Verdict::of_text(Effect::Read, format!("{method} is a safe method")),
        "POST" | "PUT" | "PATCH" | "DELETE" => Verdict::of_text(Effect::Write, format!("{method} changes something")),
        _ if ["GET", "HEAD", "OPTIONS"].iter().any(|known| method.eq_ignore_ascii_case(known)) => {
            Verdict::of_text(Effect::Read, "a safe method, not spelt as the standard does")
        }
        _ if method.is_empty() => Verdict::of_text(Effect::Unknown, "there is no method"),
        _ => Verdict::of_text(Effect::Write, format!("{} is not a safe method", shown(method))),
    }
}

fn overridden(method: &str) -> Verdict {
    let judged = judge_method(method.trim().to_ascii_uppercase().as_str());
    match judged.effect {
        Effect::Read => judged,
        effect => {
            Verdict::of_text(effect, "the request asks to be taken for another method, one that changes something")
        }
    }
}

fn is_override(name: &str) -> bool {
    OVERRIDES.iter().any(|known| name.trim().eq_ignore_ascii_case(known))
}

/// A scheme that is not HTTP. A URL without one is taken for a path.
fn foreign_scheme(url: &str) -> Option<String> {
    let (scheme, _) = url.trim_start().split_once(':')?;
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    // `localhost:8080/x` has no scheme.
    let port =
        url.trim_start().get(scheme.len() + 1..).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    (is_scheme && !port && !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https"))
        .then(|| scheme.to_owned())
}

fn query_pairs(url: &str) -> impl Iterator<Item = (String, String)> + '_ {
    let query = url.split('#').next().unwrap_or_default().split_once('?').map(|(_, query)| query).unwrap_or_default();
    query.split(['&', ';']).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decoded(name), decoded(value))
    })
}

/// Percent-encoding and `+` undone.
pub(super) fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let hex = |offset: usize| bytes.get(at + offset).and_then(|byte| char::from(*byte).to_digit(16));
        match (byte, hex(1), hex(2)) {
            (b'%', Some(high), Some(low)) => {
                out.push(u8::try_from(high * 16 + low).unwrap_or(b'?'));
                at += 3;
            }
            (b'+', ..) => {
                out.push(b' ');
                at += 1;
            }
            _ => {
                out.push(*byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_is_judged_with_what_overrides_it() {
        let none: [(&str, &str); 0] = [];
        for (method, url, headers, expected) in [
            ("GET", "https://api.example/x?a=1", &none[..], Effect::Read),
            ("get", "https://api.example/x", &none[..], Effect::Read),
            ("HEAD", "/x", &none[..], Effect::Read),
            ("POST", "https://api.example/x", &none[..], Effect::Write),
            ("DELETE", "https://api.example/x", &none[..], Effect::Write),
            ("PROPPATCH", "https://api.example/x", &none[..], Effect::Write),
            ("", "https://api.example/x", &none[..], Effect::Unknown),
            ("GET", "https://api.example/x", &[("X-HTTP-Method-Override", "DELETE")][..], Effect::Write),
            ("GET", "https://api.example/x", &[("X-HTTP-Method-Override", "GET")][..], Effect::Read),
            ("GET", "https://api.example/x?_method=delete", &none[..], Effect::Write),
            ("GET", "https://api.example/x?%5fmethod=PUT", &none[..], Effect::Write),
            ("GET", "file:///etc/passwd", &none[..], Effect::Unknown),
            ("GET", "gopher://127.0.0.1:6379/_FLUSHALL", &none[..], Effect::Unknown),
            ("GET", "localhost:8080/x", &none[..], Effect::Read),
            ("GET", "https://a/\r\nDELETE / HTTP/1.1", &none[..], Effect::Unknown),
        ] {
            let verdict = classify_request(method, url, headers.iter().copied());
            assert_eq!(verdict.effect, expected, "{method} {url}: {}", verdict.why);
        }
    }
}
