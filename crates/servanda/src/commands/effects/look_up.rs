//! What a person needs to find an effect at its upstream before settling it: what was sent, with which key, when, and which tools can tell.
//! The ledger keeps the arguments until the effect is settled; values that the schema marks as sensitive are masked.

use serde::Serialize;
use serde_json::Value;
use servanda_clients::likely_secrets::is_surely_secret;
use servanda_config::LoadedConfig;
use servanda_contract::{Timestamp, ToolContract};
use servanda_effects::effect::Effect;
use servanda_engine::oversight::{EffectInquiry, inquiries};
use servanda_gates::CompiledContract;

use crate::contracts;

/// The text that replaces a sensitive value.
const MASK: &str = "[masked]";
/// How deeply arguments are searched; deeper values are masked as a whole.
const DEPTH_MAX: usize = 32;

/// Where and with what to look for an effect.
#[derive(Debug, Serialize)]
pub(crate) struct EffectLookup {
    /// The upstream and the tool's own name there.
    pub(super) upstream: String,
    pub(super) tool: String,
    /// The operation's key, as the upstream got it or would have got it.
    pub(super) operation_id: String,
    /// When it was first sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sent_at: Option<String>,
    /// The arguments, sensitive ones masked; none once the effect is settled, because they are not kept longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) arguments: Option<Value>,
    /// Commands that query the upstream.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) commands: Vec<String>,
}

impl EffectLookup {
    /// Uses the contracts of a configuration. Without the effect's contract, only the effect's own data are known.
    pub(super) fn for_effect(effect: &Effect, loaded: &LoadedConfig) -> Self {
        let contracts = contracts::judge_all(loaded).map(|(admitted, _)| admitted).unwrap_or_default();
        let named = |name: &str| contracts.iter().map(CompiledContract::contract).find(|it| it.identity.name == name);
        let own = named(&effect.key.tool);
        let order = &effect.order;
        let arguments: Option<Value> = serde_json::from_slice(&order.arguments).ok();
        let commands = match own {
            Some(contract) => commands(contract, effect, &named, loaded),
            None => Vec::new(),
        };
        let schema = own.map_or(Value::Null, |contract| {
            serde_json::to_value(&contract.affordance.input_schema).unwrap_or_default()
        });
        Self {
            upstream: order.upstream.clone(),
            tool: order.upstream_tool.clone(),
            operation_id: order.upstream_key.clone(),
            sent_at: effect.first_dispatched_ms.map(|ms| Timestamp::from_unix_ms(ms).to_string()),
            arguments: arguments.map(|arguments| masked("", arguments, LookupSchema { root: &schema, at: &schema }, 0)),
            commands,
        }
    }
}

/// The commands for the tools that the contract names: the status tool with the operation's key, and tools that show the target's state.
fn commands<'a>(
    contract: &ToolContract,
    effect: &Effect,
    named: &dyn Fn(&str) -> Option<&'a ToolContract>,
    loaded: &LoadedConfig,
) -> Vec<String> {
    let command = |inquiry: EffectInquiry<'_>| {
        let binding = &inquiry.tool.binding;
        let text = Value::Object(inquiry.arguments).to_string().replace('\'', r"'\''");
        format!("servanda call {} '{text}'", loaded.config.tool_name(&binding.upstream, &binding.tool))
    };
    let hides = |name: &str, value: &Value| is_sensitive(name, value, None);
    inquiries(contract, effect, named, hides).into_iter().map(command).collect()
}

/// A schema, and its part for one value.
#[derive(Clone, Copy)]
struct LookupSchema<'a> {
    root: &'a Value,
    at: &'a Value,
}

impl LookupSchema<'_> {
    fn part(self, keyword: &str) -> Option<Self> {
        let at = self.at.get(keyword)?;
        let reference = at.get("$ref").and_then(Value::as_str).and_then(|reference| reference.strip_prefix('#'));
        Some(Self { at: reference.and_then(|pointer| self.root.pointer(pointer)).unwrap_or(at), ..self })
    }

    fn property(self, name: &str) -> Option<Self> {
        let properties = LookupSchema { at: self.at.get("properties")?, ..self };
        properties.part(name)
    }
}

fn masked(name: &str, value: Value, schema: LookupSchema<'_>, depth: usize) -> Value {
    if depth > DEPTH_MAX || is_sensitive(name, &value, Some(schema.at)) {
        return Value::from(MASK);
    }
    let nothing = LookupSchema { root: schema.root, at: &Value::Null };
    match value {
        Value::Object(members) => {
            let of = |(name, value): (String, Value)| {
                let inner = schema.property(&name).or_else(|| schema.part("additionalProperties")).unwrap_or(nothing);
                let value = masked(&name, value, inner, depth + 1);
                (name, value)
            };
            Value::Object(members.into_iter().map(of).collect())
        }
        Value::Array(items) => {
            let inner = schema.part("items").unwrap_or(nothing);
            Value::Array(items.into_iter().map(|item| masked(name, item, inner, depth + 1)).collect())
        }
        plain => plain,
    }
}

/// Whether a value must not be shown: its schema says so, or its name or form is that of a secret.
fn is_sensitive(name: &str, value: &Value, schema: Option<&Value>) -> bool {
    let says = |keyword: &str| schema.and_then(|schema| schema.get(keyword));
    let marked = says("x-sensitivity").is_some_and(|level| !matches!(level.as_str(), Some("public" | "none")));
    let written = says("writeOnly") == Some(&Value::Bool(true)) || says("format").is_some_and(|it| it == "password");
    marked || written || value.as_str().is_some_and(|text| is_surely_secret(name, text))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{LookupSchema, MASK, masked};

    #[test]
    fn what_a_schema_marks_is_masked_and_the_rest_is_shown() {
        let schema = json!({
            "$defs": { "card": { "type": "object", "properties": { "number": { "x-sensitivity": "pii" } } } },
            "properties": {
                "amount": { "type": "integer" },
                "iban": { "x-sensitivity": "pii" },
                "note": { "x-sensitivity": "public" },
                "pin": { "writeOnly": true },
                "cards": { "type": "array", "items": { "$ref": "#/$defs/card" } },
            }
        });
        let arguments = json!({ "amount": 5, "iban": "CH93", "note": "rent", "pin": 1234, "password": "x",
            "cards": [{ "number": 4242, "name": "ada" }] });
        let shown = masked("", arguments, LookupSchema { root: &schema, at: &schema }, 0);
        let expected = json!({ "amount": 5, "iban": MASK, "note": "rent", "pin": MASK, "password": MASK,
            "cards": [{ "number": MASK, "name": "ada" }] });
        assert_eq!(shown, expected);
    }

    #[test]
    fn what_is_too_deep_is_masked_as_a_whole() {
        let deep = (0..100).fold(json!("x"), |inner, _| json!([inner]));
        let nothing = serde_json::Value::Null;
        let shown = masked("", deep, LookupSchema { root: &nothing, at: &nothing }, 0).to_string();
        assert!(shown.contains(MASK) && !shown.contains('x'), "{shown}");
    }
}
