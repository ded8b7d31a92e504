//! The names of the resources that a call changes and reads: the manifest of its contract, with the call's
//! arguments in place of `{name}`.
//!
//! Deliberately not here: which names can mean the same resource, which is [`servanda_effects::overlap`].

use bytes::Bytes;
use serde_json::Value;
use servanda_contract::{
    Digest,
    digest::DigestDomain,
    tool::{EffectDeclaration, ToolContract},
};
use servanda_effects::{ANYTHING, all_touched};

/// The longest argument that names a resource; a longer one is named by its digest.
const RESOURCE_CHARS_MAX: usize = 128;

/// All resources that a call with these arguments changes or reads.
pub(crate) fn touched(contract: &ToolContract, arguments: &Bytes) -> Vec<String> {
    let effect = contract.effect.as_deref();
    all_touched(&changed(effect, arguments), &read(effect, arguments))
}

/// The resources that such a call changes.
pub(crate) fn changed(effect: Option<&EffectDeclaration>, arguments: &Bytes) -> Vec<String> {
    let manifest = effect.map_or(&[][..], |effect| &effect.manifest);
    resources(manifest.iter().map(|change| &*change.resource), arguments)
}

/// The resources that such a call reads.
pub(crate) fn read(effect: Option<&EffectDeclaration>, arguments: &Bytes) -> Vec<String> {
    let reads = effect.map_or(&[][..], |effect| &effect.reads);
    resources(reads.iter().map(|name| &**name), arguments)
}

fn resources<'a>(templates: impl Iterator<Item = &'a str> + Clone, arguments: &Bytes) -> Vec<String> {
    if !templates.clone().any(|template| template.contains('{')) {
        return templates.map(str::to_owned).collect();
    }
    let arguments: Value = serde_json::from_slice(arguments).unwrap_or_default();
    templates.map(|template| rendered(template, &arguments)).collect()
}

fn rendered(template: &str, arguments: &Value) -> String {
    let mut rendered = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((name, behind)) = after.split_once('}') else { break };
        rendered.push_str(before);
        rendered.push_str(&text(arguments.get(name)));
        rest = behind;
    }
    rendered + rest
}

/// An argument as a part of a name. An absent argument stands for any.
fn text(value: Option<&Value>) -> String {
    let text = match value {
        None | Some(Value::Null) => return ANYTHING.to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    if text.chars().count() <= RESOURCE_CHARS_MAX {
        return text;
    }
    Digest::compute(DigestDomain::Arguments, &[text.as_bytes()]).short()
}
