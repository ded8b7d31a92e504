//! How an effect is performed, taken from its permit: everything that is needed to send the same bytes again
//! tomorrow.

use bytes::Bytes;
use serde_json::Value;
use servanda_contract::{
    Digest,
    digest::{DigestDomain, hex},
    json,
    tool::{EffectClass, EffectDeclaration, KeyPlacement, ToolContract},
};
use servanda_effects::effect::{DispatchOrder, EffectKey};

use crate::Permit;

/// A settled effect is remembered for at least this long.
const DEDUP_WINDOW_MS_MIN: u64 = 3_600_000;

/// Makes the dispatch order of a permitted call. The answer of a call that `outlasts` its request is kept, because its client asks for it.
pub(crate) fn dispatch_order(
    permit: &Permit,
    key: &EffectKey,
    timeout_ms: u64,
    outlasts: bool,
) -> Result<DispatchOrder, serde_json::Error> {
    let compiled = permit.contract();
    let contract = compiled.contract();
    let upstream_key = upstream_key(key);
    let effect = contract.effect.as_deref();
    let window_sec = effect.filter(|effect| effect.class == EffectClass::K).and_then(|effect| effect.key_window_sec);
    Ok(DispatchOrder {
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
        keeps_answer: outlasts || key.client_key.can_come_again() || contract.is_long(),
        resources: permit.changes(),
        reads: permit.reads(),
        overlaps: !permit.takes_turns(),
        actors: permit.proposal().caller.actors.clone(),
    })
}

/// The key that is sent to the upstream: the same for the same effect, and a caller cannot guess another
/// caller's key from it.
fn upstream_key(key: &EffectKey) -> String {
    let client_key = key.client_key.to_string();
    let parts = [&key.tenant, &key.principal, &key.tool, &client_key].map(String::as_bytes);
    hex(Digest::compute(DigestDomain::UpstreamKey, &parts).as_bytes())
}

/// The bytes to send: the canonical arguments, with the gateway's key among them if the upstream takes it
/// there.
fn arguments(
    canonical: &Bytes,
    effect: Option<&EffectDeclaration>,
    upstream_key: &str,
) -> Result<Bytes, serde_json::Error> {
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
