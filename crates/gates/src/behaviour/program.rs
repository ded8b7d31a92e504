//! Arguments that are programs, requests or paths: which ones a contract says there are (`x-effect` in its input schema), and
//! whether what they would do is what the tool may do. What the text means is `servanda-identity`'s to say.

use serde::Deserialize;
use serde_json::{Map, Value};
use servanda_contract::{
    FieldError,
    json::CanonicalBytes,
    tool::{Mutability, ToolContract},
};
use servanda_identity::effects::{self, Effect, Language, Roots};

/// What the schema says an argument is: the keyword of an input schema.
pub const KEYWORD: &str = "x-effect";
/// How deep inside of the arguments one can be.
const DEPTH_MAX: usize = 8;

/// The arguments of a contract that are more than data.
#[derive(Debug, Default)]
pub(crate) struct Programs(Vec<Program>);

/// An argument that is more than data, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramArgument {
    /// Where: `query`, `steps[].sql`.
    pub place: String,
    /// What it is: `sqlite`, `shell`, `http_method`, `path`.
    pub kind: &'static str,
}

#[derive(Debug)]
struct Program {
    place: Vec<Step>,
    kind: ProgramKind,
}

#[derive(Debug, Clone)]
enum Step {
    Member(String),
    Each,
}

#[derive(Debug)]
enum ProgramKind {
    Text(Language),
    /// The method of a request.
    Method,
    Path(Roots),
}

/// As it is written: a word, or an object with more.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Word(String),
    Full(Full),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Full {
    kind: String,
    #[serde(default)]
    dialect: Option<String>,
    #[serde(default)]
    roots: Vec<String>,
}

impl Programs {
    /// Finds them in an input schema; the error has a reason for each that is not understood.
    pub(crate) fn compile(schema: &Map<String, Value>) -> Result<Self, Vec<String>> {
        let (mut programs, mut reasons) = (Self::default(), Vec::new());
        programs.walk(schema, &mut Vec::new(), &mut reasons);
        if reasons.is_empty() { Ok(programs) } else { Err(reasons) }
    }

    /// Which there are.
    pub(crate) fn named(&self) -> impl Iterator<Item = ProgramArgument> {
        self.0.iter().map(|program| ProgramArgument { place: named(&program.place), kind: program.kind.name() })
    }

    /// The one argument that takes SQL, and its dialect; the error says why there is not exactly one.
    pub(crate) fn sql_argument(&self) -> Result<(&str, Language), String> {
        let mut takes = self.0.iter().filter_map(|program| match (&program.kind, program.place.as_slice()) {
            (ProgramKind::Text(language @ Language::Sql(_)), [Step::Member(name)]) => Some((name.as_str(), *language)),
            _ => None,
        });
        match (takes.next(), takes.next()) {
            (Some(found), None) => Ok(found),
            (None, _) => Err(format!("has no argument that its contract says is SQL (`{KEYWORD}: sql`)")),
            (Some(_), Some(_)) => Err("has more than one argument that is SQL".to_owned()),
        }
    }

    /// What a tool with this contract may not be asked.
    pub(crate) fn violations(&self, contract: &ToolContract, arguments: &CanonicalBytes) -> Vec<FieldError> {
        if self.0.is_empty() {
            return Vec::new();
        }
        // They are JSON of our own making.
        let Ok(arguments) = serde_json::from_slice::<Value>(arguments.bytes()) else { return Vec::new() };
        let reads_only = contract.mutability() == Mutability::Pure;
        let mut errors = Vec::new();
        for program in &self.0 {
            let mut judge = |pointer: &str, value: &Value| {
                errors.extend(
                    value.as_str().and_then(|text| program.kind.fault(text, reads_only)).map(|fault| fault.at(pointer)),
                );
            };
            visit(&program.place, &arguments, &mut String::new(), &mut judge);
        }
        errors
    }

    fn walk(&mut self, schema: &Map<String, Value>, place: &mut Vec<Step>, reasons: &mut Vec<String>) {
        if let Some(written) = schema.get(KEYWORD) {
            match ProgramKind::read(written) {
                Ok(kind) => self.0.push(Program { place: place.clone(), kind }),
                Err(reason) => reasons.push(format!("input_schema{}: {KEYWORD}: {reason}", dotted(place))),
            }
        }
        if place.len() >= DEPTH_MAX {
            return;
        }
        let mut inside = |step: Step, schema: &Value| {
            if let Some(schema) = schema.as_object() {
                place.push(step);
                self.walk(schema, place, reasons);
                place.pop();
            }
        };
        if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
            for (name, property) in properties {
                inside(Step::Member(name.clone()), property);
            }
        }
        if let Some(items) = schema.get("items") {
            inside(Step::Each, items);
        }
    }
}

/// Removes the keyword where it would be read. A property of that name is a property.
pub fn forget_programs(schema: &mut Map<String, Value>) {
    schema.remove(KEYWORD);
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    properties.into_iter().flat_map(Map::values_mut).filter_map(Value::as_object_mut).for_each(forget_programs);
    schema.get_mut("items").and_then(Value::as_object_mut).into_iter().for_each(forget_programs);
}

/// What is wrong with one argument.
struct Fault {
    expected: String,
    actual: String,
    message: String,
}

impl ProgramKind {
    fn read(written: &Value) -> Result<Self, String> {
        let shape = || format!("say {KINDS}, or an object with `kind`, and `dialect` or `roots`");
        let written = serde_json::from_value(written.clone()).map_err(|_| shape())?;
        let Full { kind, dialect, roots } = match written {
            Written::Word(kind) => Full { kind, dialect: None, roots: Vec::new() },
            Written::Full(full) => full,
        };
        match (kind.as_str(), dialect, roots.is_empty()) {
            ("path", None, false) => {
                Roots::new(roots.iter().map(String::as_str)).map(Self::Path).map_err(|reason| reason.to_string())
            }
            ("path", ..) => Err("a path needs `roots`, the folders it may be in".to_owned()),
            ("http_method", None, true) => Ok(Self::Method),
            (kind, dialect, true) => {
                let name = dialect.as_deref().filter(|_| kind == "sql").unwrap_or(kind);
                Language::parse(name).map(Self::Text).ok_or_else(|| format!("`{name}` is not known; {}", shape()))
            }
            _ => Err(shape()),
        }
    }

    const fn name(&self) -> &'static str {
        match self {
            Self::Text(language) => language.name(),
            Self::Method => "http_method",
            Self::Path(_) => "path",
        }
    }

    fn fault(&self, text: &str, reads_only: bool) -> Option<Fault> {
        match self {
            Self::Text(_) | Self::Method if !reads_only => None,
            Self::Text(language) => {
                let verdict = effects::classify(*language, text);
                verdict.effect.may_change().then(|| Fault {
                    expected: "a program that only reads".to_owned(),
                    actual: match &verdict.statement {
                        Some(statement) => format!("{} ({})", statement.kind, verdict.effect),
                        None => verdict.effect.to_string(),
                    },
                    message: match verdict.effect {
                        Effect::Unknown => format!("it cannot be told that this only reads: {}", verdict.why),
                        _ => format!("this would change something: {}", verdict.why),
                    },
                })
            }
            Self::Method => {
                let reads = ["GET", "HEAD", "OPTIONS"].iter().any(|method| text.eq_ignore_ascii_case(method));
                (!reads).then(|| Fault {
                    expected: "GET, HEAD or OPTIONS".to_owned(),
                    actual: "another method".to_owned(),
                    message: "this tool only reads, and other methods than GET, HEAD and OPTIONS change something"
                        .to_owned(),
                })
            }
            Self::Path(roots) => roots.admit(text).err().map(|reason| Fault {
                expected: "a path inside of the folders that the contract names".to_owned(),
                actual: "another path".to_owned(),
                message: reason.to_string(),
            }),
        }
    }
}

const KINDS: &str = "`sql`, `postgresql`, `sqlite`, `mysql`, `shell` or `http_method`";

impl Fault {
    fn at(self, pointer: &str) -> FieldError {
        let field = pointer.trim_start_matches('/').replace('/', ".");
        let message = format!("`{field}`: {}", self.message);
        let (expected, actual, pointer) = (self.expected, self.actual, pointer.to_owned());
        FieldError { field, pointer, expected, actual, message, did_you_mean: None }
    }
}

/// Every value at a place, with its JSON Pointer.
fn visit(place: &[Step], value: &Value, pointer: &mut String, see: &mut dyn FnMut(&str, &Value)) {
    let (whole, Some((step, rest))) = (pointer.len(), place.split_first()) else { return see(pointer, value) };
    match step {
        Step::Member(name) => {
            if let Some(member) = value.get(name) {
                pointer.push('/');
                pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
                visit(rest, member, pointer, see);
            }
        }
        Step::Each => {
            for (number, item) in value.as_array().into_iter().flatten().enumerate() {
                pointer.truncate(whole);
                pointer.push('/');
                pointer.push_str(&number.to_string());
                visit(rest, item, pointer, see);
            }
        }
    }
    pointer.truncate(whole);
}

fn named(place: &[Step]) -> String {
    let mut name = String::new();
    for step in place {
        match step {
            Step::Member(member) if name.is_empty() => name.push_str(member),
            Step::Member(member) => name.extend([".", member]),
            Step::Each => name.push_str("[]"),
        }
    }
    name
}

fn dotted(place: &[Step]) -> String {
    let name = |step: &Step| match step {
        Step::Member(name) => format!(".properties.{name}"),
        Step::Each => ".items".to_owned(),
    };
    place.iter().map(name).collect()
}
