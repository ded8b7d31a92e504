//! Arguments as people see them: rendered from the canonical bytes, one leaf a line, with every character that does not read as what it is
//! spelled out. The canonical bytes of two different calls never look the same. Deliberately without markup: an argument is data, whatever it says.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use servanda_contract::{
    json::{self, CanonicalBytes},
    legibility,
};

/// The most leaves that are listed; the canonical bytes have all of them.
const LEAVES_MAX: usize = 400;
/// The most leaves that are listed because something about them is unusual, beyond [`LEAVES_MAX`]. Else a caller could hide an unusual value
/// behind many usual ones.
const UNUSUAL_LEAVES_MAX: usize = 400;
/// The longest text that is shown whole.
const TEXT_CHARS_MAX: usize = 4_000;
/// What stands for a masked value.
pub(crate) const MASK: &str = "••••••";

/// The arguments of a call as people see them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RenderedArguments {
    /// The leaves, in the order of the canonical bytes.
    pub leaves: Vec<RenderedArgument>,
    /// How many leaves are left out.
    pub left_out: usize,
    /// How many values are masked for this viewer.
    pub masked: usize,
    /// The canonical bytes as text, with hidden characters spelled out; none if a value is masked.
    pub canonical: Option<String>,
}

/// One value among the arguments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RenderedArgument {
    /// Where it stands: a JSON Pointer.
    pub pointer: String,
    /// The value: a text without quotes, or JSON. Hidden characters are written `<U+202E>`.
    pub value: String,
    /// Its type: `text`, `number`, `yes or no`, `nothing`, `empty list` or `empty object`.
    pub kind: &'static str,
    /// What is unusual about it, in words: hidden characters, a host that is not ASCII, white space around it.
    pub warnings: Vec<String>,
    /// Whether the value is masked for this viewer.
    pub masked: bool,
    /// How many characters are left out of a long text.
    pub cut: usize,
}

/// Renders canonical arguments. `sensitive` has the pointers of sensitive values; they are masked unless `reveals` says that the viewer may
/// see a value of that sensitivity.
pub fn render_arguments(
    arguments: &[u8],
    sensitive: &BTreeMap<String, String>,
    reveals: impl Fn(&str) -> bool,
) -> RenderedArguments {
    let value: Value = serde_json::from_slice(arguments).unwrap_or_default();
    let mut walk = ArgumentWalk { leaves: Vec::new(), left_out: 0, masked: 0, sensitive, reveals: &reveals };
    walk.value(&value, &mut String::new(), false);
    let ArgumentWalk { leaves, left_out, masked, .. } = walk;
    let whole = || legibility::reveal_exactly(&String::from_utf8_lossy(arguments)).into_owned();
    RenderedArguments { leaves, left_out, masked, canonical: (masked == 0).then(whole) }
}

/// The digest of a JSON text, if the text is canonical: what people see is then what was hashed.
pub(crate) fn canonical_again(arguments: &[u8]) -> Option<CanonicalBytes> {
    let value: Value = serde_json::from_slice(arguments).ok()?;
    json::canonicalize(&value).ok().filter(|canonical| canonical.bytes() == arguments)
}

struct ArgumentWalk<'a> {
    leaves: Vec<RenderedArgument>,
    left_out: usize,
    masked: usize,
    sensitive: &'a BTreeMap<String, String>,
    reveals: &'a dyn Fn(&str) -> bool,
}

impl ArgumentWalk<'_> {
    fn value(&mut self, value: &Value, pointer: &mut String, is_masked: bool) {
        let hides = |sensitivity: &String| !(self.reveals)(sensitivity);
        let is_masked = is_masked || self.sensitive.get(pointer.as_str()).is_some_and(hides);
        match value {
            Value::Object(members) if !members.is_empty() => {
                for (name, member) in members {
                    self.inside(name, member, pointer, is_masked);
                }
            }
            Value::Array(items) if !items.is_empty() => {
                for (index, item) in items.iter().enumerate() {
                    self.inside(&index.to_string(), item, pointer, is_masked);
                }
            }
            leaf => self.leaf(leaf, pointer, is_masked),
        }
    }

    fn inside(&mut self, step: &str, value: &Value, pointer: &mut String, is_masked: bool) {
        let length = pointer.len();
        pointer.push('/');
        pointer.push_str(&step.replace('~', "~0").replace('/', "~1"));
        self.value(value, pointer, is_masked);
        pointer.truncate(length);
    }

    fn leaf(&mut self, value: &Value, pointer: &str, is_masked: bool) {
        let is_full = self.leaves.len() >= LEAVES_MAX;
        let is_worth_a_line = !is_full || (!is_masked && self.leaves.len() < LEAVES_MAX + UNUSUAL_LEAVES_MAX);
        if !is_worth_a_line {
            self.left_out += 1;
            self.masked += usize::from(is_masked);
            return;
        }
        // A name on several lines would look like several names.
        let shown = legibility::reveal_exactly(pointer).replace('\n', "<U+000A>").replace('\t', "<U+0009>");
        let (text, kind) = match value {
            Value::String(text) => (text.clone(), "text"),
            Value::Number(_) => (value.to_string(), "number"),
            Value::Bool(_) => (value.to_string(), "yes or no"),
            Value::Null => (value.to_string(), "nothing"),
            Value::Array(_) => (value.to_string(), "empty list"),
            Value::Object(_) => (value.to_string(), "empty object"),
        };
        if is_masked {
            self.masked += 1;
            let value = MASK.to_owned();
            self.leaves.push(RenderedArgument {
                pointer: shown,
                value,
                kind,
                warnings: Vec::new(),
                masked: true,
                cut: 0,
            });
            return;
        }
        let mut warnings = if kind == "text" { warnings(&text) } else { Vec::new() };
        if shown != pointer {
            warnings.push("its name has hidden characters".to_owned());
        }
        if is_full && warnings.is_empty() {
            self.left_out += 1;
            return;
        }
        let count = text.chars().count();
        let cut = count.saturating_sub(TEXT_CHARS_MAX);
        let kept: String = if cut == 0 { text } else { text.chars().take(TEXT_CHARS_MAX).collect() };
        let value = legibility::reveal_exactly(&kept).into_owned();
        self.leaves.push(RenderedArgument { pointer: shown, value, kind, warnings, masked: false, cut });
    }
}

/// What a person should know about a text before trusting their eyes.
fn warnings(text: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    let hidden = legibility::hidden_characters(text);
    if !hidden.is_empty() {
        let count = if hidden.len() == 1 { "a character".to_owned() } else { format!("{} characters", hidden.len()) };
        warnings.push(format!("{count} that people cannot see or that change the direction of the text"));
    }
    if let Some(fault) = legibility::name_fault(text).filter(|fault| !fault.is_hidden() && !text.contains(' ')) {
        warnings.push(fault.to_string());
    }
    if text.chars().any(|character| character.is_whitespace() && !matches!(character, ' ' | '\n' | '\r' | '\t')) {
        warnings.push("blanks that are not plain spaces".to_owned());
    }
    if legibility::has_spelled_out(text) {
        warnings.push("it says `<U+003C>` where it has `<`, because the text after that looks like a character that is spelled out".to_owned());
    }
    if text.trim() != text {
        warnings.push("white space around it".to_owned());
    }
    if let Some(host) = strange_host(text) {
        warnings.push(format!("the host `{host}` is not written in plain letters"));
    }
    warnings
}

/// The first host of the URLs in a text that has characters that may look like others, or hides behind user information.
fn strange_host(text: &str) -> Option<String> {
    text.match_indices("://").find_map(|(at, separator)| strange_authority(text.get(at + separator.len()..)?))
}

fn strange_authority(rest: &str) -> Option<String> {
    let rest = rest.split(char::is_whitespace).next().unwrap_or_default();
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let is_plain = host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte));
    let is_strange = !is_plain || authority.contains('@') || host.split('.').any(|label| label.starts_with("xn--"));
    is_strange.then(|| legibility::reveal(authority).into_owned())
}
