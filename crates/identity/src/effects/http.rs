//! HTTP requests in the arguments: what a method does by RFC 9110, and the ways in which a request asks for another method than
//! its own. A request cannot show whether the server obeys the standard.

use serde_json::Value;

use crate::effects::{ProgramEffect, ProgramVerdict, shown};

/// Headers and parameters that ask a server to treat the request as another method.
const OVERRIDES: &[&str] = &[
    "x-http-method-override",
    "x-http-method",
    "x-method-override",
    "-method",
    "httpmethod",
    "x-original-method",
    "method-override",
];
/// Endings of further names that may ask for another method, such as `X-HTTP-Verb-Override`. Only a changing method counts
/// after them, because `payment_method` is such a name too.
const OVERRIDE_ENDS: &[&str] = &["method", "verb", "method-override", "verb-override"];
/// Methods that change something, as a server may accept them from an override.
const CHANGING: &[&str] = &[
    "post",
    "put",
    "patch",
    "delete",
    "purge",
    "merge",
    "move",
    "copy",
    "mkcol",
    "mkcalendar",
    "proppatch",
    "lock",
    "unlock",
    "link",
    "unlink",
    "rebind",
    "unbind",
    "bind",
    "acl",
    "checkin",
    "checkout",
    "connect",
    "trace",
    "ban",
    "refresh",
];
/// Members whose text is the body of a request. It may have several lines.
const BODIES: &[&str] = &["body", "data", "json", "content", "payload", "text", "graphql"];
/// Bytes of the longest override name, with an option that may be written before it.
const NAME_BYTES_MAX: usize = 64;
/// How far after an override name a method is searched.
const GAP_CHARACTERS_MAX: usize = 32;
/// How often encodings are undone.
const DECODINGS_MAX: usize = 3;

/// What a request of `method` to `url` would do. `headers` are names and values, in any case.
pub fn classify_request<'h>(
    method: &str,
    url: &str,
    headers: impl IntoIterator<Item = (&'h str, &'h str)>,
) -> ProgramVerdict {
    if url.len() > 64 * 1024 || url.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return ProgramVerdict::for_text(ProgramEffect::Unknown, "the URL is too long or holds control characters");
    }
    if let Some(scheme) = foreign_scheme(url) {
        return ProgramVerdict::for_text(
            ProgramEffect::Unknown,
            format!("the URL's scheme {} is not http or https", shown(&scheme)),
        );
    }
    let stated = judge_method(method);
    let overriding = headers.into_iter().filter(|(name, _)| is_override(name)).map(|(_, value)| value.to_owned());
    let in_query = query_pairs(url).filter(|(name, _)| is_override(name)).map(|(_, value)| value);
    overriding.chain(in_query).map(|method| overridden(&method)).fold(stated, ProgramVerdict::or_heavier)
}

/// Whether a method only reads, in the spelling of the standard or in small letters.
pub fn is_safe_method(method: &str) -> bool {
    judge_method(method).effect == ProgramEffect::Read
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
                    let is_safe = is_override(name) && value.as_str().is_some_and(is_safe_override);
                    (text_asks(name) && !is_safe) || value.as_str().is_some_and(|value| member_asks(name, value))
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

/// Whether a text in the arguments of a request ends its line or a header, or names another protocol than HTTP. Programs that
/// send requests may read such a text as several requests, or as none.
pub fn breaks_out_of_request(arguments: &Value) -> bool {
    let mut waiting = vec![(arguments, false)];
    while let Some((value, in_body)) = waiting.pop() {
        let has_control = |text: &str| text.bytes().any(|byte| (byte < b' ' && byte != b'\t') || byte == 0x7f);
        match value {
            Value::String(text) => {
                let names_protocol = foreign_scheme(text).is_some_and(|scheme| {
                    text.trim_start().get(scheme.len()..).is_some_and(|rest| rest.starts_with("://"))
                });
                if names_protocol || (!in_body && has_control(text)) {
                    return true;
                }
            }
            Value::Object(members) => {
                if members.keys().any(|name| has_control(name)) {
                    return true;
                }
                let is_body = |name: &str| BODIES.iter().any(|body| name.eq_ignore_ascii_case(body));
                waiting.extend(members.iter().map(|(name, value)| (value, in_body || is_body(name))));
            }
            Value::Array(items) => waiting.extend(items.iter().map(|item| (item, in_body))),
            _ => {}
        }
    }
    false
}

/// Whether a member asks for another method by its name and its value together.
fn member_asks(name: &str, value: &str) -> bool {
    let name = normal_name(name.trim());
    may_ask(name.trim_start_matches(['.', '-', '$'])) && CHANGING.contains(&value.trim().to_ascii_lowercase().as_str())
}

fn may_ask(name: &str) -> bool {
    OVERRIDE_ENDS.iter().any(|end| name.ends_with(end))
}

/// Whether a text has an override name that is not followed by a read-only method.
fn text_asks(text: &str) -> bool {
    let mut decoded_text = text.to_owned();
    for _ in 0..=DECODINGS_MAX {
        if plain_text_asks(&decoded_text) {
            return true;
        }
        let once = without_escapes(&decoded(&decoded_text));
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
    ["method", "verb"].iter().flat_map(|word| text.match_indices(word)).any(|(at, found)| {
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
        let is_unsafe_override = names_an_override(name) && !is_safe_override(&value);
        is_unsafe_override || (may_ask(name) && CHANGING.contains(&value.as_str()))
    })
}

/// Undoes JSON escapes: `\u005fmethod` in a body is `_method`.
fn without_escapes(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\\u") {
        plain.push_str(before);
        let character = after.get(..4).and_then(|digits| u32::from_str_radix(digits, 16).ok()).and_then(char::from_u32);
        if let Some(character) = character {
            plain.push(character);
            rest = after.get(4..).unwrap_or_default();
        } else {
            plain.push_str("\\u");
            rest = after;
        }
    }
    plain.push_str(rest);
    plain
}

/// Options of programs may be joined to a name without a blank: `-HX-HTTP-Method-Override`, `-d_method`.
fn names_an_override(name: &str) -> bool {
    let is_option = |rest: &str| matches!(rest.as_bytes(), [] | [b'-', _]);
    OVERRIDES.iter().any(|known| name.strip_suffix(known).is_some_and(is_option))
}

fn is_safe_override(method: &str) -> bool {
    overridden(method).effect == ProgramEffect::Read
}

/// A name as servers compare it: without case, and with `_` for `-`.
fn normal_name(name: &str) -> String {
    name.to_ascii_lowercase().replace('_', "-")
}

fn judge_method(method: &str) -> ProgramVerdict {
    // Methods are case-sensitive, but many servers accept `post` for `POST`, so only the standard's spelling counts as a read.
    match method {
        "GET" | "HEAD" | "OPTIONS" | "QUERY" => {
            ProgramVerdict::for_text(ProgramEffect::Read, format!("{method} is a safe method"))
        }
        "POST" | "PUT" | "PATCH" | "DELETE" => {
            ProgramVerdict::for_text(ProgramEffect::Write, format!("{method} changes something"))
        }
        _ if ["GET", "HEAD", "OPTIONS"].iter().any(|known| method.eq_ignore_ascii_case(known)) => {
            ProgramVerdict::for_text(ProgramEffect::Read, "a safe method, not spelt as the standard does")
        }
        _ if method.is_empty() => ProgramVerdict::for_text(ProgramEffect::Unknown, "there is no method"),
        _ => ProgramVerdict::for_text(ProgramEffect::Write, format!("{} is not a safe method", shown(method))),
    }
}

fn overridden(method: &str) -> ProgramVerdict {
    let judged = judge_method(method.trim().to_ascii_uppercase().as_str());
    match judged.effect {
        ProgramEffect::Read => judged,
        effect => ProgramVerdict::for_text(
            effect,
            "the request asks to be taken for another method, one that changes something",
        ),
    }
}

fn is_override(name: &str) -> bool {
    let name = normal_name(name.trim());
    OVERRIDES.iter().any(|known| name == *known)
}

/// A scheme that is not HTTP. A URL without a scheme counts as a path.
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

/// Undoes percent-encoding and `+`.
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
            (json!({"params": {"method": "DELETE"}}), true),
            (json!({"params": {"_HttpMethod": "DELETE"}}), true),
            (json!({"headers": {"X-HTTP-Verb-Override": "purge"}}), true),
            (json!({"headers": {"x-tunneled-method": "PUT"}}), true),
            (json!({"url": "/x?__method=DELETE"}), true),
            (json!({"url": "/x?.method=PURGE"}), true),
            (json!({"body": "{\"\\u005fmethod\":\"DELETE\"}"}), true),
            (json!({"params": {"payment_method": "card", "method": "ema"}}), false),
            (json!({"url": "/x?method=card", "text": "the method of choice", "http_method": "GET"}), false),
        ] {
            assert_eq!(asks_for_another_method(&arguments), found, "{arguments}");
        }
    }

    #[test]
    fn a_text_that_ends_the_request_or_names_another_protocol_is_found() {
        use serde_json::json;
        for (arguments, found) in [
            (json!({"url": "https://a/x", "headers": {"Accept": "a\tb"}}), false),
            (json!({"url": "localhost:8080/x", "q": "mailto:a@b"}), false),
            (json!({"body": "{\n  \"a\": 1\n}"}), false),
            (json!({"url": "gopher://127.0.0.1:6379/_FLUSHALL"}), true),
            (json!({"url": " FILE:///etc/passwd"}), true),
            (json!({"body": {"next": ["dict://127.0.0.1:11211/flush_all"]}}), true),
            (json!({"url": "/x HTTP/1.1\r\nHost: a\r\n\r\nDELETE /y HTTP/1.1"}), true),
            (json!({"headers": {"Accept": "a\nX: b"}}), true),
            (json!({"headers": {"Accept\r\nX": "b"}}), true),
        ] {
            assert_eq!(breaks_out_of_request(&arguments), found, "{arguments}");
        }
    }

    #[test]
    fn a_method_is_judged_with_what_overrides_it() {
        let none: [(&str, &str); 0] = [];
        for (method, url, headers, expected) in [
            ("GET", "https://api.example/x?a=1", &none[..], ProgramEffect::Read),
            ("get", "https://api.example/x", &none[..], ProgramEffect::Read),
            ("HEAD", "/x", &none[..], ProgramEffect::Read),
            ("POST", "https://api.example/x", &none[..], ProgramEffect::Write),
            ("DELETE", "https://api.example/x", &none[..], ProgramEffect::Write),
            ("PROPPATCH", "https://api.example/x", &none[..], ProgramEffect::Write),
            ("", "https://api.example/x", &none[..], ProgramEffect::Unknown),
            ("GET", "https://api.example/x", &[("X-HTTP-Method-Override", "DELETE")][..], ProgramEffect::Write),
            ("GET", "https://api.example/x", &[("X-HTTP-Method-Override", "GET")][..], ProgramEffect::Read),
            ("GET", "https://api.example/x?_method=delete", &none[..], ProgramEffect::Write),
            ("GET", "https://api.example/x?%5fmethod=PUT", &none[..], ProgramEffect::Write),
            ("GET", "file:///etc/passwd", &none[..], ProgramEffect::Unknown),
            ("GET", "gopher://127.0.0.1:6379/_FLUSHALL", &none[..], ProgramEffect::Unknown),
            ("GET", "localhost:8080/x", &none[..], ProgramEffect::Read),
            ("GET", "https://a/\r\nDELETE / HTTP/1.1", &none[..], ProgramEffect::Unknown),
        ] {
            let verdict = classify_request(method, url, headers.iter().copied());
            assert_eq!(verdict.effect, expected, "{method} {url}: {}", verdict.why);
        }
    }
}
