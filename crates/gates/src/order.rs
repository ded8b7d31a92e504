//! How an effect is performed, told from its permit: what would have to be known to send the same bytes again tomorrow.

use bytes::Bytes;
use serde_json::Value;
use servanda_contract::{
    Digest,
    digest::{Domain, hex},
    json,
    tool::{Effect, EffectClass, KeyPlacement, ToolContract},
};

use crate::{
    Permit,
    effect::{ClientKey, EffectKey, Order},
};

/// A settled effect is remembered for so long at the least.
const DEDUP_WINDOW_MS_MIN: u64 = 3_600_000;
/// The longest argument that names a resource; a longer one is named by its digest.
const RESOURCE_CHARS_MAX: usize = 128;

/// The name of what may be any.
const ANYTHING: &str = "*";

/// What the effect of a permitted call is looked up by.
pub(crate) fn effect_key(permit: &Permit, client_key: ClientKey) -> EffectKey {
    let (caller, identity) = (&permit.proposal().caller, &permit.contract().contract().identity);
    EffectKey {
        tenant: caller.tenant.clone(),
        principal: caller.principal.clone(),
        tool: identity.name.clone(),
        contract_major: identity.major(),
        client_key,
    }
}

/// How it is performed.
pub(crate) fn order(permit: &Permit, key: &EffectKey, timeout_ms: u64) -> Result<Order, serde_json::Error> {
    let compiled = permit.contract();
    let contract = compiled.contract();
    let upstream_key = upstream_key(key);
    let effect = contract.effect.as_deref();
    let window_sec = effect.filter(|effect| effect.class == EffectClass::K).and_then(|effect| effect.key_window_sec);
    Ok(Order {
        exposed_tool: permit.proposal().tool.clone(),
        upstream: contract.binding.upstream.clone(),
        upstream_tool: contract.binding.tool.clone(),
        contract_version: contract.identity.version.clone(),
        contract_digest: compiled.digest(),
        arguments: arguments(permit.arguments().bytes(), effect, &upstream_key)?,
        upstream_key,
        timeout_ms,
        key_window_ms: window_sec.map(|sec| sec.saturating_mul(1_000)),
        dedup_window_ms: dedup_window_ms(contract),
        keeps_answer: key.client_key.can_come_again() || contract.is_long(),
        resources: changes(permit),
        reads: reads(permit),
        overlaps: !permit.takes_turns(),
        actors: permit.proposal().caller.actors.clone(),
    })
}

/// The key that an upstream is given: the same for the same effect, and nobody can guess another's from it.
fn upstream_key(key: &EffectKey) -> String {
    let client_key = key.client_key.to_string();
    let parts = [&key.tenant, &key.principal, &key.tool, &client_key].map(String::as_bytes);
    hex(Digest::of(Domain::UpstreamKey, &parts).as_bytes())
}

/// The bytes to send: the canonical arguments, with our key among them where the upstream takes it there.
fn arguments(canonical: &Bytes, effect: Option<&Effect>, upstream_key: &str) -> Result<Bytes, serde_json::Error> {
    let placed = effect.filter(|effect| effect.class.takes_key()).and_then(|effect| effect.key.as_ref());
    let Some(KeyPlacement::Argument(name)) = placed else { return Ok(canonical.clone()) };
    let mut arguments: Value = serde_json::from_slice(canonical)?;
    if let Some(members) = arguments.as_object_mut() {
        members.insert(name.clone(), Value::from(upstream_key));
    }
    Ok(json::canonicalize(&arguments)?.bytes().clone())
}

fn dedup_window_ms(contract: &ToolContract) -> u64 {
    let asked_ms = contract.idempotency.ttl_seconds.unwrap_or(0).saturating_mul(1_000);
    contract.timeout_ms().saturating_mul(2).max(DEDUP_WINDOW_MS_MIN).max(asked_ms)
}

/// The manifest's resources with this call's arguments in place of `{name}`.
pub(crate) fn changes(permit: &Permit) -> Vec<String> {
    changed(permit.contract().contract().effect.as_deref(), permit.arguments().bytes())
}

/// The same of what is read.
pub(crate) fn reads(permit: &Permit) -> Vec<String> {
    read(permit.contract().contract().effect.as_deref(), permit.arguments().bytes())
}

/// Everything that a call with these arguments changes or reads.
pub(crate) fn touched(contract: &ToolContract, arguments: &Bytes) -> Vec<String> {
    let effect = contract.effect.as_deref();
    all_of(&changed(effect, arguments), &read(effect, arguments))
}

/// What is changed and what is read, together. What names nothing may mean anything.
pub(crate) fn all_of(changes: &[String], reads: &[String]) -> Vec<String> {
    let touched = [changes, reads].concat();
    if touched.is_empty() { vec![ANYTHING.to_owned()] } else { touched }
}

fn changed(effect: Option<&Effect>, arguments: &Bytes) -> Vec<String> {
    let manifest = effect.map_or(&[][..], |effect| &effect.manifest);
    resources(manifest.iter().map(|change| &*change.resource), arguments)
}

fn read(effect: Option<&Effect>, arguments: &Bytes) -> Vec<String> {
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

/// An argument as part of a name. One that is not there may be any.
fn text(value: Option<&Value>) -> String {
    let text = match value {
        None | Some(Value::Null) => return ANYTHING.to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    if text.chars().count() <= RESOURCE_CHARS_MAX {
        return text;
    }
    Digest::of(Domain::Arguments, &[text.as_bytes()]).short()
}
