//! Settles effects whose process is gone, after a crash, a pause or a restart. An effect that can be sent again safely is sent again. If
//! its upstream has a status tool, that tool is asked. Any other effect becomes unknown.
//!
//! Deliberately not here: the choice between these, which the store makes in one transaction with the change.

mod lanes;
mod status;

use std::{sync::Arc, time::Duration};

use servanda_contract::{
    CallId, CallRecord, Caller, OperationKeys, Proposal, record::Outcome, refusal::EffectKnowledge, tool::EffectClass,
};
use servanda_effects::effect::{Effect, EffectId, EffectReply, EffectState, owner_silence_ms_max};
use servanda_gates::{Fenced, Recovery, recover};
use servanda_upstream::RequestOptions;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub(crate) use self::lanes::RecoveryLanes;
pub(crate) use self::status::ask_and_settle;
use super::verdict::{DeferredVerdict, judge};
use crate::{
    answers::refusals,
    budgets,
    client::for_recorded_caller,
    clock::within_ms,
    core::{Core, lease_end},
    delivery_template::{DeliveryAttempt, DeliveryTemplate, param_headers},
    internal_call::{InternalTool, exposed_name, internal_tool},
    long_running::{self, AdoptedWork, LongWorkContext},
    outages::BackgroundWork,
    records::{self, EffectSettlement},
    trace,
    world::WorldSnapshot,
};

/// How long to wait after a failed heartbeat before the next one.
const BEAT_AGAIN_MS: u64 = 500;
/// How long a call that is sent again, or a question to a status tool, may take, whatever the contract says.
const RESEND_MS_MAX: u64 = 300_000;
const ASK_MS_MAX: u64 = 30_000;
/// The same for long work, whose caller does not wait.
const LONG_RESEND_MS_MAX: u64 = 86_400_000;
/// How many expired effects recovery turns into tombstones in a round. The ledger's own pruning does the rest, a few at a time.
const EXPIRED_MAX: u32 = 200;

/// How often this process sends a heartbeat and looks for orphans. Three heartbeats fit into the silence after which a process counts as
/// gone.
fn heartbeat_interval() -> Duration {
    Duration::from_millis(owner_silence_ms_max() / 3)
}

/// Recovers orphaned effects until told to stop. It sends no heartbeats: a gateway that is stopping takes no more orphans, but it sends
/// heartbeats until it has settled its own calls.
pub(crate) async fn run(long_running: &Arc<LongWorkContext>, stop: CancellationToken) {
    let looking = async {
        let mut lanes = RecoveryLanes::default();
        loop {
            // This does not wait for upstreams: each lane runs in a task of its own, and the next round starts the idle ones.
            lanes.begin(long_running).await;
            clear_up(&long_running.core).await;
            tokio::time::sleep(heartbeat_interval()).await;
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = looking => {}
    }
}

/// Sends heartbeats until told to stop, so that no other process takes over this one's calls. At the same interval it reads which tools
/// other processes hold back or release; a slow store does not delay the heartbeats.
pub(crate) async fn send_heartbeats(core: &Arc<Core>, stop: CancellationToken) {
    let beating = async {
        loop {
            tokio::time::sleep(send_heartbeat(core).await).await;
        }
    };
    let recalling = async {
        loop {
            let recalled = core.quarantine.recall().await;
            core.outages.background_ended(BackgroundWork::HeldBackTools, &recalled);
            tokio::time::sleep(heartbeat_interval()).await;
        }
    };
    tokio::select! {
        () = beating => {}
        () = recalling => {}
        () = stop.cancelled() => {}
    }
}

/// Sends one heartbeat and returns how long to wait before the next one, so that a store that was away hears from this process as soon as
/// it is back.
async fn send_heartbeat(core: &Core) -> Duration {
    let asked_at = Instant::now();
    let beat = core.effects.heartbeat(core.owner.clone()).await;
    core.outages.background_ended(BackgroundWork::Heartbeat, &beat);
    match beat {
        Ok(()) => {
            core.owner_lease.extend(lease_end(asked_at));
            heartbeat_interval()
        }
        Err(_) => heartbeat_interval().min(Duration::from_millis(BEAT_AGAIN_MS)),
    }
}

/// Cleans up after settled effects: closes their budget reservations and deletes effects that have expired.
async fn clear_up(core: &Core) {
    budgets::run_upkeep(&core.budget_client).await;
    let expired = core.effects.expire(EXPIRED_MAX).await;
    core.outages.background_ended(BackgroundWork::ExpiredEffects, &expired);
}

/// One complete round: settles every orphan that can be settled, and cleans up.
#[cfg(test)]
pub(crate) async fn run_once(long_running: &Arc<LongWorkContext>, told: &mut std::collections::BTreeSet<EffectId>) {
    let mut lanes = RecoveryLanes::having_logged(std::mem::take(told));
    lanes.begin(long_running).await;
    *told = lanes.finish().await;
    clear_up(&long_running.core).await;
}

/// The exposed name of an effect's tool.
fn exposed_name_of_effect(snapshot: &WorldSnapshot, effect: &Effect) -> Option<String> {
    let key = &effect.key;
    exposed_name(snapshot, |identity| identity.name == key.tool && identity.major() == key.contract_major)
}

/// Whether settling the effect takes a request to its tool: the call again, or a question. Any other effect is settled in the store
/// alone.
fn needs_its_tool(effect: &Effect) -> bool {
    effect.state == EffectState::Dispatching && matches!(effect.class, EffectClass::K | EffectClass::Q)
}

/// Whether recovering the effect may take as long as long work does.
fn takes_long(snapshot: &WorldSnapshot, effect: &Effect) -> bool {
    let entry = exposed_name_of_effect(snapshot, effect).and_then(|name| snapshot.catalog.entry(&name));
    entry.is_some_and(|entry| entry.contract.contract().is_long())
}

/// Follows work that continues at its upstream, if no other process follows it. Returns whether the work continues there.
async fn follow_on(long_running: &LongWorkContext, snapshot: &WorldSnapshot, effect: Effect) -> bool {
    let core = &long_running.core;
    match long_running::submitted(core, &effect).await {
        None => return false,
        // Another process may still follow it.
        Some(submitted) if !submitted.is_unfollowed(core) => return true,
        Some(_) => {}
    }
    let Some(exposed) = exposed_name_of_effect(snapshot, &effect) else { return true };
    // Until its server is available, the effect stays as it is.
    let ready = internal_tool(snapshot, &exposed).await.filter(|ready| *ready.member.id == *effect.order.upstream);
    let Some(ready) = ready else { return true };
    let record = record(core, &effect);
    if let Some(adopted) = long_running::adopt(long_running, effect).await {
        settle_followed(core, snapshot, &ready, &adopted, record).await;
    }
    true
}

/// Follows long work that was taken over to its end, and settles it.
async fn settle_followed(
    core: &Arc<Core>,
    snapshot: &WorldSnapshot,
    ready: &InternalTool,
    adopted: &AdoptedWork,
    mut record: CallRecord,
) {
    let effect = &adopted.effect;
    let claim = effect.claim();
    let held = Some(core.in_flight_effects.hold(&effect.id));
    let mutation = effect.class.mutates().then(|| core.mutations.begin());
    let outcome = adopted.follow(core, snapshot, ready, &record.caller).await;
    core.cache.invalidate(&ready.member.id, &effect.order.resources);
    let DeferredVerdict { end, outcome, refusal, quarantine } =
        judge(&ready.contract, &record.call_id, outcome, effect.was_sent_before());
    record.finished_at = Some(core.clock.now());
    record.outcome = outcome;
    record.class = refusal.as_ref().map(|refusal| refusal.error_code);
    record.refusal = refusal;
    records::settle(core, EffectSettlement { claim, end, record, quarantine, held }).await;
    if let Some(mutation) = mutation {
        mutation.end(outcome);
    }
}

async fn recover_orphan(long_running: &LongWorkContext, snapshot: &WorldSnapshot, orphan: Effect) {
    let core = &long_running.core;
    if orphan.state == EffectState::Dispatching && Box::pin(follow_on(long_running, snapshot, orphan.clone())).await {
        return;
    }
    let mut sends = None;
    if needs_its_tool(&orphan) && orphan.class == EffectClass::K {
        let Some(exposed) = exposed_name_of_effect(snapshot, &orphan) else { return };
        let ready = internal_tool(snapshot, &exposed).await;
        // An effect that is taken over before it can be sent would only become unknown.
        let Some(ready) = ready.filter(|ready| *ready.member.id == *orphan.order.upstream) else { return };
        sends = Some(ready);
    }
    // It does not queue for its resources: it has held them since it was dispatched, and other calls queue behind it.
    let record = record(core, &orphan);
    let written = (orphan.class == EffectClass::N && orphan.state == EffectState::Dispatching)
        .then(|| unknown_record(core, record.clone(), &orphan.id));
    let notices = core.callback_notices(snapshot).for_effect(&orphan);
    let is_told = !notices.is_empty();
    let asked_at = Instant::now();
    let recovery = recover(&orphan.id, &core.owner, written, notices, core.effects.as_ref()).await;
    if is_told {
        core.outbox.wake();
    }
    let effect = orphan.id;
    match (recovery, sends) {
        (Err(error), _) => tracing::warn!(%effect, %error, "an effect whose process is gone could not be taken over"),
        (Ok(Recovery::Resend(fenced, taken)), Some(ready)) => {
            tracing::info!(%effect, "an effect whose process is gone is sent again with its key");
            resend(core, &ready, *fenced, (&taken, asked_at), record).await;
        }
        (Ok(Recovery::Ask(claim, taken)), _) => {
            let deadline = within_ms(ASK_MS_MAX);
            ask_and_settle(core, snapshot, claim, &taken, deadline).await;
        }
        (Ok(Recovery::Done(reply, after)), _) => {
            if reply == EffectReply::Unknown {
                tracing::warn!(
                    %effect,
                    "the process of an effect is gone, and its outcome is unknown; see `servanda effects show {effect}`"
                );
            }
            if let (EffectReply::Unknown | EffectReply::Settled, Some(after)) = (&reply, &after) {
                long_running::announce_end(core, after).await;
            }
        }
        (Ok(Recovery::Resend(..)), _) => {}
    }
}

/// Sends the same bytes with the same key, and settles the effect by the answer.
async fn resend(
    core: &Arc<Core>,
    ready: &InternalTool,
    fenced: Fenced,
    (effect, asked_at): (&Effect, Instant),
    mut record: CallRecord,
) {
    let InternalTool { contract, member } = ready;
    let Some(claim) = fenced.claim().cloned() else { return };
    let held = Some(core.in_flight_effects.hold(&claim.id));
    let mut template = DeliveryTemplate {
        cancel: CancellationToken::new(),
        upstream_requester: for_recorded_caller(&record.caller),
        wants_progress: false,
        log_level: None,
        trace_parent: trace::trace_parent_for_upstream(core, &record, None),
        meta: Vec::new(),
        key_header: None,
        entrusted: None,
        lease: Some(core.lease(asked_at, effect.class)),
    };
    template.set_key(contract.contract(), Some(&fenced), None);
    // No caller is waiting that could have set a shorter time.
    let timeout_ms = contract.contract().timeout_ms();
    let ms_max = if contract.contract().is_long() { LONG_RESEND_MS_MAX } else { RESEND_MS_MAX };
    let deadline = within_ms(timeout_ms.min(ms_max));
    let attempt =
        DeliveryAttempt { deadline, messages: None, continuation: servanda_upstream::Continuation::default() };
    record.dispatched_at = Some(core.clock.now());
    let param_headers = param_headers::headers_for(&contract.contract().affordance.input_schema, fenced.arguments());
    let delivery = RequestOptions { param_headers, ..template.delivery(attempt) };
    core.cache.invalidate(&member.id, &effect.order.resources);
    let mutation = effect.class.mutates().then(|| core.mutations.begin());
    let performed = member.server.perform(fenced, delivery).await;
    core.cache.invalidate(&member.id, &effect.order.resources);
    member.health.record_outcome(&performed.outcome);
    let was_sent_before = performed.fenced.was_sent_before();
    let DeferredVerdict { end, outcome, refusal, quarantine } =
        judge(contract, &record.call_id, performed.outcome, was_sent_before);
    record.finished_at = Some(core.clock.now());
    record.outcome = outcome;
    record.class = refusal.as_ref().map(|refusal| refusal.error_code);
    record.refusal = refusal;
    record.attempts = Some(effect.dispatches).filter(|dispatches| *dispatches > 1);
    records::settle(core, EffectSettlement { claim, end, record, quarantine, held }).await;
    if let Some(mutation) = mutation {
        mutation.end(outcome);
    }
}

/// The record of a recovery: a call of its own that continues the first.
fn record(core: &Core, effect: &Effect) -> CallRecord {
    let order = &effect.order;
    let caller = Arc::new(Caller {
        client: Some("servanda recovery".to_owned()),
        ..Caller::named(&effect.key.tenant, &effect.key.principal)
    });
    let proposal = Proposal {
        call_id: CallId::new(),
        caller,
        tool: order.exposed_tool.clone(),
        arguments: order.arguments.clone(),
        received_at: core.clock.now(),
        trace_id: trace::new_trace_id(),
        chain: String::new(),
        caller_wait_ms: None,
        keys: OperationKeys::default(),
        aims: servanda_contract::expectation::Aims::default(),
    };
    CallRecord {
        contract: Some(Arc::new(servanda_contract::record::ContractReference {
            name: effect.key.tool.clone(),
            version: order.contract_version.clone(),
            digest: order.contract_digest,
            upstream: order.upstream.clone(),
            upstream_tool: order.upstream_tool.clone(),
            effect_class: effect.class,
        })),
        deadline_ms: Some(order.timeout_ms),
        continues: Some(effect.call_id.clone()),
        effect_id: Some(effect.id.to_string()),
        ..CallRecord::new(&proposal)
    }
}

fn unknown_record(core: &Core, record: CallRecord, id: &EffectId) -> CallRecord {
    let refusal = refusals::lost_evidence(record.call_id.clone()).with_effect(EffectKnowledge::Unknown);
    let refusal = refusal.with_handle(id.as_str());
    CallRecord {
        outcome: Outcome::Unknown,
        class: Some(refusal.error_code),
        refusal: Some(refusal),
        finished_at: Some(core.clock.now()),
        ..record
    }
}
