//! The Cedar type of a tool's arguments, from the JSON Schema of its contract. An argument without a Cedar type is left out and
//! listed, so that a policy that looks at it fails validation instead of meaning something else.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::unseen::{UnseenArgument, UnseenPart, declared};

/// Types nested deeper than this are left out.
const DEPTH_MAX: usize = 12;
/// Further attributes of one tool are left out: definitions that refer to each other multiply.
const ATTRIBUTES_MAX: usize = 2_000;

/// The type of one value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ArgumentType {
    Text,
    Long,
    Bool,
    /// A number with up to four decimals, which is what Cedar holds exactly.
    Decimal,
    Set(Box<ArgumentType>),
    Record(BTreeMap<String, Attribute>),
}

/// A member of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attribute {
    pub kind: ArgumentType,
    /// Always present. An argument that may be `null` is not, because `null` counts as absent.
    pub required: bool,
    pub nullable: bool,
}

impl ArgumentType {
    /// Whether a value that fits the contract may not fit Cedar's type exactly.
    pub(crate) fn may_not_fit(&self) -> bool {
        match self {
            Self::Text | Self::Bool => false,
            Self::Long | Self::Decimal => true,
            Self::Set(items) => items.may_not_fit(),
            Self::Record(members) => members.values().any(|member| member.kind.may_not_fit()),
        }
    }
}

/// An argument that policies cannot see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UntypedArgument {
    /// The tool.
    pub tool: String,
    /// Where in the arguments, as a JSON Pointer; `*` stands for every item.
    pub pointer: String,
    /// The reason.
    pub reason: String,
}

/// The type of a tool's arguments, and what is left out of it with the reason.
pub(crate) fn arguments_of(schema: &Value) -> (BTreeMap<String, Attribute>, Vec<UnseenArgument>) {
    let mut reading = ArgumentTypeReader { root: schema, left_out: Vec::new(), attributes: 0, following: Vec::new() };
    let members = reading.record(schema, &[], 0);
    (members, reading.left_out)
}

struct ArgumentTypeReader<'a> {
    root: &'a Value,
    left_out: Vec<UnseenArgument>,
    attributes: usize,
    /// The references that are currently being followed.
    following: Vec<String>,
}

/// A type, and whether `null` is allowed instead. `None` for a schema of `null` alone.
type NullableType = (Option<ArgumentType>, bool);

impl ArgumentTypeReader<'_> {
    fn record(&mut self, schema: &Value, at: &[String], depth: usize) -> BTreeMap<String, Attribute> {
        self.leave_out_others(schema, at);
        let required: Vec<&str> =
            schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        let empty = Map::new();
        let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
        let mut members = BTreeMap::new();
        for (name, inner) in properties {
            let member = [at, std::slice::from_ref(name)].concat();
            self.attributes += 1;
            if self.attributes > ATTRIBUTES_MAX {
                let reason = format!("the tool has more than {ATTRIBUTES_MAX} attributes");
                self.leave_out(&member, reason, UnseenPart::Whole);
                continue;
            }
            match self.typed(inner, &member, depth + 1) {
                Ok((Some(kind), nullable)) => {
                    let required = required.contains(&name.as_str()) && !nullable;
                    members.insert(name.clone(), Attribute { kind, required, nullable });
                }
                Ok((None, _)) => self.leave_out(&member, "it is always null".to_owned(), UnseenPart::Nothing),
                Err(reason) => self.leave_out(&member, reason, UnseenPart::Whole),
            }
        }
        members
    }

    /// Records members of an object that are declared outside its `properties`.
    fn leave_out_others(&mut self, schema: &Value, at: &[String]) {
        let own = schema.get("properties").and_then(Value::as_object);
        let but_for: BTreeSet<String> = own.into_iter().flat_map(Map::keys).cloned().collect();
        for keyword in ["$ref", "allOf", "anyOf", "oneOf", "if", "dependentSchemas", "patternProperties"] {
            let Some(value) = schema.get(keyword) else { continue };
            // `then` and `else` are keywords beside `if`.
            let beside = ["then", "else"].into_iter().filter(|_| keyword == "if");
            let parts = beside.filter_map(|word| Some((word.to_owned(), schema.get(word)?.clone())));
            let parts: Map<String, Value> = [(keyword.to_owned(), value.clone())].into_iter().chain(parts).collect();
            let part =
                UnseenPart::Others { names: declared(self.root, &Value::Object(parts)), but_for: but_for.clone() };
            self.leave_out(at, format!("what only `{keyword}` declares is not seen"), part);
        }
        // Undeclared members of the arguments themselves are checked when a call has one.
        let open = schema.get("additionalProperties").is_some_and(|others| *others != Value::Bool(false));
        if open && !at.is_empty() {
            let part = UnseenPart::Others { names: None, but_for };
            self.leave_out(at, "what only `additionalProperties` allows is not seen".to_owned(), part);
        }
    }

    fn typed(&mut self, schema: &Value, at: &[String], depth: usize) -> Result<NullableType, String> {
        if depth > DEPTH_MAX {
            return Err(format!("it is nested deeper than {DEPTH_MAX}"));
        }
        let Value::Object(members) = schema else { return Err("it may be anything".to_owned()) };
        match members.get("type") {
            Some(Value::String(kind)) => self.named(kind, schema, at, depth),
            Some(Value::Array(kinds)) => {
                let kinds: Vec<&str> = kinds.iter().filter_map(Value::as_str).collect();
                let some: Vec<&str> = kinds.iter().copied().filter(|kind| *kind != "null").collect();
                let nullable = some.len() < kinds.len();
                match some.as_slice() {
                    [] => Ok((None, true)),
                    [kind] => self.named(kind, schema, at, depth).map(|(kind, inner)| (kind, inner || nullable)),
                    _ => Err("it may be of several types".to_owned()),
                }
            }
            _ => self.read_untyped(members, at, depth),
        }
    }

    /// A schema without its own `type`.
    fn read_untyped(
        &mut self,
        members: &Map<String, Value>,
        at: &[String],
        depth: usize,
    ) -> Result<NullableType, String> {
        if let Some(reference) = members.get("$ref").and_then(Value::as_str) {
            return self.referred(reference, at, depth);
        }
        if let Some(Value::Array(one_of)) = members.get("anyOf").or_else(|| members.get("oneOf")) {
            return self.union(one_of, at, depth);
        }
        by_values(members)
    }

    fn referred(&mut self, reference: &str, at: &[String], depth: usize) -> Result<NullableType, String> {
        if self.following.iter().any(|followed| followed == reference) {
            return Err("it contains itself".to_owned());
        }
        let target = reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer)).cloned();
        let target = target.ok_or("its `$ref` leads nowhere")?;
        self.following.push(reference.to_owned());
        let typed = self.typed(&target, at, depth + 1);
        self.following.pop();
        typed
    }

    fn named(&mut self, kind: &str, schema: &Value, at: &[String], depth: usize) -> Result<NullableType, String> {
        let kind = match kind {
            "string" => ArgumentType::Text,
            "integer" => ArgumentType::Long,
            "boolean" => ArgumentType::Bool,
            "number" => ArgumentType::Decimal,
            "null" => return Ok((None, true)),
            "array" => self.set(schema, at, depth)?,
            "object" => {
                if schema.get("properties").and_then(Value::as_object).is_none_or(Map::is_empty) {
                    return Err("it is an object without declared members".to_owned());
                }
                ArgumentType::Record(self.record(schema, at, depth))
            }
            other => return Err(format!("`{other}` is not a type")),
        };
        Ok((Some(kind), false))
    }

    fn set(&mut self, schema: &Value, at: &[String], depth: usize) -> Result<ArgumentType, String> {
        if schema.get("prefixItems").is_some() {
            return Err("its items differ by position".to_owned());
        }
        let items = schema.get("items").ok_or("its items may be anything")?;
        match self.typed(items, &[at, &["*".to_owned()]].concat(), depth + 1)? {
            (Some(kind), false) => Ok(ArgumentType::Set(Box::new(kind))),
            _ => Err("its items may be null".to_owned()),
        }
    }

    /// Alternatives of one type are that type; `null` among them makes it optional.
    fn union(&mut self, one_of: &[Value], at: &[String], depth: usize) -> Result<NullableType, String> {
        let mut found: Option<ArgumentType> = None;
        let mut nullable = false;
        for inner in one_of {
            let (kind, null) = self.typed(inner, at, depth + 1)?;
            nullable |= null;
            match (kind, &found) {
                (None, _) => {}
                (Some(kind), None) => found = Some(kind),
                (Some(kind), Some(other)) if kind == *other => {}
                _ => return Err("it may be of several types".to_owned()),
            }
        }
        Ok((found, nullable))
    }

    fn leave_out(&mut self, path: &[String], reason: String, part: UnseenPart) {
        self.left_out.push(UnseenArgument { path: path.to_vec(), reason, part });
    }
}

/// Without a type, the allowed values determine it.
fn by_values(schema: &Map<String, Value>) -> Result<NullableType, String> {
    let single = schema.get("const").map(std::slice::from_ref);
    let Some(values) = single.or_else(|| schema.get("enum").and_then(Value::as_array).map(Vec::as_slice)) else {
        return Err("it may be anything".to_owned());
    };
    let mut kinds = values.iter().filter(|value| !value.is_null()).map(|value| match value {
        Value::String(_) => Some(ArgumentType::Text),
        Value::Bool(_) => Some(ArgumentType::Bool),
        Value::Number(number) if number.is_i64() || number.is_u64() => Some(ArgumentType::Long),
        _ => None,
    });
    let nullable = values.iter().any(Value::is_null);
    let Some(first) = kinds.next() else { return Ok((None, nullable)) };
    match first.filter(|first| kinds.all(|kind| kind.as_ref() == Some(first))) {
        Some(kind) => Ok((Some(kind), nullable)),
        None => Err("its values are of several types".to_owned()),
    }
}
