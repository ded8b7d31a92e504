//! Keeps secrets out of what servers say. Presented credentials are removed from everything that comes back, before any other code sees it.
//! Other values that the configuration gives the server are removed only from our own messages.
//!
//! The difference: a configured value may be `production`, and an answer may contain that word. A credential is no ordinary word.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use bytes::Bytes;
use serde_json::value::RawValue;
use servanda_authority::{
    Secret,
    scrubber::{SECRET_BYTES_MAX, SECRET_BYTES_MIN, SECRETS_BYTES_MAX, SECRETS_MAX, Scrubber, ScrubberError},
};
use url::Url;

use crate::{MissingCredential, PresentedCredentials, Transport, failure::quote};

/// Shorter values would redact ordinary words.
const SECRET_CHARS_MIN: usize = 6;
/// The same for values that are secret only sometimes: arguments and parts of addresses. `-y`, `serve` and `stdio` are no secrets, and
/// hardly any token is that short.
const DOUBTFUL_CHARS_MIN: usize = 8;
/// How many presented values are remembered after their requests, because a server may repeat them later. There may be more in use by
/// running requests.
const KEPT_MAX: usize = SECRETS_MAX / 2;

/// The values that must not be repeated.
#[derive(Default)]
pub(crate) struct Redaction {
    configured: Option<Scrubber>,
    presented: Mutex<RedactedValues>,
    /// Built from `presented`; none until a value was presented.
    scrubber: RwLock<Option<Arc<Scrubber>>>,
}

/// Keeps a presented value redacted at least as long as this lives.
pub(crate) type RedactionGuard = Arc<()>;

#[derive(Default)]
struct RedactedValues {
    /// The value presented last is last.
    values: Vec<(Secret, RedactionGuard)>,
    stems: Vec<Secret>,
}

impl Redaction {
    /// Redacts every value that the configuration gives the server.
    pub(crate) fn for_transport(transport: &Transport) -> Self {
        let (mut secrets, mut doubtful): (Vec<String>, Vec<String>) = match transport {
            Transport::Stdio { args, env, env_pass, .. } => {
                let passed = env_pass.iter().filter_map(|name| std::env::var(name).ok());
                let secrets = env.values().cloned().chain(passed).collect();
                (secrets, args.iter().flat_map(|arg| parts_of_argument(arg)).collect())
            }
            // Servers repeat `Bearer x` as `x`.
            Transport::Http { url, headers } => {
                let secrets = headers.values().flat_map(|value| [value.clone(), last_word(value).to_owned()]).collect();
                (secrets, parts_of_address(url))
            }
        };
        secrets.retain(|secret| secret.chars().count() >= SECRET_CHARS_MIN);
        doubtful.retain(|part| part.chars().count() >= DOUBTFUL_CHARS_MIN);
        secrets.append(&mut doubtful);
        Self { configured: scrubber_of_most(secrets), ..Self::default() }
    }

    /// Redacts these values from everything from now on. Fails if a value cannot be redacted; it must not be sent then.
    pub(crate) fn add(&self, presented: &PresentedCredentials) -> Result<Vec<RedactionGuard>, MissingCredential> {
        let mut known = self.presented.lock().unwrap_or_else(PoisonError::into_inner);
        let stems_before = known.stems.len();
        for stem in &presented.stems {
            if !known.stems.iter().any(|old| old.expose() == stem.expose()) {
                known.stems.push(stem.clone());
            }
        }
        let (mut kept, mut new) = (Vec::new(), Vec::new());
        for value in values_of(presented, &known.stems) {
            let (mark, is_new) = known.mark(value);
            new.extend(is_new.then(|| Arc::clone(&mark)));
            kept.push(mark);
        }
        let learns = !new.is_empty() || known.stems.len() > stems_before;
        if learns && let Err(why) = self.rebuild_scrubber(&mut known) {
            known.values.retain(|(_, mark)| !new.iter().any(|new| Arc::ptr_eq(mark, new)));
            known.stems.truncate(stems_before);
            return Err(why);
        }
        Ok(kept)
    }

    /// The same in the background, without blocking other requests. Cancel safe.
    pub(crate) async fn add_in_background(
        self: &Arc<Self>,
        presented: &PresentedCredentials,
    ) -> Result<Vec<RedactionGuard>, MissingCredential> {
        let (redaction, presented) = (Arc::clone(self), presented.clone());
        let learned = tokio::task::spawn_blocking(move || redaction.add(&presented)).await;
        learned.unwrap_or_else(|_| {
            Err(MissingCredential::unavailable(
                "the credentials could not be kept out of answers, so they are not sent",
            ))
        })
    }

    /// The same if all values are known already. None if one is new, or if another request is just adding values.
    pub(crate) fn guards_if_known(&self, presented: &PresentedCredentials) -> Option<Vec<RedactionGuard>> {
        let mut known = self.presented.try_lock().ok()?;
        let has_stem = |stem: &Secret| known.stems.iter().any(|old| old.expose() == stem.expose());
        let has_value = |value: &Secret| known.values.iter().any(|(old, _)| old.expose() == value.expose());
        let values = values_of(presented, &known.stems);
        if !presented.stems.iter().all(has_stem) || !values.iter().all(has_value) {
            return None;
        }
        Some(values.into_iter().map(|value| known.mark(value).0).collect())
    }

    /// A server's message without the values presented to the server. JSON stays JSON. The same bytes if there were none in it.
    pub(crate) fn clean(&self, message: &Bytes) -> Bytes {
        let Some(scrubber) = self.scrubber() else { return message.clone() };
        match scrubber.scrub_json(message) {
            std::borrow::Cow::Borrowed(_) => message.clone(),
            std::borrow::Cow::Owned(clean) => clean.into(),
        }
    }

    /// The same for text that was cut off: the part that may be the beginning of a secret is removed, too.
    pub(crate) fn clean_cut(&self, text: &[u8]) -> Vec<u8> {
        let Some(scrubber) = self.scrubber() else { return text.to_vec() };
        let kept = text.len().saturating_sub(scrubber.longest_bytes());
        scrubber.scrub(text.get(..kept).unwrap_or_default()).into_owned()
    }

    /// Foreign text, made safe for one of our messages.
    pub(crate) fn quote(&self, text: &str) -> String {
        quote(&self.remove(text))
    }

    /// Foreign text without the secrets.
    pub(crate) fn remove(&self, text: &str) -> String {
        let clean = self.configured.as_ref().map_or(text.into(), |configured| configured.scrub_text(text));
        self.scrubber().map_or_else(|| clean.to_string(), |scrubber| scrubber.scrub_text(&clean).into_owned())
    }

    /// Foreign JSON without the secrets, as it was written if there are none in it.
    pub(crate) fn remove_in_json(&self, json: Box<RawValue>) -> Box<RawValue> {
        let clean =
            self.configured.as_ref().map(|configured| configured.scrub_json(json.get().as_bytes()).into_owned());
        let json = clean.and_then(|clean| RawValue::from_string(String::from_utf8(clean).ok()?).ok()).unwrap_or(json);
        let Some(scrubber) = self.scrubber() else { return json };
        let clean = String::from_utf8(scrubber.scrub_json(json.get().as_bytes()).into_owned());
        clean.ok().and_then(|clean| RawValue::from_string(clean).ok()).unwrap_or(json)
    }

    fn rebuild_scrubber(&self, known: &mut RedactedValues) -> Result<(), MissingCredential> {
        known.forget();
        let values: Vec<Secret> = known.values.iter().map(|(value, _)| value.clone()).collect();
        let scrubber = Scrubber::with_stems(&values, &known.stems).map_err(|why| {
            MissingCredential::unavailable(match why {
                ScrubberError::TooShort { .. } => format!(
                    "a secret has fewer than {SECRET_BYTES_MIN} bytes and could not be kept out of answers, so it is not sent"
                ),
                ScrubberError::TooLong { .. } => format!("a secret has more than {SECRET_BYTES_MAX} bytes, so it is not sent"),
                ScrubberError::TooMany | ScrubberError::TooMuch => {
                    "more secrets are in use than can be kept out of answers; try again later".to_owned()
                }
            })
        })?;
        *self.scrubber.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(scrubber));
        Ok(())
    }

    fn scrubber(&self) -> Option<Arc<Scrubber>> {
        self.scrubber.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl RedactedValues {
    /// The guard of a value, and whether the value is new.
    fn mark(&mut self, value: Secret) -> (RedactionGuard, bool) {
        let old = self.values.iter().position(|(old, _)| old.expose() == value.expose());
        let is_new = old.is_none();
        let entry = old.map_or_else(|| (value, RedactionGuard::default()), |at| self.values.remove(at));
        let mark = Arc::clone(&entry.1);
        self.values.push(entry);
        (mark, is_new)
    }

    /// Makes room, in number and in bytes: values that no request is using are forgotten, the longest unused first.
    fn forget(&mut self) {
        let bytes_of = |secret: &Secret| secret.expose().len();
        let stems_bytes: usize = self.stems.iter().map(bytes_of).sum();
        let mut bytes = self.values.iter().map(|(value, _)| bytes_of(value)).sum::<usize>() + stems_bytes;
        let mut count = self.values.len();
        self.values.retain(|(value, mark)| {
            let goes = (count > KEPT_MAX || bytes > SECRETS_BYTES_MAX) && Arc::strong_count(mark) == 1;
            if goes {
                count -= 1;
                bytes -= bytes_of(value);
            }
            !goes
        });
    }
}

/// All values in the credentials that a server may repeat. A value that contains one of the others is not searched for as a whole: with the
/// inner value removed, nothing is left to hide.
fn values_of(presented: &PresentedCredentials, stems: &[Secret]) -> Vec<Secret> {
    let PresentedCredentials { headers, arguments, environment, hidden, .. } = presented;
    let mut values = hidden.clone();
    let hides = |value: &Secret| hidden.iter().any(|inside| has_inside(value, inside));
    values.extend(arguments.iter().chain(environment).map(|(_, value)| value.clone()).filter(|value| !hides(value)));
    for (_, value) in headers.iter().filter(|(_, value)| !hides(value)) {
        match value.as_text().map(|text| text.split_whitespace().collect::<Vec<_>>()).as_deref() {
            Some([_, word]) if word.len() >= SECRET_BYTES_MIN => values.push(Secret::new(word.as_bytes())),
            _ => values.push(value.clone()),
        }
    }
    values.retain(|value| !stems.iter().any(|stem| has_inside(value, stem)));
    values
}

fn has_inside(value: &Secret, inside: &Secret) -> bool {
    value.expose().windows(inside.expose().len().max(1)).any(|part| part == inside.expose())
}

/// A scrubber for as many values as possible, the longest first. For our own messages this is best effort.
fn scrubber_of_most(mut secrets: Vec<String>) -> Option<Scrubber> {
    secrets.sort_by(|left, right| right.len().cmp(&left.len()).then_with(|| left.cmp(right)));
    secrets.dedup();
    let mut bytes_left = SECRETS_BYTES_MAX;
    let taken: Vec<Secret> = secrets
        .into_iter()
        .map(|secret| {
            let mut bytes = secret.into_bytes();
            bytes.truncate(SECRET_BYTES_MAX);
            bytes
        })
        .filter(|bytes| {
            let fits = bytes.len() <= bytes_left;
            bytes_left -= if fits { bytes.len() } else { 0 };
            fits
        })
        .take(SECRETS_MAX)
        .map(Secret::new)
        .collect();
    if taken.is_empty() { None } else { Scrubber::new(&taken).ok() }
}

/// The parts of an argument that may be a secret: all of it, the value of `--token=x` and `Authorization:Bearer x`, the secrets of an
/// address. The name of an option is no secret, and servers print it in their error messages.
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

/// Whether it is a path, a package or a plain word. Servers name these in their error messages (`Cannot find module …`), and they are
/// hardly ever tokens: a token has digits or capitals and does not begin like a path.
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

/// The user information and the values of the query, both as written and decoded.
fn parts_of_address(address: &str) -> Vec<String> {
    let Ok(url) = Url::parse(address) else { return Vec::new() };
    let query = url.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    let written = query.map(|(_, value)| value).chain([url.username()]).chain(url.password());
    let mut parts: Vec<String> = written.flat_map(|part| [part.to_owned(), decoded(part)]).collect();
    parts.extend(url.query_pairs().map(|(_, value)| value.into_owned()));
    parts
}

/// Decodes percent encoding.
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
        formatter.debug_struct("Redaction").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn of_program(args: &[&str], env: &[(&str, &str)]) -> Redaction {
        Redaction::for_transport(&Transport::Stdio {
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
        Redaction::for_transport(&Transport::Http { url: url.to_owned(), headers })
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
            (r#"{"n" : 1234567890}"#, r#"{"n" : "[redacted]"}"#),
            (r#"{"n" : 1.0, "big": 99999999999999999999999}"#, r#"{"n" : 1.0, "big": 99999999999999999999999}"#),
            (r#"["\u0073e\"cret\/42",{"x 1234567890":null}]"#, r#"["[redacted]",{"x [redacted]":null}]"#),
        ];
        for (json, expected) in table {
            let clean = redaction.remove_in_json(RawValue::from_string(json.to_owned()).unwrap());
            assert_eq!(clean.get(), expected);
        }
    }

    fn bearer(token: &str) -> PresentedCredentials {
        PresentedCredentials::header("authorization", Secret::from(format!("Bearer {token}")))
    }

    /// How many of the largest tokens fit.
    const MOST: usize = SECRETS_BYTES_MAX / SECRET_BYTES_MAX;

    fn large(number: usize) -> String {
        format!("{number:05}{}", "x".repeat(SECRET_BYTES_MAX - 5))
    }

    fn large_ones(numbers: std::ops::Range<usize>) -> PresentedCredentials {
        PresentedCredentials {
            hidden: numbers.map(|number| Secret::from(large(number))).collect(),
            ..PresentedCredentials::default()
        }
    }

    #[test]
    fn t25_what_is_not_in_use_makes_room_for_large_tokens() {
        let redaction = Redaction::default();
        let held = redaction.add(&bearer(&large(0))).unwrap();
        redaction.add(&large_ones(1..MOST)).unwrap();
        redaction.add(&bearer(&large(MOST))).unwrap();
        let said = [0, 1, 2, MOST].map(large).join(" ");
        let expected = format!("[redacted] {} [redacted] [redacted]", large(1));
        assert!(redaction.remove(&said) == expected, "the longest unused is gone, and nothing else");
        drop(held);
        assert!(redaction.add(&large_ones(MOST + 1..2 * MOST + 1)).is_ok(), "all of the others may go");
    }

    #[test]
    fn t25_what_is_in_use_never_makes_room() {
        let redaction = Redaction::default();
        let first = redaction.add(&bearer(&large(0))).unwrap();
        let others = redaction.add(&large_ones(1..MOST)).unwrap();
        // A new value together with one that is in use.
        let too_much = PresentedCredentials { hidden: vec![Secret::from(large(0))], ..bearer(&large(MOST)) };
        assert!(redaction.add(&too_much).is_err());
        drop(others);
        redaction.add(&bearer(&large(MOST))).unwrap();
        assert!(redaction.remove(&format!("{} {}", large(0), large(MOST))) == "[redacted] [redacted]");
        drop(first);
    }

    #[test]
    fn a_value_that_cannot_be_learned_leaves_nothing_behind() {
        let redaction = Redaction::default();
        let short_stem =
            PresentedCredentials { stems: vec![Secret::from("ab".to_owned())], ..PresentedCredentials::default() };
        assert!(redaction.add(&short_stem).is_err());
        assert!(redaction.add(&PresentedCredentials::header("x", Secret::from("abc".to_owned()))).is_err());
        redaction.add(&bearer("token-1234")).unwrap();
        assert_eq!(redaction.remove("token-1234 Bearer"), "[redacted] Bearer");
    }

    #[test]
    fn words_beside_a_secret_are_no_secrets() {
        let secret = |text: &str| Secret::from(text.to_owned());
        let table = [
            (PresentedCredentials {
                hidden: vec![secret("sk-123456")],
                ..PresentedCredentials::header("x", secret("sk-123456 production"))
            }),
            PresentedCredentials {
                hidden: vec![secret("sk-123456")],
                environment: vec![("A".to_owned(), secret("key=sk-123456;stage=production"))],
                ..PresentedCredentials::default()
            },
            bearer("sk-123456"),
        ];
        for presented in table {
            let redaction = Redaction::default();
            redaction.add(&presented).unwrap();
            assert_eq!(redaction.remove("sk-123456 in production"), "[redacted] in production", "{presented:?}");
        }
        // With more than two words it is not known which is the secret one, so only the whole value is redacted.
        let redaction = Redaction::default();
        redaction.add(&PresentedCredentials::header("x", secret("Digest one=1, production"))).unwrap();
        assert_eq!(redaction.remove("Digest one=1, production of production"), "[redacted] of production");
    }

    #[tokio::test]
    async fn hundreds_of_users_in_turn_are_learned_once() {
        let redaction = Arc::new(Redaction::default());
        for round in 0..2 {
            for user in 0..300 {
                let presented = bearer(&format!("token-{user:06}"));
                assert_eq!(redaction.guards_if_known(&presented).is_some(), round > 0, "{user}");
                redaction.add_in_background(&presented).await.unwrap();
            }
        }
        assert_eq!(redaction.remove("token-000000 token-000299"), "[redacted] [redacted]");
    }
}
