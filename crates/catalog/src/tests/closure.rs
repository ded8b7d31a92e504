//! A listed schema accepts what gates 2 to 4 accept: an agent that keeps to the list is not refused for the shape of its
//! arguments, and one that does not is refused.

use serde_json::Map;
use servanda_contract::schema::{CompiledSchema, SchemaProfile};
use servanda_gates::{OPERATION_ARGUMENT, takes_operation_argument};

use super::*;
use crate::{Availability, ListedTool, testing::shared};

/// The depth of generated values.
const DEPTH_MAX: usize = 6;

fn listed(compiled: &CompiledContract) -> Value {
    let tool = ListedTool::render("tool", compiled, Availability::Available).unwrap();
    serde_json::from_str::<Value>(tool.definition.get()).unwrap()["inputSchema"].take()
}

/// The schema as a client reads it, without closing.
fn as_written(schema: &Value) -> CompiledSchema {
    CompiledSchema::compile(schema.as_object().unwrap(), SchemaProfile::Results).unwrap()
}

/// Applies defaults like gate 2, and validates like gates 2 to 4.
fn gates_take(compiled: &CompiledContract, arguments: &Value) -> bool {
    let mut arguments = arguments.clone();
    let named = match arguments.as_object_mut() {
        Some(members) if takes_operation_argument(compiled) => members.shift_remove(OPERATION_ARGUMENT),
        _ => None,
    };
    compiled.input().apply_defaults(&mut arguments);
    named.is_none_or(|named| named.is_string()) && compiled.input().judge(&arguments).is_empty()
}

/// A value that a simple schema accepts: required members only, or everything.
fn made_up(schema: &Value, everything: bool, depth: usize) -> Value {
    if let Some(value) = schema.get("const").or_else(|| schema.get("enum").and_then(|options| options.get(0))) {
        return value.clone();
    }
    let kind = schema.get("type").map(|kind| kind.get(0).unwrap_or(kind).as_str().unwrap_or_default().to_owned());
    match kind.as_deref() {
        Some("object") => {
            let required = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
            let properties = schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
            let wanted = properties.iter().filter(|(name, _)| {
                everything && depth < DEPTH_MAX || required.iter().any(|required| required.as_str() == Some(name))
            });
            let members = wanted.map(|(name, inner)| (name.clone(), made_up(inner, everything, depth + 1)));
            Value::Object(members.collect::<Map<_, _>>())
        }
        Some("array") if everything && depth < DEPTH_MAX => {
            json!([made_up(schema.get("items").unwrap_or(&Value::Null), everything, depth + 1)])
        }
        Some("array") => json!([]),
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or(json!(1)),
        Some("boolean") => json!(true),
        Some("null") => Value::Null,
        _ => json!("x"),
    }
}

/// Variants of a value: each object inside gets one more member, in turn.
fn with_one_more(value: &Value, name: &str) -> Vec<Value> {
    let mut all = Vec::new();
    if let Value::Object(members) = value {
        let mut more = members.clone();
        more.insert(name.to_owned(), json!("x"));
        all.push(Value::Object(more));
        for (member, inner) in members {
            all.extend(with_one_more(inner, name).into_iter().map(|inner| {
                let mut changed = members.clone();
                changed.insert(member.clone(), inner);
                Value::Object(changed)
            }));
        }
    }
    if let Value::Array(items) = value {
        for (position, inner) in items.iter().enumerate() {
            all.extend(with_one_more(inner, name).into_iter().map(|inner| {
                let mut changed = items.clone();
                changed[position] = inner;
                Value::Array(changed)
            }));
        }
    }
    all
}

#[test]
fn a_listed_schema_takes_what_the_gates_take() {
    let Some(file) = shared("corpora/tools/tools.jsonl") else { return };
    let (mut tools, mut values, mut accepted, mut too_open) = (0, 0, 0, 0);
    for line in std::fs::read_to_string(file).unwrap().lines().step_by(7) {
        let tool: Value = serde_json::from_str(line).unwrap();
        let schema = tool["input_schema"].as_object().cloned().unwrap_or_default();
        let definition = json!({ "name": tool["name"], "description": tool["description"], "inputSchema": schema });
        let Ok(definition) = Definition::read(&definition.to_string()) else { continue };
        let Ok(compiled) = admit(infer("up", &definition).unwrap().contract, &RegisteredContracts::new()) else {
            continue;
        };
        let shown = listed(&compiled);
        let client = as_written(&shown);
        let unlisted = as_written(&Value::Object((*compiled.contract().affordance.input_schema).clone()));
        let declared = compiled.input().declares(OPERATION_ARGUMENT);
        let is_listed = shown["properties"].get(OPERATION_ARGUMENT).is_some();
        assert_eq!(is_listed, declared || takes_operation_argument(&compiled), "{}", tool["id"]);
        tools += 1;
        let whole = Value::Object((*compiled.contract().affordance.input_schema).clone());
        let (least, most) = (made_up(&whole, false, 0), made_up(&whole, true, 0));
        let mut tried = vec![json!({}), least.clone(), most.clone()];
        tried.extend(with_one_more(&least, "zz_unknown"));
        tried.extend(with_one_more(&most, "zz_unknown"));
        tried.extend(with_one_more(&least, OPERATION_ARGUMENT).into_iter().take(1));
        let mut is_too_open = false;
        for value in tried {
            let (told, judged) = (client.is_valid(&value), gates_take(&compiled, &value));
            assert_eq!(told, judged, "{}: {value}\n{shown:#}", tool["id"]);
            is_too_open |= unlisted.is_valid(&value) && !judged;
            (values, accepted) = (values + 1, accepted + usize::from(judged));
        }
        too_open += usize::from(is_too_open);
    }
    println!(
        "{tools} tools, {values} values, {accepted} taken by list and gates alike; the contracts' own texts of {too_open} tools take what is refused"
    );
    assert!(accepted * 5 > values && accepted < values, "values of both kinds are tried");
    assert!(too_open * 2 > tools, "the test can fail: lists of the contracts' own text would");
}
