//! HTTP requests among the arguments: what a method does by RFC 9110, and the ways in which a request asks for another method than
//! the one it is sent with. Whether a server keeps to it cannot be told from a request.

use serde_json::Value;

use crate::effects::{Effect, Verdict, shown};

/// Headers and parameters that ask a server to take the request for another method.
const OVERRIDES: &[&str] = &[
    "x-http-method-override",
    "x-http-method",
    "x-method-override",
    "-method",
    "httpmethod",
    "x-original-method",
    "method-override",
];
/// Bytes of the longest override name, with an option that may be written before it.
const NAME_BYTES_MAX: usize = 64;
/// How far behind an override name a method is looked for.
const GAP_CHARACTERS_MAX: usize = 32;
/// How often encodings are undone.
const DECODINGS_MAX: usize = 3;

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

/// Whether a method only reads, in the spelling of the standard or in small letters.
pub fn is_safe_method(method: &str) -> bool {
    judge_method(method).effect == Effect::Read
}

/// Whether anything in the arguments of a request asks the server to override the method: a member with an override name, or any text
/// (headers, a URL, a body, options of a program) that holds such a name with another method behind it.
pub fn asks_for_another_method(arguments: &Value) -> bool {
    // Arguments are bounded in depth by the parse gate; this needs no stack of its own.
    let mut waiting = vec![arguments];
    while let Some(value) = waiting.pop() {
        match value {
            Value::String(text) if text_asks(text) => return true,
            Value::Object(members)
                if members.iter().any(|(name, value)| {
                    text_asks(name) && !(is_override(name) && value.as_str().is_some_and(is_safe_override))
                }) =>
            {
                return true;
            }
            Value::Array(items) => waiting.extend(items),
            Value::Object(members) => waiting.extend(members.values()),
            _ => {}
        }
    }
    false
}

/// Whether a text holds an override name without a method behind it that only reads.
fn text_asks(text: &str) -> bool {
    let mut decoded_text = text.to_owned();
    for _ in 0..=DECODINGS_MAX {
        if plain_text_asks(&decoded_text) {
            return true;
        }
        let once = decoded(&decoded_text);
        if once == decoded_text {
            return false;
        }
        decoded_text = once;
    }
    // A text that is still encoded after so many decodings hides something.
    true
}

fn plain_text_asks(text: &str) -> bool {
    let text = normal_name(text);
    let of_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
    text.match_indices("method").any(|(at, found)| {
        let bytes = text.as_bytes();
        let before = bytes.get(..at).unwrap_or_default();
        let start = at - before.iter().rev().take(NAME_BYTES_MAX).take_while(|byte| of_name(byte)).count();
        let after = bytes.get(at + found.len()..).unwrap_or_default();
        let end = at + found.len() + after.iter().take(NAME_BYTES_MAX).take_while(|byte| of_name(byte)).count();
        let name = text.get(start..end).unwrap_or_default();
        let behind = text.get(end..).unwrap_or_default();
        let value: String = behind
            .chars()
            .take(GAP_CHARACTERS_MAX)
            .skip_while(|character| !character.is_ascii_alphanumeric())
            .take_while(char::is_ascii_alphanumeric)
            .collect();
        match name {
            "method" => matches!(value.as_str(), "post" | "put" | "patch" | "delete"),
            _ => names_an_override(name) && !is_safe_override(&value),
        }
    })
}

/// Options of programs are written before a name without a blank: `-HX-HTTP-Method-Override`, `-d_method`.
fn names_an_override(name: &str) -> bool {
    let is_option = |rest: &str| matches!(rest.as_bytes(), [] | [b'-', _]);
    OVERRIDES.iter().any(|known| name.strip_suffix(known).is_some_and(is_option))
}

fn is_safe_override(method: &str) -> bool {
    overridden(method).effect == Effect::Read
}

/// A name as servers compare it: without case, and with `_` for `-`.
fn normal_name(name: &str) -> String {
    name.to_ascii_lowercase().replace('_', "-")
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
    let name = normal_name(name.trim());
    OVERRIDES.iter().any(|known| name == *known)
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
    fn another_method_is_found_wherever_it_is_asked_for() {
        use serde_json::json;
        for (arguments, found) in [
            (json!({"url": "https://a/x?payment_method=card", "text": "a: b"}), false),
            (json!({"headers": {"X-HTTP-Method-Override": "GET"}}), false),
            (json!({"headers": {"x-http-method-override": "delete"}}), true),
            (json!({"headers": {"X-HTTP-Method": ["DELETE"]}}), true),
            (json!({"headers": [["X-Method-Override", "DELETE"]]}), true),
            (json!({"headers": [{"name": "X-Method-Override", "value": "DELETE"}]}), true),
            (json!({"headers": "Accept: */*\r\nX-HTTP-Method-Override: PUT"}), true),
            (json!({"url": "https://a/x?a=1&_method=delete"}), true),
            (json!({"query": {"_method": "DELETE"}}), true),
            (json!({"deep": [{"more": {"url": "/x?%5Fmethod=PATCH"}}]}), true),
            (json!({"url": "/x?%255Fmethod=PATCH"}), true),
            (json!({"params": "_method=DELETE"}), true),
            (json!({"params": "a=1&_method=get"}), false),
            (json!({"headers": "{\"X-HTTP-Method-Override\":\"DELETE\"}"}), true),
            (json!({"headers": {"X_HTTP_Method_Override": "DELETE"}}), true),
            (json!({"options": "-H 'X-HTTP-Method-Override: DELETE'"}), true),
            (json!({"options": "-HX-HTTP-Method-Override:DELETE"}), true),
            (json!({"headers": "a: b\rX-HTTP-Method-Override: DELETE"}), true),
            (json!({"url": "/x?method=delete"}), true),
            (json!({"url": "/x?method=card", "text": "the method of choice", "http_method": "GET"}), false),
        ] {
            assert_eq!(asks_for_another_method(&arguments), found, "{arguments}");
        }
    }

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
