//! Arguments that are programs, requests, paths or URLs: which ones a contract declares (`x-effect` in its
//! input schema), and whether the tool may do what they would do. `servanda-identity` decides what a text
//! means. A keyword in a place where it cannot be enforced is an error in the contract.

mod argument_path;
mod class;
mod fault;
mod keyword;
mod kind;

use serde_json::{Map, Value};
use servanda_contract::{
    FieldError,
    json::CanonicalBytes,
    tool::{Mutability, SideEffectClass, ToolContract},
};
use servanda_identity::effects::{self, ProgramLanguage, UrlDestination};

pub use keyword::{KEYWORD as EFFECT_KEYWORD, forget_programs};

use argument_path::{ArgumentPath, ArgumentPathSegment};
use fault::ProgramFault;
use keyword::KEYWORD;
use kind::{ProgramKind, takes_only};

/// How deep inside the arguments such an argument can be.
const DEPTH_MAX: usize = 8;

/// Why the keyword cannot be enforced where an input schema has it; empty if it can.
pub fn unenforced_programs(schema: &Map<String, Value>) -> Vec<String> {
    Programs::compile(schema).err().unwrap_or_default()
}

/// The arguments of a contract that are more than data.
#[derive(Debug, Default)]
pub(crate) struct Programs(Vec<CompiledProgram>);

/// An argument that is more than data, described for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramArgument {
    /// Its place: `query`, `steps[].sql`.
    pub place: String,
    /// Its kind: `sqlite`, `shell`, `http_method`, `path`, `url`.
    pub kind: &'static str,
}

#[derive(Debug)]
struct CompiledProgram {
    place: ArgumentPath,
    kind: ProgramKind,
    /// Whether the tool does what this text says and nothing else.
    decides_class: bool,
}

impl Programs {
    /// Finds them in an input schema. The error has a reason for each that is not understood.
    pub(crate) fn compile(schema: &Map<String, Value>) -> Result<Self, Vec<String>> {
        let (mut programs, mut reasons) = (Self::default(), Vec::new());
        programs.walk(schema, &mut ArgumentPath::default(), &mut reasons);
        let enforced: Vec<String> = programs.0.iter().map(|program| program.place.dotted()).collect();
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

    /// All such arguments.
    pub(crate) fn named(&self) -> impl Iterator<Item = ProgramArgument> {
        self.0.iter().map(|program| ProgramArgument { place: program.place.named(), kind: program.kind.name() })
    }

    /// The one argument that takes SQL, and its dialect. The error says why there is not exactly one.
    pub(crate) fn sql_argument(&self) -> Result<(&str, ProgramLanguage), String> {
        let mut takes = self.0.iter().filter_map(|program| match (&program.kind, program.place.steps()) {
            (ProgramKind::Text(language @ ProgramLanguage::Sql(_)), [ArgumentPathSegment::Member(name)]) => {
                Some((name.as_str(), *language))
            }
            _ => None,
        });
        match (takes.next(), takes.next()) {
            (Some(found), None) => Ok(found),
            (None, _) => Err(format!("has no argument that its contract says is SQL (`{KEYWORD}: sql`)")),
            (Some(_), Some(_)) => Err("has more than one argument that is SQL".to_owned()),
        }
    }

    /// The arguments that a tool with this contract may not be called with.
    pub(crate) fn violations(&self, contract: &ToolContract, arguments: &CanonicalBytes) -> Vec<FieldError> {
        if self.0.is_empty() {
            return Vec::new();
        }
        // Canonical arguments are always JSON.
        let Ok(arguments) = serde_json::from_slice::<Value>(arguments.bytes()) else { return Vec::new() };
        let reads_only = contract.mutability() == Mutability::Pure;
        let mut errors = Vec::new();
        for program in &self.0 {
            let mut judge = |pointer: &str, value: Option<&Value>| {
                let fault = match (value, &program.kind) {
                    (Some(Value::String(text)), kind) => kind.fault(text, reads_only),
                    (None | Some(Value::Null), kind) => kind.fault_of_none(reads_only),
                    // The schema requires a text, so any other value is a fault.
                    (Some(_), _) => Some(ProgramFault::not_a_text()),
                };
                errors.extend(fault.map(|fault| fault.at(pointer)));
            };
            program.place.visit(&arguments, &mut judge);
        }
        if let Some(method) = self.method().filter(|_| reads_only && errors.is_empty()) {
            let fault = if effects::asks_for_another_method(&arguments) {
                Some(ProgramFault::overridden())
            } else {
                effects::breaks_out_of_request(&arguments).then(ProgramFault::another_request)
            };
            errors.extend(fault.map(|fault| fault.at(&method.place.pointer())));
        }
        errors
    }

    /// Whether the program in a call's arguments decides the class of the call.
    pub(crate) fn decide_class(&self) -> bool {
        self.0.iter().any(|program| program.decides_class)
    }

    /// The class of a call with these arguments, if the contract says that its program decides: the gravest
    /// class that is proved among all such programs. None if that is not milder than the contract's class, or
    /// if a program is missing or not fully understood.
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
            program.place.visit(&parsed, &mut weigh);
        }
        (gravest < declared).then_some(gravest)
    }

    /// Whether an argument may be a URL.
    pub(crate) fn has_urls(&self) -> bool {
        self.0.iter().any(|program| matches!(program.kind, ProgramKind::Url(_)))
    }

    /// The destinations of the URLs in the arguments, with the JSON Pointer of each. URLs whose text is refused
    /// are left out.
    pub(crate) fn destinations(&self, arguments: &CanonicalBytes) -> Vec<(String, UrlDestination)> {
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
            place.visit(arguments, &mut see);
        }
        found
    }

    fn method(&self) -> Option<&CompiledProgram> {
        self.0.iter().find(|program| matches!(program.kind, ProgramKind::Method { .. }))
    }

    fn walk(&mut self, schema: &Map<String, Value>, place: &mut ArgumentPath, reasons: &mut Vec<String>) {
        if let Some(written) = schema.get(KEYWORD) {
            match ProgramKind::read(written, schema) {
                Ok((kind, decides_class)) => self.0.push(CompiledProgram { place: place.clone(), kind, decides_class }),
                Err(reason) => reasons.push(format!("input_schema{}: {KEYWORD}: {reason}", place.dotted())),
            }
        }
        if place.depth() >= DEPTH_MAX {
            return;
        }
        // Only objects and arrays are searched, so the keyword inside is enforced only if the schema states the
        // type.
        let holds = |kind: &str| place.depth() == 0 || takes_only(schema, kind);
        let (is_object, is_array) = (holds("object"), holds("array"));
        let mut inside = |step: ArgumentPathSegment, schema: &Value| {
            if let Some(schema) = schema.as_object() {
                place.push(step);
                self.walk(schema, place, reasons);
                place.pop();
            }
        };
        if let Some(properties) = schema.get("properties").and_then(Value::as_object).filter(|_| is_object) {
            for (name, property) in properties {
                inside(ArgumentPathSegment::Member(name.clone()), property);
            }
        }
        if let Some(items) = schema.get("items").filter(|_| is_array) {
            inside(ArgumentPathSegment::Each, items);
        }
    }
}
