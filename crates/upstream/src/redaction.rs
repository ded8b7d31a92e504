//! Keeps configured values out of the sentences we write: a server that prints its own token must not make us repeat it.
//!
//! Answers are not touched; what may be passed on of those is the contract's business.

use reqwest::Url;
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};

use crate::{Transport, failure::quote};

/// Shorter values would black out ordinary words.
const SECRET_CHARS_MIN: usize = 6;
/// The same for what may be a secret but mostly is none: arguments and parts of addresses. `-y`, `serve` and `stdio` are
/// no secrets, and hardly a token is that short.
const DOUBTFUL_CHARS_MIN: usize = 8;
const REDACTED: &str = "[redacted]";

/// The values that must not be repeated.
#[derive(Clone, Default)]
pub(crate) struct Redaction {
    secrets: Vec<String>,
}

impl Redaction {
    /// Everything the configuration hands to the server.
    pub(crate) fn of(transport: &Transport) -> Self {
        let (mut secrets, mut doubtful): (Vec<String>, Vec<String>) = match transport {
            Transport::Stdio { args, env, env_pass, .. } => {
                let passed = env_pass.iter().filter_map(|name| std::env::var(name).ok());
                let secrets = env.values().cloned().chain(passed).collect();
                (secrets, args.iter().flat_map(|arg| parts_of_argument(arg)).collect())
            }
            // `Bearer x` is repeated by servers as `x`.
            Transport::Http { url, headers } => {
                let secrets = headers.values().flat_map(|value| [value.clone(), last_word(value).to_owned()]).collect();
                (secrets, parts_of_address(url))
            }
        };
        secrets.retain(|secret| secret.chars().count() >= SECRET_CHARS_MIN);
        doubtful.retain(|part| part.chars().count() >= DOUBTFUL_CHARS_MIN);
        secrets.append(&mut doubtful);
        // The longest first, so that a secret that contains another disappears as a whole.
        secrets.sort_by(|left, right| right.len().cmp(&left.len()).then_with(|| left.cmp(right)));
        secrets.dedup();
        Self { secrets }
    }

    /// Foreign text for one of our sentences.
    pub(crate) fn quote(&self, text: &str) -> String {
        quote(&self.remove(text))
    }

    /// Foreign text without the secrets.
    pub(crate) fn remove(&self, text: &str) -> String {
        let mut clean = text.to_owned();
        for secret in &self.secrets {
            if clean.contains(secret) {
                clean = clean.replace(secret, REDACTED);
            }
        }
        clean
    }

    /// Foreign JSON without the secrets, as it was written if there are none in it.
    pub(crate) fn remove_in_json(&self, json: Box<RawValue>) -> Box<RawValue> {
        // Read as a value: in the text a secret may be escaped, and to replace it there may leave no JSON.
        let Ok(mut value) = serde_json::from_str::<Value>(json.get()) else { return json };
        if self.remove_in_value(&mut value) { to_raw_value(&value).unwrap_or(json) } else { json }
    }

    /// Whether there was a secret. Recursion is bounded by the parser's depth.
    fn remove_in_value(&self, value: &mut Value) -> bool {
        match value {
            Value::Null | Value::Bool(_) => false,
            Value::Number(number) => {
                let found = self.occurs_in(&number.to_string());
                if found {
                    *value = Value::from(REDACTED);
                }
                found
            }
            Value::String(text) => {
                let found = self.occurs_in(text);
                if found {
                    *text = self.remove(text);
                }
                found
            }
            Value::Array(items) => {
                let mut found = false;
                for item in items {
                    found |= self.remove_in_value(item);
                }
                found
            }
            Value::Object(members) => {
                let mut found = false;
                let old = std::mem::take(members);
                for (name, mut member) in old {
                    found |= self.remove_in_value(&mut member) | self.occurs_in(&name);
                    members.insert(self.remove(&name), member);
                }
                found
            }
        }
    }

    fn occurs_in(&self, text: &str) -> bool {
        self.secrets.iter().any(|secret| text.contains(secret))
    }
}

/// What of an argument may be a secret: all of it, the value of `--token=x` and `Authorization:Bearer x`, the secrets of
/// an address. The name of an option is none, and servers print it where they say what is wrong.
fn parts_of_argument(argument: &str) -> Vec<String> {
    if is_option_name(argument) {
        return Vec::new();
    }
    let value = |separator| argument.split_once(separator).map(|(_, value)| value.trim_start());
    let whole = Some(argument).filter(|argument| !is_plain_name(argument));
    let wholes = [whole, value('='), value(':')];
    let parts = wholes.into_iter().flatten().filter(|part| !part.starts_with("//"));
    parts
        .flat_map(|part| {
            let mut all = parts_of_address(part);
            all.extend([part.to_owned(), last_word(part).to_owned()]);
            all
        })
        .collect()
}

/// Paths, packages and words: what a server names when it says what is wrong (`Cannot find module …`), and hardly ever a
/// token, which has digits or capitals and does not begin like a path.
fn is_plain_name(argument: &str) -> bool {
    let path = ["/", "./", "../", "~/", "@"].iter().any(|start| argument.starts_with(start));
    let word = argument.bytes().all(|byte| byte.is_ascii_lowercase() || b"-_./".contains(&byte));
    (path || word) && !argument.contains(['=', ' '])
}

fn is_option_name(argument: &str) -> bool {
    argument
        .strip_prefix("--")
        .is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_lowercase() || matches!(byte, b'-' | b'_')))
}

/// The user information and the values of the query, as they are written and as they are meant.
fn parts_of_address(address: &str) -> Vec<String> {
    let Ok(url) = Url::parse(address) else { return Vec::new() };
    let query = url.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    let written = query.map(|(_, value)| value).chain([url.username()]).chain(url.password());
    let mut parts: Vec<String> = written.flat_map(|part| [part.to_owned(), decoded(part)]).collect();
    parts.extend(url.query_pairs().map(|(_, value)| value.into_owned()));
    parts
}

/// Without percent encoding.
fn decoded(part: &str) -> String {
    let Ok(mut url) = Url::parse("http://localhost/") else { return part.to_owned() };
    // In a query, but not elsewhere, a plus sign is a space.
    url.set_query(Some(&format!("x={}", part.replace('+', "%2B"))));
    url.query_pairs().next().map_or_else(|| part.to_owned(), |(_, value)| value.into_owned())
}

fn last_word(text: &str) -> &str {
    text.split_whitespace().last().unwrap_or_default()
}

impl std::fmt::Debug for Redaction {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Redaction").field("secrets_count", &self.secrets.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn of_program(args: &[&str], env: &[(&str, &str)]) -> Redaction {
        Redaction::of(&Transport::Stdio {
            command: String::new(),
            args: args.iter().map(|&arg| arg.to_owned()).collect(),
            env: env.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect(),
            env_pass: Vec::new(),
            cwd: None,
        })
    }

    fn of_address(url: &str, headers: &[(&str, &str)]) -> Redaction {
        let headers: BTreeMap<String, String> =
            headers.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        Redaction::of(&Transport::Http { url: url.to_owned(), headers })
    }

    #[test]
    fn configured_values_are_not_repeated() {
        let redaction = of_address("http://localhost/", &[("authorization", "Bearer tok_123456")]);
        assert_eq!(redaction.quote("bad token tok_123456!"), "bad token [redacted]!");
        assert!(!format!("{redaction:?}").contains("tok_"));

        let redaction = of_program(&[], &[("A", "abcdef"), ("B", "xabcdefx")]);
        assert_eq!(redaction.quote("xabcdefx abcdef"), "[redacted] [redacted]");
    }

    #[test]
    fn short_values_are_left() {
        let redaction = of_program(&["-y", "serve", "--read-only", "--port=8080"], &[("DEBUG", "1")]);
        let text = "1 error: cannot serve --read-only on 8080, -y or not";
        assert_eq!(redaction.quote(text), text);
    }

    #[test]
    fn arguments_are_not_repeated() {
        let args = [
            "--token=tok_equals1",
            "tok_positional9",
            "-pS3cretPassword",
            "--header",
            "Authorization: Bearer tok_header1",
            "postgres://admin:p%40ssw0rd99@db.test/x?sslkey=key_12345678",
        ];
        let redaction = of_program(&args, &[]);
        let said = "--token=tok_equals1 tok_equals1 tok_positional9 -pS3cretPassword tok_header1 p@ssw0rd99 p%40ssw0rd99 \
                    key_12345678 --header";
        let expected = [["[redacted]"; 8].join(" "), "--header".to_owned()].join(" ");
        assert_eq!(redaction.quote(said), expected);
    }

    #[test]
    fn what_a_server_names_to_say_what_is_wrong_stays() {
        let args = ["-y", "@modelcontextprotocol/server-filesystem", "/home/Me/Project9/index.js", "mcp-server-git"];
        let said = "Cannot find module '/home/Me/Project9/index.js' of @modelcontextprotocol/server-filesystem or mcp-server-git";
        assert_eq!(of_program(&args, &[]).quote(said), said);
    }

    #[test]
    fn secrets_of_an_address_are_not_repeated() {
        let redaction = of_address("https://longuser1:p%40ssw0rd99@host.test/mcp?key=a%2Bkey1234&x=1", &[]);
        let said = "longuser1 p@ssw0rd99 p%40ssw0rd99 a+key1234 a%2Bkey1234 host.test 1";
        let expected = [["[redacted]"; 5].join(" "), "host.test 1".to_owned()].join(" ");
        assert_eq!(redaction.quote(said), expected);
    }

    #[test]
    fn json_is_rewritten_only_where_a_secret_is_in_it() {
        let redaction = of_program(&["se\"cret/42", "1234567890"], &[]);
        let table = [
            (r#"{"n" : 1234567890}"#, r#"{"n":"[redacted]"}"#),
            (r#"{"n" : 1.0, "big": 99999999999999999999999}"#, r#"{"n" : 1.0, "big": 99999999999999999999999}"#),
            (r#"["\u0073e\"cret\/42",{"x 1234567890":null}]"#, r#"["[redacted]",{"x [redacted]":null}]"#),
        ];
        for (json, expected) in table {
            let clean = redaction.remove_in_json(RawValue::from_string(json.to_owned()).unwrap());
            assert_eq!(clean.get(), expected);
        }
    }
}
