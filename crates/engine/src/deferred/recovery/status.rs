//! Asks a status tool whether an effect was executed, and settles the effect by the answer.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};
use servanda_contract::{Caller, tool::StatusQuery};
use servanda_effects::effect::{
    AppliedChange, Claim, DispatchEnd, Effect, EffectChange, EffectEvent, EffectReply, EffectTarget, StoredAnswer,
};
use servanda_gates::CompiledContract;
use tokio::time::Instant;

use super::exposed_name_of_effect;
use crate::{
    core::Core,
    internal_call::{self, InternalCall, InternalCallError},
    long_running,
    world::WorldSnapshot,
};

/// How much of a status tool's answer is kept.
const ANSWER_CHARS_MAX: usize = 2_000;

/// Asks the status tool, and settles the effect by its answer. If the tool cannot be asked, the effect stays as it is, and a later round
/// asks again. Returns the ledger's reply to the settlement.
pub(crate) async fn ask_and_settle(
    core: &Arc<Core>,
    snapshot: &WorldSnapshot,
    claim: Claim,
    effect: &Effect,
    deadline: Instant,
) -> Option<EffectReply> {
    let end = match ask(core, snapshot, effect, deadline).await {
        Ok(end) => end,
        Err(why) => {
            tracing::warn!(effect = %effect.id, %why, "the status tool of an effect could not be asked; a later round asks again");
            return None;
        }
    };
    let event = EffectEvent::Settle(claim, end);
    let notices = core.callback_notices(snapshot).for_effect(effect);
    let is_told = !notices.is_empty();
    let change = EffectChange {
        target: EffectTarget::Id(effect.id.clone()),
        event,
        record: None,
        quarantine: None,
        notices,
        consumes: None,
    };
    let reply = match core.effects.apply(change).await {
        Ok(AppliedChange { reply, effect }) => {
            if let (EffectReply::Settled, Some(settled)) = (&reply, &effect) {
                long_running::announce_end(core, settled).await;
            }
            Some(reply)
        }
        Err(error) => {
            tracing::warn!(effect = %effect.id, %error, "the answer of a status tool about an effect could not be stored");
            None
        }
    };
    if is_told {
        core.outbox.wake();
    }
    reply
}

async fn ask(core: &Core, snapshot: &WorldSnapshot, effect: &Effect, deadline: Instant) -> Result<DispatchEnd, String> {
    let entry = exposed_name_of_effect(snapshot, effect).and_then(|name| snapshot.catalog.entry(&name));
    let contract = entry.map(|entry| Arc::clone(&entry.contract)).ok_or("its contract is gone")?;
    let query = contract.contract().effect.as_ref().and_then(|declared| declared.status.as_ref());
    let query = query.ok_or("its contract names no status tool any more")?;
    let key = Value::from(effect.order.upstream_key.as_str());
    let arguments = Value::Object(Map::from_iter([(query.key_argument.clone(), key)]));
    let caller = Arc::new(Caller {
        client: Some("servanda recovery".to_owned()),
        ..Caller::named(&effect.key.tenant, &effect.key.principal)
    });
    let asking = InternalCall { tool: &query.tool, arguments: Bytes::from(arguments.to_string()), caller };
    match internal_call::ask(core, snapshot, asking, deadline).await {
        Ok(result) => Ok(judge(&contract, query, &result).unwrap_or_else(DispatchEnd::Unknown)),
        Err(InternalCallError::Unusable(why)) => {
            Ok(DispatchEnd::Unknown(format!("the status tool could not tell: {why}")))
        }
        Err(InternalCallError::NotAsked(why)) => Err(why),
    }
}

/// What a status tool's answer means; the error says why the answer does not tell.
fn judge(contract: &CompiledContract, query: &StatusQuery, result: &Value) -> Result<DispatchEnd, String> {
    let found = contract.says_found(result)?;
    let said: String = result.to_string().chars().take(ANSWER_CHARS_MAX).collect();
    Ok(if found {
        DispatchEnd::Completed(StoredAnswer::Known(format!("the status tool `{}` found it: {said}", query.tool)))
    } else if query.absence_is_authoritative {
        DispatchEnd::Absent(format!("the status tool `{}` does not know it", query.tool))
    } else {
        DispatchEnd::Unknown(format!(
            "the status tool `{}` does not know it, but its contract does not accept that as proof",
            query.tool
        ))
    })
}
