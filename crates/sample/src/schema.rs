//! The JSON Schema fragments several tools share.
//!
//! Responsible for closing every object shape and for wording an identifier the same way wherever it
//! appears. Only describes: the tools check their arguments themselves.

use serde_json::{Map, Value, json};

pub(crate) const CURRENCIES: [&str; 3] = ["EUR", "USD", "CHF"];

/// An object with exactly these properties, of which `required` must be present.
pub(crate) fn object(required: &[&str], properties: Value) -> Value {
    let mut schema = json!({
        "type": "object",
        "required": required,
        "additionalProperties": false,
    });
    set(&mut schema, "properties", properties);
    schema
}

/// An object with exactly these properties, all of them present.
pub(crate) fn full_object(properties: Value) -> Value {
    let names = properties.as_object().into_iter().flat_map(Map::keys);
    let required: Vec<String> = names.cloned().collect();
    let mut schema = object(&[], properties);
    set(&mut schema, "required", required.into());
    schema
}

/// Sets one property of a schema, or one schema of a set of properties.
pub(crate) fn set(schema: &mut Value, key: &str, value: Value) {
    if let Some(fields) = schema.as_object_mut() {
        fields.insert(key.into(), value);
    }
}

pub(crate) fn no_properties() -> Value {
    object(&[], json!({}))
}

pub(crate) fn customer_id() -> Value {
    json!({
        "type": "string",
        "pattern": "^cus_[0-9]{3}$",
        "description": "Identifier of one customer, as find_customers returns it, e.g. cus_001. Never a name.",
    })
}

pub(crate) fn invoice_id() -> Value {
    json!({
        "type": "string",
        "pattern": "^inv_[0-9]{4,9}$",
        "description": "Identifier of one invoice, as list_invoices returns it, e.g. inv_1007.",
    })
}

pub(crate) fn currency() -> Value {
    json!({ "type": "string", "enum": CURRENCIES, "description": "ISO 4217 code." })
}

pub(crate) fn cents(description: &str) -> Value {
    json!({ "type": "integer", "minimum": 0, "description": description })
}

pub(crate) fn email(description: &str) -> Value {
    json!({ "type": "string", "format": "email", "maxLength": 254, "description": description })
}

pub(crate) fn date(description: &str) -> Value {
    json!({ "type": "string", "format": "date", "description": description })
}

pub(crate) fn text(length_max: usize, description: &str) -> Value {
    json!({
        "type": "string",
        "minLength": 1,
        "maxLength": length_max,
        "description": description,
    })
}

pub(crate) fn list(items: Value) -> Value {
    let mut schema = json!({ "type": "array" });
    set(&mut schema, "items", items);
    schema
}
