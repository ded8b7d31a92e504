//! Arguments that are programs, requests, paths or URLs: which ones a contract says there are (`x-effect` in its input schema), and
//! whether the tool may do what they would do. `servanda-identity` decides what a text means. A keyword in a place where it cannot be
//! enforced is an error of the contract.

use serde::Deserialize;
use serde_json::{Map, Value};
use servanda_contract::{
    FieldError,
    json::CanonicalBytes,
    tool::{Mutability, SideEffectClass, ToolContract},
};
use servanda_identity::effects::{self, Destination, Effect, Language, Roots, UrlRules};

use super::{keyword, program_class};

/// What the schema says an argument is: the keyword of an input schema.
pub const KEYWORD: &str = "x-effect";
/// How deep inside of the arguments one can be.
const DEPTH_MAX: usize = 8;

/// Why the keyword cannot be enforced as an input schema says it; empty if it can.
pub fn unenforced_programs(schema: &Map<String, Value>) -> Vec<String> {
    Programs::compile(schema).err().unwrap_or_default()
}

/// The arguments of a contract that are more than data.
#[derive(Debug, Default)]
pub(crate) struct Programs(Vec<Program>);

/// An argument that is more than data, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramArgument {
    /// Where: `query`, `steps[].sql`.
    pub place: String,
    /// What it is: `sqlite`, `shell`, `http_method`, `path`, `url`.
    pub kind: &'static str,
}

#[derive(Debug)]
struct Program {
    place: Vec<Step>,
    kind: ProgramKind,
    /// Whether the tool does what this text says and nothing else.
    decides_class: bool,
}

#[derive(Debug, Clone)]
enum Step {
    Member(String),
    Each,
}

#[derive(Debug)]
enum ProgramKind {
    Text(Language),
    /// The method of a request, and whether a request without a method is sent with a method that only reads.
    Method {
        is_safe_by_default: bool,
    },
    Path(Roots),
    Url(UrlRules),
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
    #[serde(default)]
    schemes: Vec<String>,
    #[serde(default)]
    hosts: Vec<String>,
    #[serde(default)]
    decides_class: bool,
}

impl Full {
    fn of(kind: String) -> Self {
        let (roots, schemes, hosts) = (Vec::new(), Vec::new(), Vec::new());
        Self { kind, dialect: None, roots, schemes, hosts, decides_class: false }
    }
}

impl Programs {
    /// Finds them in an input schema; the error has a reason for each that is not understood.
    pub(crate) fn compile(schema: &Map<String, Value>) -> Result<Self, Vec<String>> {
        let (mut programs, mut reasons) = (Self::default(), Vec::new());
        programs.walk(schema, &mut Vec::new(), &mut reasons);
        let enforced: Vec<String> = programs.0.iter().map(|program| dotted(&program.place)).collect();
        let places = keyword::places(schema, KEYWORD);
        if !places.is_empty() {
            reasons.extend(keyword::wandering_references(schema).into_iter().map(|place| {
                format!(
                    "input_schema{place}: a reference beside {KEYWORD} may only lead to `#/$defs/…`: another one leads to where it is not \
                     enforced"
                )
            }));
        }
        reasons.extend(keyword::misspelt(schema, KEYWORD).into_iter().map(|(place, written)| {
            format!("input_schema{place}: `{written}` is not read: the keyword is written `{KEYWORD}`")
        }));
        for place in places {
            let told = |reason: &String| reason.starts_with(&format!("input_schema{place}: "));
            if !enforced.contains(&place) && !reasons.iter().any(told) {
                reasons.push(format!(
                    "input_schema{place}: {KEYWORD} is not enforced here: say it at a property, or at the items of an array, that is \
                     reached by `properties` (of a `type: object`) and `items` (of a `type: array`) alone"
                ));
            }
        }
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
            let mut judge = |pointer: &str, value: Option<&Value>| {
                let fault = match (value, &program.kind) {
                    (Some(Value::String(text)), kind) => kind.fault(text, reads_only),
                    (None | Some(Value::Null), kind) => kind.fault_of_none(reads_only),
                    // The schema requires a text, so another value is a fault.
                    (Some(_), _) => Some(Fault::not_a_text()),
                };
                errors.extend(fault.map(|fault| fault.at(pointer)));
            };
            visit(&program.place, Some(&arguments), &mut String::new(), &mut judge);
        }
        if let Some(method) = self.method().filter(|_| reads_only && errors.is_empty()) {
            let fault = if effects::asks_for_another_method(&arguments) {
                Some(Fault::overridden())
            } else {
                effects::breaks_out_of_request(&arguments).then(Fault::another_request)
            };
            errors.extend(fault.map(|fault| fault.at(&pointer_of(&method.place))));
        }
        errors
    }

    /// Whether the program that a call brings decides how grave the call is.
    pub(crate) fn decide_class(&self) -> bool {
        self.0.iter().any(|program| program.decides_class)
    }

    /// The class of a call with these arguments, where the contract says that its program decides: the gravest that is proved of every
    /// such program. Nothing where that is not milder than the contract's, as for a program that is missing or not fully understood.
    pub(crate) fn class(&self, contract: &ToolContract, arguments: &[u8]) -> Option<SideEffectClass> {
        if !self.decide_class() {
            return None;
        }
        let declared = contract.transactional.side_effect_class;
        let deciding = self.0.iter().filter(|program| program.decides_class);
        let parsed = serde_json::from_slice::<Value>(arguments).ok()?;
        let mut gravest = SideEffectClass::ReadOnly;
        for program in deciding {
            let mut weigh = |_: &str, value: Option<&Value>| {
                let proved = value.and_then(Value::as_str).and_then(|text| program.kind.class(text, &parsed));
                gravest = gravest.max(proved.unwrap_or(declared));
            };
            visit(&program.place, Some(&parsed), &mut String::new(), &mut weigh);
        }
        (gravest < declared).then_some(gravest)
    }

    /// Where the URLs among the arguments lead, with the JSON Pointer of each. URLs whose text is refused are left out.
    pub(crate) fn destinations(&self, arguments: &CanonicalBytes) -> Vec<(String, Destination)> {
        let urls = self.0.iter().filter_map(|program| match &program.kind {
            ProgramKind::Url(rules) => Some((&program.place, rules)),
            _ => None,
        });
        let mut found = Vec::new();
        let mut parsed: Option<Value> = None;
        for (place, rules) in urls {
            let arguments =
                &*parsed.get_or_insert_with(|| serde_json::from_slice(arguments.bytes()).unwrap_or_default());
            let mut see = |pointer: &str, value: Option<&Value>| {
                let admitted = value.and_then(Value::as_str).and_then(|text| rules.admit(text).ok());
                found.extend(admitted.map(|destination| (pointer.to_owned(), destination)));
            };
            visit(place, Some(arguments), &mut String::new(), &mut see);
        }
        found
    }

    fn method(&self) -> Option<&Program> {
        self.0.iter().find(|program| matches!(program.kind, ProgramKind::Method { .. }))
    }

    fn walk(&mut self, schema: &Map<String, Value>, place: &mut Vec<Step>, reasons: &mut Vec<String>) {
        if let Some(written) = schema.get(KEYWORD) {
            match ProgramKind::read(written, schema) {
                Ok((kind, decides_class)) => self.0.push(Program { place: place.clone(), kind, decides_class }),
                Err(reason) => reasons.push(format!("input_schema{}: {KEYWORD}: {reason}", dotted(place))),
            }
        }
        if place.len() >= DEPTH_MAX {
            return;
        }
        // Only objects and arrays are looked into, so the keyword inside is enforced only if the schema says the type.
        let holds = |kind: &str| place.is_empty() || takes_only(schema, kind);
        let (is_object, is_array) = (holds("object"), holds("array"));
        let mut inside = |step: Step, schema: &Value| {
            if let Some(schema) = schema.as_object() {
                place.push(step);
                self.walk(schema, place, reasons);
                place.pop();
            }
        };
        if let Some(properties) = schema.get("properties").and_then(Value::as_object).filter(|_| is_object) {
            for (name, property) in properties {
                inside(Step::Member(name.clone()), property);
            }
        }
        if let Some(items) = schema.get("items").filter(|_| is_array) {
            inside(Step::Each, items);
        }
    }
}

/// What is wrong with one argument.
struct Fault {
    expected: String,
    actual: String,
    message: String,
}

fn shape() -> String {
    format!("say {KINDS}, or an object with `kind`, and `dialect`, `roots`, `hosts` or `schemes`")
}

impl ProgramKind {
    /// What it is, and whether it decides the class of a call.
    fn read(written: &Value, schema: &Map<String, Value>) -> Result<(Self, bool), String> {
        if !is_text(schema) {
            return Err("only a text can be read: the property needs `type: string`".to_owned());
        }
        let full = match serde_json::from_value(written.clone()).map_err(|_| shape())? {
            Written::Word(kind) => Full::of(kind),
            Written::Full(full) => full,
        };
        let decides = full.decides_class;
        let kind = Self::of(full, schema)?;
        if decides && !matches!(kind, Self::Text(_) | Self::Method { .. }) {
            return Err("`decides_class` is of a program or a method: a place decides nothing".to_owned());
        }
        Ok((kind, decides))
    }

    fn of(written: Full, schema: &Map<String, Value>) -> Result<Self, String> {
        let Full { kind, dialect, roots, schemes, hosts, decides_class: _ } = written;
        if kind == "url" && dialect.is_none() && roots.is_empty() {
            return UrlRules::new(&schemes, &hosts).map(Self::Url);
        }
        if !schemes.is_empty() || !hosts.is_empty() {
            return Err(format!("`schemes` and `hosts` are of a `url`; {}", shape()));
        }
        match (kind.as_str(), dialect, roots.is_empty()) {
            ("path", None, false) => {
                Roots::new(roots.iter().map(String::as_str)).map(Self::Path).map_err(|reason| reason.to_string())
            }
            ("path", ..) => Err("a path needs `roots`, the folders it may be in".to_owned()),
            ("http_method", None, true) => {
                let default = schema.get("default").and_then(Value::as_str);
                Ok(Self::Method { is_safe_by_default: default.is_some_and(effects::is_safe_method) })
            }
            (kind, dialect, true) => {
                let name = dialect.as_deref().filter(|_| kind == "sql").unwrap_or(kind);
                Language::parse(name).map(Self::Text).ok_or_else(|| format!("`{name}` is not known; {}", shape()))
            }
            _ => Err(shape()),
        }
    }

    /// The class of what a text would do; nothing where it is not proved to be less than the worst.
    fn class(&self, text: &str, arguments: &Value) -> Option<SideEffectClass> {
        match self {
            Self::Text(language) => program_class::of(*language, text),
            Self::Method { .. } => {
                let plain = !effects::asks_for_another_method(arguments) && !effects::breaks_out_of_request(arguments);
                (plain && effects::is_safe_method(text)).then_some(SideEffectClass::ReadOnly)
            }
            Self::Path(_) | Self::Url(_) => None,
        }
    }

    const fn name(&self) -> &'static str {
        match self {
            Self::Text(language) => language.name(),
            Self::Method { .. } => "http_method",
            Self::Path(_) => "path",
            Self::Url(_) => "url",
        }
    }

    fn fault(&self, text: &str, reads_only: bool) -> Option<Fault> {
        match self {
            Self::Text(_) | Self::Method { .. } if !reads_only => None,
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
            Self::Method { .. } => (!effects::is_safe_method(text)).then(|| Fault {
                expected: "GET, HEAD or OPTIONS".to_owned(),
                actual: "another method".to_owned(),
                message: "this tool only reads, and other methods than GET, HEAD and OPTIONS change something"
                    .to_owned(),
            }),
            Self::Path(roots) => roots.admit(text).err().map(|reason| Fault {
                expected: "a path inside of the folders that the contract names".to_owned(),
                actual: "another path".to_owned(),
                message: reason.to_string(),
            }),
            Self::Url(rules) => rules.admit(text).err().map(|reason| Fault {
                expected: "a URL that the contract lets this tool be sent to".to_owned(),
                actual: "another URL".to_owned(),
                message: reason.to_string(),
            }),
        }
    }

    /// The fault of a missing value, if there is one.
    fn fault_of_none(&self, reads_only: bool) -> Option<Fault> {
        match self {
            Self::Method { is_safe_by_default: false } if reads_only => Some(Fault {
                expected: "GET, HEAD or OPTIONS".to_owned(),
                actual: "no method".to_owned(),
                message: "without a method the server chooses one, and this tool only reads: say `GET`".to_owned(),
            }),
            _ => None,
        }
    }
}

const KINDS: &str = "`sql`, `postgresql`, `sqlite`, `mysql`, `shell`, `http_method` or `url`";

/// Whether a schema takes values of one type, or that and null, and nothing else.
fn takes_only(schema: &Map<String, Value>, kind: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(written)) => written == kind,
        Some(Value::Array(kinds)) => {
            kinds.iter().any(|written| written == kind)
                && kinds.iter().all(|written| written == kind || written == "null")
        }
        _ => false,
    }
}

/// Whether a schema takes texts, or texts and null, and nothing else.
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

impl Fault {
    fn another_request() -> Self {
        Self {
            expected: "arguments of one HTTP request".to_owned(),
            actual: "a text with line ends or other control characters outside the body, or with another protocol"
                .to_owned(),
            message: "a text among the arguments would end the request or send it by another protocol".to_owned(),
        }
    }

    fn overridden() -> Self {
        Self {
            expected: "a request that is taken for what it is sent as".to_owned(),
            actual: "a header or a parameter that asks for another method".to_owned(),
            message: "the arguments ask the server to take the request for another method, and this tool only reads"
                .to_owned(),
        }
    }

    fn not_a_text() -> Self {
        Self {
            expected: "a text".to_owned(),
            actual: "something else".to_owned(),
            message: "what this would do can only be read from a text".to_owned(),
        }
    }

    fn at(self, pointer: &str) -> FieldError {
        let field = pointer.trim_start_matches('/').replace('/', ".");
        let message = format!("`{field}`: {}", self.message);
        let (expected, actual, pointer) = (self.expected, self.actual, pointer.to_owned());
        FieldError { field, pointer, expected, actual, message, did_you_mean: None }
    }
}

/// Shows every value at a place, with its JSON Pointer; none if the value, or the object or array around it, is missing or empty. If
/// the value around it has another type, that value is shown instead.
fn visit(place: &[Step], value: Option<&Value>, pointer: &mut String, see: &mut dyn FnMut(&str, Option<&Value>)) {
    let (whole, Some((step, rest))) = (pointer.len(), place.split_first()) else { return see(pointer, value) };
    match (step, value) {
        (_, None | Some(Value::Null)) => see(pointer, None),
        (Step::Member(name), Some(value @ Value::Object(_))) => {
            pointer.push('/');
            pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
            visit(rest, value.get(name), pointer, see);
        }
        (Step::Each, Some(Value::Array(items))) if items.is_empty() => see(pointer, None),
        (Step::Each, Some(Value::Array(items))) => {
            for (number, item) in items.iter().enumerate() {
                pointer.truncate(whole);
                pointer.push('/');
                pointer.push_str(&number.to_string());
                visit(rest, Some(item), pointer, see);
            }
        }
        (_, other) => see(pointer, other),
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

/// The JSON Pointer of a place, as far as it does not depend on the value.
fn pointer_of(place: &[Step]) -> String {
    let members = place.iter().map_while(|step| match step {
        Step::Member(name) => Some(format!("/{}", name.replace('~', "~0").replace('/', "~1"))),
        Step::Each => None,
    });
    members.collect()
}

fn dotted(place: &[Step]) -> String {
    let name = |step: &Step| match step {
        Step::Member(name) => format!(".properties.{}", keyword::step_name(name)),
        Step::Each => ".items".to_owned(),
    };
    place.iter().map(name).collect()
}
