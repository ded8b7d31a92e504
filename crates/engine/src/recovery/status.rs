//! Asking a status tool whether an effect was executed, and settling the effect by what it says. The question is a call like
//! any other: judged by the status tool's own contract, which must be one that changes nothing.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};
use servanda_contract::{CallId, CallRecord, Caller, OperationKeys, Proposal, TaxonomyClass, tool::StatusQuery};
use servanda_gates::{
    CompiledContract, Fenced, Intent, Resolved, Trail,
    effect::{Change, Claim, ClientKey, Effect, End, Event, StoredAnswer, Target},
    fence, pass_all,
};
use servanda_upstream::Delivery;
use tokio::time::Instant;

use super::{Ready, exposed, exposed_as, ready};
use crate::{clock::CallStopwatch, core::Core, observe, scene::Scene, trace};

/// How much of a status tool's answer is kept.
const ANSWER_CHARS_MAX: usize = 2_000;

/// Asks, and settles what the answer settles. Where the tool cannot be asked, the effect is left as it is: it is asked about
/// again.
pub(crate) async fn ask_and_settle(core: &Arc<Core>, scene: &Scene, claim: Claim, effect: &Effect, deadline: Instant) {
    let end = match ask(core, scene, effect, deadline).await {
        Ok(end) => end,
        Err(why) => {
            tracing::warn!(effect = %effect.id, %why, "how an effect ended could not be asked");
            return;
        }
    };
    let event = Event::Settle(claim, end);
    let change = Change { target: Target::Id(effect.id.clone()), event, record: None, quarantine: None };
    if let Err(error) = core.effects.apply(change).await {
        tracing::warn!(effect = %effect.id, %error, "what a status tool said about an effect could not be kept");
    }
}

async fn ask(core: &Core, scene: &Scene, effect: &Effect, deadline: Instant) -> Result<End, String> {
    let entry = exposed(scene, effect).and_then(|name| scene.catalog.entry(&name));
    let contract = entry.map(|entry| Arc::clone(&entry.contract)).ok_or("its contract is gone")?;
    let query = contract.contract().effect.as_ref().and_then(|declared| declared.status.as_ref());
    let query = query.ok_or("its contract names no status tool any more")?;
    let status = exposed_as(scene, |identity| identity.name == query.tool);
    let status = status.ok_or_else(|| format!("there is no contract `{}`", query.tool))?;
    let ready = ready(scene, &status).await;
    let Ready { contract: status, member } = ready.ok_or_else(|| format!("`{}` cannot be called", query.tool))?;
    let fenced = fenced(core, Arc::clone(&status), query, effect).await?;
    let performed = member.server.perform(fenced, Delivery::until(deadline)).await;
    member.guard.learn(&performed.outcome);
    let answer = performed.outcome.map_err(|failure| failure.to_string())?;
    Ok(judge(&contract, &status, query, &answer.result).unwrap_or_else(End::Unknown))
}

/// What a status tool's answer means; the error says why that cannot be told.
fn judge(
    contract: &CompiledContract,
    status: &CompiledContract,
    query: &StatusQuery,
    result: &Bytes,
) -> Result<End, String> {
    let observed = observe::observe(status, result).map_err(|broken| format!("its answer {}", broken.message))?;
    if observed.class != TaxonomyClass::Success {
        return Err(format!("the status tool `{}` failed", query.tool));
    }
    let result = observed.data.and_then(|raw| serde_json::from_str::<Value>(raw.get()).ok()).unwrap_or_default();
    let found = contract.says_found(&result)?;
    let said: String = observed.data.map_or("", |raw| raw.get()).chars().take(ANSWER_CHARS_MAX).collect();
    Ok(if found {
        End::Completed(StoredAnswer::Known(format!("the status tool `{}` found it: {said}", query.tool)))
    } else if query.absence_is_authoritative {
        End::Absent(format!("the status tool `{}` does not know it", query.tool))
    } else {
        End::Unknown(format!("the status tool `{}` does not know it, which proves nothing", query.tool))
    })
}

/// The question as a call that passed the gates. It is on nobody's record but the effect's.
async fn fenced(
    core: &Core,
    status: Arc<CompiledContract>,
    query: &StatusQuery,
    effect: &Effect,
) -> Result<Fenced, String> {
    if status.contract().effect_class().mutates() {
        return Err(format!("`{}` changes something, so it is not asked", query.tool));
    }
    let key = Value::from(effect.order.upstream_key.as_str());
    let arguments = Value::Object(Map::from_iter([(query.key_argument.clone(), key)]));
    let proposal = Proposal {
        call_id: CallId::new(),
        caller: Caller {
            tenant: effect.key.tenant.clone(),
            principal: effect.key.principal.clone(),
            client: Some("servanda recovery".to_owned()),
            session: None,
        },
        tool: query.tool.clone(),
        arguments: Bytes::from(arguments.to_string()),
        received_at: core.clock.now(),
        trace_id: trace::new_trace_id(),
        chain: String::new(),
        caller_wait_ms: None,
        keys: OperationKeys::default(),
    };
    let record = CallRecord::new(&proposal);
    let stopwatch = CallStopwatch::start();
    let timeout_ms = status.contract().timeout_ms();
    let permit = pass_all(Resolved::new(proposal, status), core.gate_limits, &mut Trail::new(&stopwatch))
        .map_err(|refusal| format!("`{}` does not take the question: {}", query.tool, refusal.message))?;
    let key = ClientKey::Call(permit.call_id().clone());
    let intent =
        Intent { key, owner: core.owner.clone(), timeout_ms, continues: None, record, accepts_lost_commits: true };
    fence(permit, intent, core.effects.as_ref()).await.map_err(|_| "the question could not be put".to_owned())
}
