//! The last moments before a byte leaves: which operation the call is, the state it goes on from, and the mark without
//! which it is not sent.

use std::{sync::Arc, time::Duration};

use servanda_contract::{
    CallId, CallRecord, GateName, Refusal,
    record::{Decision, Outcome, Verdict},
};
use servanda_gates::{
    Fenced, Intent, NotFenced, Permit, Stopwatch as _, WhyNot,
    effect::{Change, ClientKey, EffectKey, EffectState, End, Event, Reply, Target},
    fence,
};
use servanda_mcp::{RpcError, envelope::code};
use tokio::time::Instant;

use super::{
    passage::{Mark, NotSent, Passage},
    way::{Round, Way},
};
use crate::{core::Core, gateway::CallAnswer, recovery, refusals};

/// How often, and how long after the first time, it is looked whether a mark that came too late is there after all.
const ABANDON_ATTEMPTS_MAX: u32 = 6;
const ABANDON_WAIT_MS: u64 = 500;

impl Passage<'_> {
    /// Which operation the call is. One that goes on from a state is the operation that the state belongs to.
    pub(super) async fn identify(&self, permit: &Permit, way: &Way) -> Result<ClientKey, Box<Refusal>> {
        let own = self.core.keys.of(permit).await;
        let own = own.map_err(|error| refusals::no_key(permit.call_id().clone(), &error))?;
        match way.round.as_ref().and_then(|round| round.key.as_ref()) {
            Some(carried) if own.can_come_again() && own != *carried => {
                Err(Box::new(refusals::of_another_operation(permit.call_id().clone())))
            }
            Some(carried) => Ok(carried.clone()),
            None => Ok(own),
        }
    }

    /// Uses the state up that a call which may change something goes on from: what it stands for happens once. Such a call
    /// without a state was asked nothing, so that it has nothing to answer. Reads may be repeated, and told anything. What
    /// has a key of its own needs no note: its effect knows which state it waits for.
    pub(super) async fn enter_round(
        &mut self,
        permit: &Permit,
        key: &ClientKey,
        way: &mut Way,
    ) -> Result<(), RpcError> {
        if !permit.effect_class().mutates() {
            self.nonce = way.round.as_ref().map(|round| round.nonce.clone());
            return Ok(());
        }
        let Some(Round { nonce, .. }) = way.round.take() else {
            way.continuation.input_responses = None;
            return Ok(());
        };
        if !key.can_come_again() {
            let deadline = self.deadline(permit);
            let spent = tokio::time::timeout_at(deadline, self.core.bridge.spend(&nonce, permit.call_id()));
            spent.await.unwrap_or_else(|_| Err(no_time()))?;
        }
        self.nonce = Some(nonce);
        Ok(())
    }

    /// Gives a state back on whose behalf nothing was sent.
    pub(super) async fn leave_round(&self, unused: Option<String>) {
        if let Some(nonce) = unused {
            self.core.bridge.unspend(&nonce).await;
        }
    }

    pub(super) async fn refuse_round(mut self, error: RpcError) -> CallAnswer {
        let refusal = refusals::round_refused(&self.record.call_id, &error);
        self.finish(Outcome::Refused, refusal.error_code, Some(&refusal));
        self.put_on_record(false).await;
        CallAnswer::Failed(error)
    }

    /// Marks the call as an effect that is its own to dispatch, on record before it is sent. A store that does not answer in
    /// time refuses the call; should the mark still be made later, it is taken back.
    pub(super) async fn fence(
        &mut self,
        permit: Permit,
        key: ClientKey,
        timeout_ms: u64,
        deadline: Instant,
    ) -> Result<Fenced, NotSent> {
        let started_us = self.stopwatch.elapsed_us();
        let fenced = self.fence_asking(permit, key, timeout_ms, deadline).await;
        self.trail.note(GateName::Fence, fenced.is_ok(), started_us);
        if let Ok(fenced) = &fenced
            && let Some(claim) = fenced.claim()
        {
            self.record.effect_id = Some(claim.id.to_string());
            self.mark = Some(Mark { claim: claim.clone(), held: self.core.in_hand.hold(&claim.id) });
        }
        fenced
    }

    /// Where nobody knows and a status tool can be asked, it is asked once, and then it is tried again.
    async fn fence_asking(
        &self,
        mut permit: Permit,
        key: ClientKey,
        timeout_ms: u64,
        deadline: Instant,
    ) -> Result<Fenced, NotSent> {
        let effect_key = permit.effect_key(key.clone());
        let mut asked = false;
        loop {
            let call_id = permit.call_id().clone();
            let intent = Intent {
                key: key.clone(),
                owner: self.core.owner.clone(),
                timeout_ms,
                continues: self.nonce.clone(),
                record: self.dispatching_record(),
                accepts_lost_commits: self.core.accepts_lost_commits,
            };
            let fenced = tokio::time::timeout_at(deadline, fence(permit, intent, self.core.effects.as_ref())).await;
            let Ok(fenced) = fenced else {
                abandon(self.core, effect_key, call_id.clone());
                return Err(NotSent::Refused(refusals::fence_too_slow(call_id)));
            };
            let NotFenced { permit: back, why } = match fenced {
                Ok(fenced) => return Ok(fenced),
                Err(not_fenced) => *not_fenced,
            };
            match why {
                WhyNot::NotOnRecord(refusal) => {
                    abandon(self.core, effect_key, call_id);
                    return Err(NotSent::Refused(refusal));
                }
                WhyNot::Reply { reply: Reply::Ask(claim), effect: Some(effect) } if !asked => {
                    recovery::ask_and_settle(self.core, self.scene, claim, &effect, deadline).await;
                    (asked, permit) = (true, back);
                }
                WhyNot::Reply { reply: Reply::Ask(_), effect } => {
                    return Err(NotSent::Standing(Reply::Unknown, effect));
                }
                WhyNot::Reply { reply, effect } => return Err(NotSent::Standing(reply, effect)),
            }
        }
    }

    /// What a crash leaves behind: everything up to the fence passed, and whether a byte left is not known.
    fn dispatching_record(&self) -> CallRecord {
        let mut verdicts = self.trail.verdicts().to_vec();
        verdicts.push(Verdict { gate: GateName::Fence, decision: Decision::Passed, took_us: 0 });
        let dispatched_at = Some(self.core.clock.now());
        CallRecord { verdicts, dispatched_at, outcome: Outcome::Dispatching, ..self.record.clone() }
    }
}

/// Takes a mark back that was not made in time, or not for all one knows, once it is there: nothing was sent under it. Where
/// too many are looked for already, it is left to become unknown, which is safe.
fn abandon(core: &Arc<Core>, key: EffectKey, call_id: CallId) {
    let Ok(place) = Arc::clone(&core.abandoning).try_acquire_owned() else { return };
    let inside = Arc::clone(core);
    tokio::spawn(async move {
        let _place = place;
        for attempt in 0..ABANDON_ATTEMPTS_MAX {
            let found = inside.effects.find(Target::Key(key.clone())).await.ok().flatten();
            let own = found.filter(|effect| effect.call_id == call_id && effect.owner == inside.owner);
            if let Some(effect) = own.filter(|effect| effect.state == EffectState::Dispatching) {
                let end = End::NotExecuted("it was not on record in time, so it was not sent".to_owned());
                let event = Event::Settle(effect.claim(), end);
                let change = Change { target: Target::Id(effect.id), event, record: None, quarantine: None };
                if inside.effects.apply(change).await.is_ok() {
                    return;
                }
            }
            tokio::time::sleep(Duration::from_millis(ABANDON_WAIT_MS << attempt)).await;
        }
    });
}

fn no_time() -> RpcError {
    RpcError::new(code::INTERNAL_ERROR, "that the `requestState` is used could not be put on record in time")
        .with_hint("nothing was sent; operators: `servanda doctor` looks at the ledger")
}
