//! Masks a client's file for display: values that may be secrets are shown as `***`. Only printed text is masked, never text that is
//! written.
//!
//! Terminals are recorded, shared and pasted into bug reports, so in doubt a value is masked: all variables and headers, and elsewhere
//! values that look like secrets or have a secret's name. A text that cannot be parsed is shown without any of its strings.

use servanda_config::expansion::references;
use toml_edit::visit_mut::{self, VisitMut};

use crate::{
    json::{self, JsoncNode, JsoncShape},
    likely_secrets::{is_marked, is_secret, without_scheme},
};

/// The text that replaces a secret.
const MASK: &str = "***";
/// Fields whose members may have any name, so that every value is masked.
const SETTINGS: [&str; 4] = ["env", "headers", "http_headers", "env_http_headers"];
/// A path segment at least this long, with letters and digits, is treated as a secret.
const SEGMENT_CHARS_MIN: usize = 20;

/// The text with every secret masked.
pub fn masked(text: &str) -> String {
    let masked = if let Ok(root) = json::parse(text) {
        let mut places = Vec::new();
        in_node(&root, &MaskingContext::default(), &mut places);
        let mut masked = text.to_owned();
        for (span, shown) in places.into_iter().rev() {
            masked.replace_range(span, &shown);
        }
        masked
    } else if let Ok(mut document) = text.parse::<toml_edit::DocumentMut>() {
        TomlMasker { place: MaskingContext::default() }.visit_document_mut(&mut document);
        document.to_string()
    } else {
        without_strings(text)
    };
    // A comment has no fields, and may still contain a server that a person commented out.
    without_marked_words(&masked)
}

/// The context of a string in the file.
#[derive(Debug, Default, Clone)]
struct MaskingContext {
    /// The name of its field, or the flag before it.
    name: String,
    /// Whether it is a variable or a header.
    setting: bool,
}

impl MaskingContext {
    fn member(&self, key: &str) -> Self {
        Self { name: key.to_owned(), setting: self.setting || SETTINGS.contains(&key) }
    }

    /// The string as it is shown in this context.
    fn shown(&self, value: &str) -> String {
        let shown = argument(&self.name, value);
        let open = value.is_empty() || !references(value).is_empty() || is_plain(value);
        if self.setting && shown == value && !open { MASK.to_owned() } else { shown }
    }
}

fn in_node(node: &JsoncNode, place: &MaskingContext, places: &mut Vec<(std::ops::Range<usize>, String)>) {
    match &node.shape {
        JsoncShape::Object(members) => {
            for member in members {
                in_node(&member.value, &place.member(&member.key), places);
            }
        }
        JsoncShape::Array(items) => {
            let mut place = place.clone();
            for item in items {
                in_node(item, &place, places);
                place.name = next_flag(item_text(item));
            }
        }
        JsoncShape::Scalar(serde_json::Value::String(text)) => {
            let shown = place.shown(text);
            if shown != *text {
                places.push((node.span.clone(), serde_json::Value::String(shown).to_string()));
            }
        }
        JsoncShape::Scalar(_) => {}
    }
}

fn item_text(node: &JsoncNode) -> &str {
    match &node.shape {
        JsoncShape::Scalar(serde_json::Value::String(text)) => text,
        _ => "",
    }
}

fn next_flag(text: &str) -> String {
    if text.starts_with('-') && !text.contains('=') { text.to_owned() } else { String::new() }
}

struct TomlMasker {
    place: MaskingContext,
}

impl VisitMut for TomlMasker {
    fn visit_table_like_kv_mut(&mut self, key: toml_edit::KeyMut<'_>, node: &mut toml_edit::Item) {
        let inside = self.place.member(key.get());
        let outside = std::mem::replace(&mut self.place, inside);
        visit_mut::visit_table_like_kv_mut(self, key, node);
        self.place = outside;
    }

    fn visit_array_mut(&mut self, node: &mut toml_edit::Array) {
        let outside = self.place.clone();
        for value in node.iter_mut() {
            let flag = next_flag(value.as_str().unwrap_or_default());
            self.visit_value_mut(value);
            self.place.name = flag;
        }
        self.place = outside;
    }

    fn visit_string_mut(&mut self, node: &mut toml_edit::Formatted<String>) {
        let shown = self.place.shown(node.value());
        if shown != *node.value() {
            let decor = node.decor().clone();
            *node = toml_edit::Formatted::new(shown);
            *node.decor_mut() = decor;
        }
    }
}

/// `--api-key=VALUE`, `API_KEY=VALUE`, `Authorization: VALUE`, or a value of the name before it.
fn argument(name: &str, text: &str) -> String {
    for separator in ['=', ':'] {
        let Some((own, value)) = text.split_once(separator) else { continue };
        let word = |character: char| character.is_ascii_alphanumeric() || "-_".contains(character);
        if own.is_empty() || !own.chars().all(word) || value.starts_with("//") {
            continue;
        }
        let value = value.trim_start();
        let shown = value_of(own, value);
        if shown != value {
            let front = text.get(..text.len() - value.len()).unwrap_or_default();
            return format!("{front}{shown}");
        }
    }
    value_of(name, text)
}

fn value_of(name: &str, value: &str) -> String {
    let defaults = references(value).into_iter().filter_map(|reference| reference.default);
    let secret_defaults: Vec<&str> = defaults.filter(|default| is_secret(name, default)).collect();
    if !secret_defaults.is_empty() {
        return secret_defaults.iter().fold(value.to_owned(), |shown, default| shown.replace(default, MASK));
    }
    let secret = without_scheme(value);
    if is_secret(name, secret) {
        return format!("{}{MASK}", value.get(..value.len() - secret.len()).unwrap_or_default());
    }
    address(value).unwrap_or_else(|| value.to_owned())
}

/// Masks a URL: the password or token before the host, query values, and path segments that look like secrets.
fn address(text: &str) -> Option<String> {
    let (scheme, rest) = text.split_once("://").filter(|(scheme, _)| !scheme.contains(char::is_whitespace))?;
    let (front, query) = rest.split_once('?').map_or((rest, None), |(front, query)| (front, Some(query)));
    let (authority, path) = front.find('/').map_or((front, ""), |at| front.split_at(at));
    let hide =
        |part: &str| if part.is_empty() || !references(part).is_empty() { part.to_owned() } else { MASK.to_owned() };
    let login = |login: &str| match login.split_once(':') {
        Some((user, password)) => format!("{user}:{}", hide(password)),
        None => hide(login),
    };
    let authority = match authority.rsplit_once('@') {
        Some((who, host)) => format!("{}@{host}", login(who)),
        None => authority.to_owned(),
    };
    let path: Vec<String> =
        path.split('/').map(|part| if is_unguessable(part) { MASK.to_owned() } else { part.to_owned() }).collect();
    let parameter = |parameter: &str| match parameter.split_once('=') {
        Some((_, value)) if is_plain(value) => parameter.to_owned(),
        Some((name, value)) => format!("{name}={}", hide(value)),
        None => hide(parameter),
    };
    let query = query.map(|query| query.split('&').map(parameter).collect::<Vec<_>>().join("&"));
    Some(format!(
        "{scheme}://{authority}{}{}",
        path.join("/"),
        query.map(|query| format!("?{query}")).unwrap_or_default()
    ))
}

/// A small number or a switch, which is too short for a secret.
fn is_plain(value: &str) -> bool {
    const DIGITS_MAX: usize = 6;
    let number = value.len() <= DIGITS_MAX && value.chars().all(|character| character.is_ascii_digit());
    number || ["true", "false"].contains(&value)
}

fn is_unguessable(part: &str) -> bool {
    let has = |kind: fn(&char) -> bool| part.chars().any(|character| kind(&character));
    part.chars().count() >= SEGMENT_CHARS_MIN && has(char::is_ascii_digit) && has(char::is_ascii_alphabetic)
}

fn without_marked_words(text: &str) -> String {
    let part_of_word = |character: char| character.is_ascii_alphanumeric() || "-_.+/".contains(character);
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(part_of_word) {
        let (before, from) = rest.split_at(start);
        let end = from.find(|character: char| !part_of_word(character)).unwrap_or(from.len());
        let (word, behind) = from.split_at(end);
        shown.push_str(before);
        shown.push_str(if is_marked(word) { MASK } else { word });
        rest = behind;
    }
    shown + rest
}

fn without_strings(text: &str) -> String {
    let line = |line: &str| {
        let parts = line.split('"').enumerate();
        let parts = parts.map(|(index, part)| if index % 2 == 1 { MASK } else { part });
        parts.collect::<Vec<_>>().join("\"")
    };
    text.split_inclusive('\n').map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::masked;

    #[test]
    fn secrets_are_masked_wherever_they_stand() {
        let table = [
            (
                r#"{"env": {"MY_PAT": "hunter2", "PORT": "80", "A": "${A}"}}"#,
                r#"{"env": {"MY_PAT": "***", "PORT": "80", "A": "${A}"}}"#,
            ),
            (r#"{"env": {"A_TOKEN": "${A_TOKEN:-hunter2}"}}"#, r#"{"env": {"A_TOKEN": "${A_TOKEN:-***}"}}"#),
            (r#"{"headers": {"Authorization": "Bearer hunter2"}}"#, r#"{"headers": {"Authorization": "Bearer ***"}}"#),
            (
                r#"{"args": ["-y", "pkg@1.2", "--api-key", "hunter2"]}"#,
                r#"{"args": ["-y", "pkg@1.2", "--api-key", "***"]}"#,
            ),
            (r#"{"args": ["--token=hunter2", "a:b"]}"#, r#"{"args": ["--token=***", "a:b"]}"#),
            (r#"{"args": ["--header", "X-Api-Key: hunter2"]}"#, r#"{"args": ["--header", "X-Api-Key: ***"]}"#),
            (r#"{"url": "https://me:hunter2@h/mcp?v=2&q=hunter2"}"#, r#"{"url": "https://me:***@h/mcp?v=2&q=***"}"#),
            (r#"{"url": "https://hunter2@h/s/abcdefghij0123456789/mcp"}"#, r#"{"url": "https://***@h/s/***/mcp"}"#),
            (r#"{"url": "http://127.0.0.1:7332/mcp"}"#, r#"{"url": "http://127.0.0.1:7332/mcp"}"#),
            ("{\n  // \"x\": \"ghp_0123456789abcdef\"\n}", "{\n  // \"x\": \"***\"\n}"),
            (r#"{"env": {"X": "hunter2"}"#, r#"{"***": {"***": "***"}"#),
            (
                "[mcp_servers.x]\nargs = [\"--api-key\", \"hunter2\"] # why\n[mcp_servers.x.env]\nMY_PAT = \"hunter2\"\n",
                "[mcp_servers.x]\nargs = [\"--api-key\", \"***\"] # why\n[mcp_servers.x.env]\nMY_PAT = \"***\"\n",
            ),
            (
                "[mcp_servers.x]\nurl = 'https://h/?k=hunter2'\nhttp_headers = { A = \"hunter2\" }\n",
                "[mcp_servers.x]\nurl = \"https://h/?k=***\"\nhttp_headers = { A = \"***\" }\n",
            ),
        ];
        for (text, expected) in table {
            assert_eq!(masked(text), expected, "{text}");
        }
    }

    /// A value that is no secret is shown unchanged, with its escapes.
    #[test]
    fn the_rest_is_untouched() {
        let text = "{\r\n  \"a\\u0041\": [1, null, {\"b\": \"C:\\\\keys\"}], // x\r\n  \"command\": \"/usr/bin/servanda\",\n}\n";
        assert_eq!(masked(text), text);
    }
}
