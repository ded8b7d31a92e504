//! Which calls of read-only tools would show whether an effect happened: the status tool with the operation's key, and the tools that the
//! contract names for looking at its target. Nothing is called here.

use serde_json::{Map, Value};
use servanda_contract::ToolContract;
use servanda_effects::effect::Effect;

/// A call that would show something about an effect.
#[derive(Debug, Clone, PartialEq)]
pub struct EffectInquiry<'a> {
    /// The tool.
    pub tool: &'a ToolContract,
    /// Its arguments.
    pub arguments: Map<String, Value>,
}

/// The inquiries of an effect of this contract. `named` finds a contract by its name, `hides` says which arguments must not be passed on.
pub fn inquiries<'a>(
    contract: &ToolContract,
    effect: &Effect,
    named: impl Fn(&str) -> Option<&'a ToolContract>,
    hides: impl Fn(&str, &Value) -> bool,
) -> Vec<EffectInquiry<'a>> {
    let mut found: Vec<EffectInquiry<'a>> = Vec::new();
    if let Some(query) = contract.effect.as_ref().and_then(|declared| declared.status.as_ref())
        && let Some(tool) = named(&query.tool)
    {
        let key = Value::from(effect.order.upstream_key.as_str());
        found.push(EffectInquiry { tool, arguments: Map::from_iter([(query.key_argument.clone(), key)]) });
    }
    let arguments: Option<Value> = serde_json::from_slice(&effect.order.arguments).ok();
    let looking = contract.verification.as_ref().and_then(|verification| verification.tool.as_deref());
    let looking = looking.into_iter().chain(contract.preconditions.iter().map(|condition| condition.tool.as_str()));
    for tool in looking.filter_map(named) {
        // Called with the arguments of the same names, if the tool needs no others.
        let Some(arguments) = same_named(tool, arguments.as_ref(), &hides) else { continue };
        let inquiry = EffectInquiry { tool, arguments };
        if !found.contains(&inquiry) {
            found.push(inquiry);
        }
    }
    found
}

fn same_named(
    tool: &ToolContract,
    arguments: Option<&Value>,
    hides: impl Fn(&str, &Value) -> bool,
) -> Option<Map<String, Value>> {
    let schema = serde_json::to_value(&tool.affordance.input_schema).unwrap_or_default();
    let required = schema.get("required").and_then(Value::as_array)?;
    let given = required.iter().map(|name| {
        let name = name.as_str()?;
        let value = arguments?.get(name)?;
        (!hides(name, value)).then(|| (name.to_owned(), value.clone()))
    });
    given.collect::<Option<Map<_, _>>>().filter(|given| !given.is_empty())
}
