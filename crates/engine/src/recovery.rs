//! Looking after effects that nobody looks after: after a crash, a pause, a restart. What can be sent again safely is, what
//! can be asked about is asked about, and what nobody can know is said to be unknown.
//!
//! Deliberately not here: which of these follows, which is the store's to say in one transaction with the change.

mod lanes;
mod status;

use std::{sync::Arc, time::Duration};

use servanda_contract::{
    CallId, CallRecord, Caller, OperationKeys, Proposal, Refusal, record::Outcome, refusal::EffectKnowledge,
    tool::EffectClass,
};
use servanda_effects::effect::{Effect, EffectId, EffectState, End, Reply, owner_silence_ms_max};
use servanda_gates::{CompiledContract, Fenced, Recovery, recover};
use servanda_mcp::{RawObject, fields::member as field};
use servanda_upstream::{Answer, Delivery, PerformFailure};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub(crate) use self::lanes::Lanes;
pub(crate) use self::status::ask_and_settle;
use crate::{
    asking::{Ready, exposed_as, ready},
    bridge::Leg,
    budgets,
    call::headers,
    core::{Core, lease_end, within_ms},
    observe,
    outline::Outline,
    quarantine,
    records::{self, Settling},
    refusals,
    scene::Scene,
    sessions, trace, upstream_failure, works,
};

/// How long after a beat that failed the next one is tried.
const BEAT_AGAIN_MS: u64 = 500;
/// Of beats in a row that failed, every so many is logged.
const BEATS_LOGGED_EVERY: u32 = 20;
/// How long what is sent again or asked may take, whatever its contract says.
const RESEND_MS_MAX: u64 = 300_000;
const ASK_MS_MAX: u64 = 30_000;
/// The same of long work, which nobody waits for.
const LONG_RESEND_MS_MAX: u64 = 86_400_000;
/// Tombstones that recovery makes in a round. The ledger's own pruning makes the rest, a few at a time.
const EXPIRED_MAX: u32 = 200;

/// How often this process says that it is alive, three times as often as it would be missed, and looks whether somebody
/// left something behind.
fn beat() -> Duration {
    Duration::from_millis(owner_silence_ms_max() / 3)
}

/// Recovers orphaned effects until told to stop. It does not beat: a gateway that is stopping takes no more orphans, but it beats on
/// until it has settled its own calls.
pub(crate) async fn look_after(core: &Arc<Core>, stop: CancellationToken) {
    let looking = async {
        let mut lanes = Lanes::default();
        loop {
            // This does not wait for upstreams: each lane goes on in a task of its own, and the next round starts the idle ones.
            lanes.begin(core).await;
            clear_up(core).await;
            tokio::time::sleep(beat()).await;
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = looking => {}
    }
}

/// Says that this process is alive until told to stop, so that no other process takes over what it does. As often it learns what
/// others hold back or let go; a store that is slow to tell that does not keep it from beating.
pub(crate) async fn stay_alive(core: &Arc<Core>, stop: CancellationToken) {
    let beating = async {
        let mut failures = 0;
        loop {
            tokio::time::sleep(beat_once(core, &mut failures).await).await;
        }
    };
    let recalling = async {
        loop {
            if let Err(error) = quarantine::recall(core).await {
                tracing::warn!(%error, "which tools are held back could not be read; what is known stays in force");
            }
            tokio::time::sleep(beat()).await;
        }
    };
    tokio::select! {
        () = beating => {}
        () = recalling => {}
        () = stop.cancelled() => {}
    }
}

/// Beats once, and says how long to wait before the next beat: a store that was away is told at once when it is back. `failures` counts
/// those in a row; not all of them are logged.
async fn beat_once(core: &Core, failures: &mut u32) -> Duration {
    let asked_at = Instant::now();
    match core.effects.beat(core.owner.clone()).await {
        Ok(()) => {
            core.owner_lease.extend(lease_end(asked_at));
            if std::mem::take(failures) > 0 {
                tracing::info!("the ledger takes this process's beats again");
            }
            beat()
        }
        Err(error) => {
            if failures.is_multiple_of(BEATS_LOGGED_EVERY) {
                tracing::warn!(%error, "this process could not say that it is alive; it is tried again");
            }
            *failures = failures.saturating_add(1);
            beat().min(Duration::from_millis(BEAT_AGAIN_MS))
        }
    }
}

/// What is left of effects that are settled: reservations are closed by what their effects say, and what is over is forgotten.
async fn clear_up(core: &Core) {
    budgets::look_after(core).await;
    if let Err(error) = core.effects.expire(EXPIRED_MAX).await {
        tracing::warn!(%error, "effects whose time is over were not forgotten");
    }
}

/// One round, to its end: everything that is nobody's is settled as far as it can be, and what is over is forgotten.
#[cfg(test)]
pub(crate) async fn look_once(core: &Arc<Core>, told: &mut std::collections::BTreeSet<EffectId>) {
    let mut lanes = Lanes::having_logged(std::mem::take(told));
    lanes.begin(core).await;
    *told = lanes.ended().await;
    clear_up(core).await;
}

/// The exposed name of an effect's tool.
fn exposed(scene: &Scene, effect: &Effect) -> Option<String> {
    let key = &effect.key;
    exposed_as(scene, |identity| identity.name == key.tool && identity.major() == key.contract_major)
}

/// Whether something has to be sent or asked to settle an effect; what is left of the others is only to say so.
fn needs_its_tool(effect: &Effect) -> bool {
    effect.state == EffectState::Dispatching && matches!(effect.class, EffectClass::K | EffectClass::Q)
}

/// Whether what is done about it may take as long as long work does.
fn takes_long(scene: &Scene, effect: &Effect) -> bool {
    let entry = exposed(scene, effect).and_then(|name| scene.catalog.entry(&name));
    entry.is_some_and(|entry| entry.contract.contract().is_long())
}

/// Follows what goes on at its upstream, if it does and nobody else follows it. Says whether that is so.
async fn follow_on(core: &Arc<Core>, scene: &Scene, effect: Effect) -> bool {
    match works::submitted(core, &effect).await {
        None => return false,
        // Somebody may still follow it.
        Some(submitted) if !submitted.is_left_alone(core) => return true,
        Some(_) => {}
    }
    let Some(exposed) = exposed(scene, &effect) else { return true };
    // Until its server is there, it is left as it is.
    let ready = ready(scene, &exposed).await.filter(|ready| *ready.member.id == *effect.order.upstream);
    let Some(ready) = ready else { return true };
    let record = record(core, &effect);
    if let Some(adopted) = works::adopt(core, effect).await {
        adopted.follow(core, scene, &ready, record).await;
    }
    true
}

async fn take(core: &Arc<Core>, scene: &Scene, orphan: Effect) {
    if orphan.state == EffectState::Dispatching && Box::pin(follow_on(core, scene, orphan.clone())).await {
        return;
    }
    let mut sends = None;
    if needs_its_tool(&orphan) && orphan.class == EffectClass::K {
        let Some(exposed) = exposed(scene, &orphan) else { return };
        let ready = ready(scene, &exposed).await;
        // Taken before it can be sent, it would only become unknown.
        let Some(ready) = ready.filter(|ready| *ready.member.id == *orphan.order.upstream) else { return };
        sends = Some(ready);
    }
    // It waits for no turn: what it changes has been its own since it was dispatched, and calls that wait for it stand in line.
    let record = record(core, &orphan);
    let written = (orphan.class == EffectClass::N && orphan.state == EffectState::Dispatching)
        .then(|| unknown_record(core, record.clone(), &orphan.id));
    let notices = core.told(scene).of_effect(&orphan);
    let is_told = !notices.is_empty();
    let asked_at = Instant::now();
    let recovery = recover(&orphan.id, &core.owner, written, notices, core.effects.as_ref()).await;
    if is_told {
        core.outbox.wake();
    }
    let effect = orphan.id;
    match (recovery, sends) {
        (Err(error), _) => tracing::warn!(%effect, %error, "an effect that was left behind could not be taken"),
        (Ok(Recovery::Resend(fenced, taken)), Some(ready)) => {
            tracing::info!(%effect, "an effect that was left behind is sent again with its key");
            resend(core, &ready, *fenced, (&taken, asked_at), record).await;
        }
        (Ok(Recovery::Ask(claim, taken)), _) => {
            let deadline = within_ms(ASK_MS_MAX);
            ask_and_settle(core, scene, claim, &taken, deadline).await;
        }
        (Ok(Recovery::Done(reply, after)), _) => {
            if reply == Reply::Unknown {
                tracing::warn!(%effect, "an effect was left behind and nobody knows how it ended; see `servanda effects show {effect}`");
            }
            if let (Reply::Unknown | Reply::Settled, Some(after)) = (&reply, &after) {
                works::ended(core, after).await;
            }
        }
        (Ok(Recovery::Resend(..)), _) => {}
    }
}

/// Sends the same bytes with the same key, and settles by what comes back.
async fn resend(
    core: &Arc<Core>,
    ready: &Ready,
    fenced: Fenced,
    (effect, asked_at): (&Effect, Instant),
    mut record: CallRecord,
) {
    let Ready { contract, member } = ready;
    let Some(claim) = fenced.claim().cloned() else { return };
    let held = Some(core.in_hand.hold(&claim.id));
    let mut outline = Outline {
        cancel: CancellationToken::new(),
        counterpart: sessions::on_record(&record.caller),
        wants_progress: false,
        log_level: None,
        trace_parent: None,
        meta: Vec::new(),
        key_header: None,
        entrusted: None,
        lease: Some(core.lease(asked_at, effect.class)),
    };
    outline.carry_key(contract.contract(), Some(&fenced), None);
    // Nobody waits who could have said for how long.
    let timeout_ms = contract.contract().timeout_ms();
    let ms_max = if contract.contract().is_long() { LONG_RESEND_MS_MAX } else { RESEND_MS_MAX };
    let deadline = within_ms(timeout_ms.min(ms_max));
    let leg = Leg { deadline, remarks: None, continuation: servanda_upstream::Continuation::default() };
    record.dispatched_at = Some(core.clock.now());
    let param_headers = headers::of(&contract.contract().affordance.input_schema, fenced.arguments());
    let delivery = Delivery { param_headers, ..outline.delivery(leg) };
    core.cache.changed(&member.id, &effect.order.resources);
    let mutation = effect.class.mutates().then(|| core.lookout.mutations.begin());
    let performed = member.server.perform(fenced, delivery).await;
    core.cache.changed(&member.id, &effect.order.resources);
    member.guard.learn(&performed.outcome);
    let was_sent_before = performed.fenced.was_sent_before();
    let Judged { end, outcome, refusal, quarantine } =
        judge(contract, &record.call_id, performed.outcome, was_sent_before);
    record.finished_at = Some(core.clock.now());
    record.outcome = outcome;
    record.class = refusal.as_ref().map(|refusal| refusal.error_code);
    record.refusal = refusal;
    record.attempts = Some(effect.dispatches).filter(|dispatches| *dispatches > 1);
    records::settle(core, Settling { claim, end, record, quarantine, held }).await;
    if let Some(mutation) = mutation {
        mutation.end(outcome);
    }
}

/// What became of something that was sent again or followed on.
pub(crate) struct Judged {
    pub(crate) end: End,
    pub(crate) outcome: Outcome,
    pub(crate) refusal: Option<Refusal>,
    pub(crate) quarantine: Option<bytes::Bytes>,
}

impl Judged {
    fn refused(refusal: Refusal, outcome: Outcome) -> Self {
        Self { end: records::end_of_refusal(&refusal), outcome, refusal: Some(refusal), quarantine: None }
    }
}

/// What an answer, or that there is none, means for the effect and the record.
pub(crate) fn judge(
    contract: &CompiledContract,
    call_id: &CallId,
    outcome: Result<Answer, PerformFailure>,
    was_sent_before: bool,
) -> Judged {
    let answer = match outcome {
        Ok(answer) => answer,
        Err(failure) => {
            let (refusal, outcome) =
                upstream_failure::interpret(call_id, contract.contract(), &failure, was_sent_before);
            return Judged::refused(refusal, outcome);
        }
    };
    let members: RawObject<'_> = serde_json::from_slice(&answer.result).unwrap_or_default();
    if members.get(field::RESULT_TYPE).is_some_and(|raw| raw.get() != r#""complete""#)
        || members.get(field::TASK).is_some()
    {
        let refusal = refusals::lost_evidence(call_id.clone());
        return Judged::refused(*refusal, Outcome::Unknown);
    }
    match observe::observe(contract, &answer.result) {
        Ok(observed) => {
            let end = records::end_of(&observed, contract.contract(), &answer.result);
            let outcome = if matches!(end, End::Completed(_)) { Outcome::Completed } else { Outcome::ToolError };
            Judged { end, outcome, refusal: None, quarantine: None }
        }
        Err(broken) => {
            let refusal = refusals::quarantined(call_id, contract.contract().effect_class(), broken);
            Judged { quarantine: Some(answer.result), ..Judged::refused(refusal, Outcome::Quarantined) }
        }
    }
}

/// The record of what is done about an effect that was left behind: a call of its own that goes on from the first.
fn record(core: &Core, effect: &Effect) -> CallRecord {
    let order = &effect.order;
    let caller = Caller {
        client: Some("servanda recovery".to_owned()),
        ..Caller::named(&effect.key.tenant, &effect.key.principal)
    };
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
        contract: Some(servanda_contract::record::ContractReference {
            name: effect.key.tool.clone(),
            version: order.contract_version.clone(),
            digest: order.contract_digest,
            upstream: order.upstream.clone(),
            upstream_tool: order.upstream_tool.clone(),
            effect_class: effect.class,
        }),
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
