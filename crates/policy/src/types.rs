//! The Cedar type of a tool's arguments, from the JSON Schema of its contract. What Cedar has no type for is left out and
//! listed, so that a policy that looks at it does not validate instead of meaning something else.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Types nested deeper than this are left out.
const DEPTH_MAX: usize = 12;
/// Attributes of one tool beyond this are left out: definitions that refer to each other multiply.
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
    /// Always there. What may be `null` is not: `null` counts as absent.
    pub required: bool,
    pub nullable: bool,
}

/// An argument that policies cannot see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Untyped {
    /// The tool.
    pub tool: String,
    /// Where in the arguments, as a JSON Pointer; `*` stands for every item.
    pub pointer: String,
    /// Why.
    pub reason: String,
}

/// The type of a tool's arguments, and what is left out of it with the reason.
pub(crate) fn arguments_of(schema: &Value) -> (BTreeMap<String, Attribute>, Vec<(String, String)>) {
    let mut reading = Reading { root: schema, left_out: Vec::new(), attributes: 0, following: Vec::new() };
    let members = reading.record(schema, "", 0);
    (members, reading.left_out)
}

struct Reading<'a> {
    root: &'a Value,
    left_out: Vec<(String, String)>,
    attributes: usize,
    /// The references that are being followed.
    following: Vec<String>,
}

/// A type, and whether `null` may stand in its place. None is a schema of `null` alone.
type Typed = (Option<ArgumentType>, bool);

impl Reading<'_> {
    fn record(&mut self, schema: &Value, at: &str, depth: usize) -> BTreeMap<String, Attribute> {
        for keyword in ["$ref", "allOf", "anyOf", "oneOf", "if", "dependentSchemas", "patternProperties"] {
            if schema.get(keyword).is_some() {
                self.leave_out(at, format!("what only `{keyword}` declares is not seen"));
            }
        }
        let required: Vec<&str> =
            schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        let empty = Map::new();
        let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
        let mut members = BTreeMap::new();
        for (name, inner) in properties {
            let pointer = format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
            self.attributes += 1;
            if self.attributes > ATTRIBUTES_MAX {
                self.leave_out(&pointer, format!("the tool has more than {ATTRIBUTES_MAX} attributes"));
                break;
            }
            match self.typed(inner, &pointer, depth + 1) {
                Ok((Some(kind), nullable)) => {
                    let required = required.contains(&name.as_str()) && !nullable;
                    members.insert(name.clone(), Attribute { kind, required, nullable });
                }
                Ok((None, _)) => self.leave_out(&pointer, "it is always null".to_owned()),
                Err(reason) => self.leave_out(&pointer, reason),
            }
        }
        members
    }

    fn typed(&mut self, schema: &Value, at: &str, depth: usize) -> Result<Typed, String> {
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
            _ => self.untold(members, at, depth),
        }
    }

    /// A schema that does not name its type itself.
    fn untold(&mut self, members: &Map<String, Value>, at: &str, depth: usize) -> Result<Typed, String> {
        if let Some(reference) = members.get("$ref").and_then(Value::as_str) {
            return self.referred(reference, at, depth);
        }
        if let Some(Value::Array(one_of)) = members.get("anyOf").or_else(|| members.get("oneOf")) {
            return self.union(one_of, at, depth);
        }
        by_values(members)
    }

    fn referred(&mut self, reference: &str, at: &str, depth: usize) -> Result<Typed, String> {
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

    fn named(&mut self, kind: &str, schema: &Value, at: &str, depth: usize) -> Result<Typed, String> {
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

    fn set(&mut self, schema: &Value, at: &str, depth: usize) -> Result<ArgumentType, String> {
        if schema.get("prefixItems").is_some() {
            return Err("its items differ by position".to_owned());
        }
        let items = schema.get("items").ok_or("its items may be anything")?;
        match self.typed(items, &format!("{at}/*"), depth + 1)? {
            (Some(kind), false) => Ok(ArgumentType::Set(Box::new(kind))),
            _ => Err("its items may be null".to_owned()),
        }
    }

    /// Alternatives of one type are that type; `null` among them makes it optional.
    fn union(&mut self, one_of: &[Value], at: &str, depth: usize) -> Result<Typed, String> {
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

    fn leave_out(&mut self, pointer: &str, reason: String) {
        self.left_out.push((pointer.to_owned(), reason));
    }
}

/// Without a type, the values that are allowed tell it.
fn by_values(schema: &Map<String, Value>) -> Result<Typed, String> {
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
