//! The kinds of arguments that the keyword can name, how they are written, and what such a text may not do.

use serde::Deserialize;
use serde_json::{Map, Value};
use servanda_contract::tool::SideEffectClass;
use servanda_identity::effects::{self, PathRoots, ProgramEffect, ProgramLanguage, UrlRules};

use super::{class, fault::ProgramFault};

const KINDS: &str = "`sql`, `postgresql`, `sqlite`, `mysql`, `shell`, `http_method` or `url`";

/// What an argument is.
#[derive(Debug)]
pub(super) enum ProgramKind {
    Text(ProgramLanguage),
    /// The method of a request, and whether a request without a method is sent with a reading method.
    Method {
        is_safe_by_default: bool,
    },
    Path(PathRoots),
    Url(UrlRules),
}

/// How the keyword is written: a word, or an object with more.
#[derive(Deserialize)]
#[serde(untagged)]
enum ProgramNotation {
    Word(String),
    Full(ProgramSpec),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProgramSpec {
    kind: String,
    #[serde(default)]
    dialect: Option<String>,
    #[serde(default)]
    roots: Vec<String>,
    #[serde(default)]
    schemes: Vec<String>,
    #[serde(default)]
    hosts: Vec<String>,
    #[serde(default)]
    decides_class: bool,
}

impl ProgramSpec {
    fn from_kind(kind: String) -> Self {
        let (roots, schemes, hosts) = (Vec::new(), Vec::new(), Vec::new());
        Self { kind, dialect: None, roots, schemes, hosts, decides_class: false }
    }
}

impl ProgramKind {
    /// Reads the kind of the argument, and whether it decides the class of a call.
    pub(super) fn read(written: &Value, schema: &Map<String, Value>) -> Result<(Self, bool), String> {
        if !is_text(schema) {
            return Err("only a text can be read: the property needs `type: string`".to_owned());
        }
        let full = match serde_json::from_value(written.clone()).map_err(|_| shape())? {
            ProgramNotation::Word(kind) => ProgramSpec::from_kind(kind),
            ProgramNotation::Full(full) => full,
        };
        let decides = full.decides_class;
        let kind = Self::from_spec(full, schema)?;
        if decides && !matches!(kind, Self::Text(_) | Self::Method { .. }) {
            return Err("`decides_class` is only for a program or a method: a path or a URL decides nothing".to_owned());
        }
        Ok((kind, decides))
    }

    fn from_spec(written: ProgramSpec, schema: &Map<String, Value>) -> Result<Self, String> {
        let ProgramSpec { kind, dialect, roots, schemes, hosts, decides_class: _ } = written;
        if kind == "url" && dialect.is_none() && roots.is_empty() {
            return UrlRules::new(&schemes, &hosts).map(Self::Url);
        }
        if !schemes.is_empty() || !hosts.is_empty() {
            return Err(format!("`schemes` and `hosts` are only for a `url`; {}", shape()));
        }
        match (kind.as_str(), dialect, roots.is_empty()) {
            ("path", None, false) => {
                PathRoots::new(roots.iter().map(String::as_str)).map(Self::Path).map_err(|reason| reason.to_string())
            }
            ("path", ..) => Err("a path needs `roots`, the folders it may be in".to_owned()),
            ("http_method", None, true) => {
                let default = schema.get("default").and_then(Value::as_str);
                Ok(Self::Method { is_safe_by_default: default.is_some_and(effects::is_safe_method) })
            }
            (kind, dialect, true) => {
                let name = dialect.as_deref().filter(|_| kind == "sql").unwrap_or(kind);
                ProgramLanguage::parse(name)
                    .map(Self::Text)
                    .ok_or_else(|| format!("`{name}` is not known; {}", shape()))
            }
            _ => Err(shape()),
        }
    }

    /// The class of what a text would do; none if it is not proved to be milder than the worst.
    pub(super) fn class(&self, text: &str, arguments: &Value) -> Option<SideEffectClass> {
        match self {
            Self::Text(language) => class::proved_class(*language, text),
            Self::Method { .. } => {
                let plain = !effects::asks_for_another_method(arguments) && !effects::breaks_out_of_request(arguments);
                (plain && effects::is_safe_method(text)).then_some(SideEffectClass::ReadOnly)
            }
            Self::Path(_) | Self::Url(_) => None,
        }
    }

    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Text(language) => language.name(),
            Self::Method { .. } => "http_method",
            Self::Path(_) => "path",
            Self::Url(_) => "url",
        }
    }

    pub(super) fn fault(&self, text: &str, reads_only: bool) -> Option<ProgramFault> {
        match self {
            Self::Text(_) | Self::Method { .. } if !reads_only => None,
            Self::Text(language) => {
                let verdict = effects::classify(*language, text);
                verdict.effect.may_change().then(|| ProgramFault {
                    expected: "a program that only reads".to_owned(),
                    actual: match &verdict.statement {
                        Some(statement) => format!("{} ({})", statement.kind, verdict.effect),
                        None => verdict.effect.to_string(),
                    },
                    message: match verdict.effect {
                        ProgramEffect::Unknown => format!("it is not certain that this only reads: {}", verdict.why),
                        _ => format!("this would change something: {}", verdict.why),
                    },
                })
            }
            Self::Method { .. } => (!effects::is_safe_method(text)).then(|| ProgramFault {
                expected: "GET, HEAD or OPTIONS".to_owned(),
                actual: "another method".to_owned(),
                message: "this tool only reads, and other methods than GET, HEAD and OPTIONS change something"
                    .to_owned(),
            }),
            Self::Path(roots) => roots.admit(text).err().map(|reason| ProgramFault {
                expected: "a path inside the folders that the contract names".to_owned(),
                actual: "another path".to_owned(),
                message: reason.to_string(),
            }),
            Self::Url(rules) => rules.admit(text).err().map(|reason| ProgramFault {
                expected: "a URL that the contract allows for this tool".to_owned(),
                actual: "another URL".to_owned(),
                message: reason.to_string(),
            }),
        }
    }

    /// The fault of a missing value, if there is one.
    pub(super) fn fault_of_none(&self, reads_only: bool) -> Option<ProgramFault> {
        match self {
            Self::Method { is_safe_by_default: false } if reads_only => Some(ProgramFault {
                expected: "GET, HEAD or OPTIONS".to_owned(),
                actual: "no method".to_owned(),
                message: "without a method the server chooses one, and this tool only reads: say `GET`".to_owned(),
            }),
            _ => None,
        }
    }
}

/// Whether a schema accepts values of one type, or that type and null, and nothing else.
pub(super) fn takes_only(schema: &Map<String, Value>, kind: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(written)) => written == kind,
        Some(Value::Array(kinds)) => {
            kinds.iter().any(|written| written == kind)
                && kinds.iter().all(|written| written == kind || written == "null")
        }
        _ => false,
    }
}

fn shape() -> String {
    format!("say {KINDS}, or an object with `kind`, and `dialect`, `roots`, `hosts` or `schemes`")
}

/// Whether a schema accepts texts, or texts and null, and nothing else.
fn is_text(schema: &Map<String, Value>) -> bool {
    let is_null = |schema: &Value| schema.get("type").is_some_and(|kind| kind == "null");
    let is_string = |schema: &Value| schema.get("type").is_some_and(|kind| kind == "string");
    // Generators write an optional text as `anyOf: [{type: string}, {type: null}]`.
    let either = ["anyOf", "oneOf"].iter().find_map(|keyword| schema.get(*keyword)).and_then(Value::as_array);
    takes_only(schema, "string")
        || either.is_some_and(|either| {
            either.iter().any(is_string) && either.iter().all(|one| is_string(one) || is_null(one))
        })
}
