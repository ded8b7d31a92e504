//! The last moments before a byte leaves: which operation the call is, the state it goes on from, and the mark without
//! which it is not sent.

use std::{sync::Arc, time::Duration};

use servanda_authority::Authenticated;
use servanda_contract::{
    CallId, CallRecord, GateName, Refusal, faults,
    record::{Decision, Outcome, Verdict},
    tool::EffectClass,
};
use servanda_gates::{
    Begun, Claimed, Current, Fenced, Funded, Intent, NotFenced, Permit, Question, Stopwatch as _, WhyNot, begin,
    budget::Cleared,
    effect::{self, Change, ClientKey, Effect, EffectKey, EffectState, End, Event, Reply, Target},
    fence_funded,
};
use servanda_mcp::{RpcError, envelope::code};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    blocked::Waiting,
    passage::{Mark, NotSent, Passage},
    way::{Round, Way},
};
use crate::{
    asking::{self, Asking, Unanswered},
    core::Core,
    gateway::CallAnswer,
    recovery, refusals, revocation,
    turns::{Changes, Crowded},
};

/// How often, and how long after the first time, it is looked whether a mark that came too late is there after all.
const ABANDON_ATTEMPTS_MAX: u32 = 6;
const ABANDON_WAIT_MS: u64 = 500;
/// The longest lease of a claim.
const LEASE_MS_MAX: u64 = 10_000;

/// What a call has of time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    /// How long a dispatch may take.
    pub(super) timeout_ms: u64,
    /// When the answer has to be there.
    pub(super) deadline: Instant,
}

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

    /// Waits until nobody who came before changes the same thing, where the contract wants that. It comes before everything
    /// that is asked or claimed: what is asked must still be so when the call is sent. Half of the time is for the call
    /// itself, because one that is sent too late ends unknown.
    pub(super) async fn take_turn(
        &mut self,
        permit: &Permit,
        key: &ClientKey,
        deadline: Instant,
        cancel: &CancellationToken,
    ) -> Result<(), Box<Refusal>> {
        if !permit.takes_turns() {
            return Ok(());
        }
        let started_us = self.stopwatch.elapsed_us();
        let changes = Changes { key: permit.effect_key(key.clone()), resources: permit.changes() };
        let effect_key = changes.key.clone();
        let call_id = permit.call_id();
        let refused = match self.core.turns.line_up(changes) {
            Ok(turn) if turn.has_come() => {
                self.turn = Some(turn);
                return Ok(());
            }
            // Who only asks for an answer that is there need not wait for it.
            Ok(_) if self.is_over(key, effect_key).await => return Ok(()),
            Ok(turn) => {
                let now = Instant::now();
                let half = now + deadline.saturating_duration_since(now) / 2;
                // Before its turn there is nothing that a caller could ask about, so that it is told in time to come again.
                let until = self.work.as_ref().map_or(half, |work| half.min(work.patient_until));
                let come = tokio::select! {
                    come = turn.comes(until) => Some(come),
                    () = cancel.cancelled() => None,
                };
                match come {
                    Some(true) => {
                        self.turn = Some(turn);
                        return Ok(());
                    }
                    Some(false) => refusals::not_its_turn(call_id.clone()),
                    None => refusals::given_up(call_id.clone()),
                }
            }
            Err(Crowded) => refusals::not_its_turn(call_id.clone()),
        };
        self.trail.note(GateName::Fence, false, started_us);
        Err(refused)
    }

    /// Whether an operation is done, so that it is only answered.
    async fn is_over(&self, key: &ClientKey, effect_key: EffectKey) -> bool {
        use EffectState as State;
        if !key.can_come_again() {
            return false;
        }
        let found = self.core.effects.find(Target::Key(effect_key)).await.ok().flatten();
        let done = [State::Completed, State::FailedFinal, State::Compensated, State::Expired];
        found.is_some_and(|effect| done.contains(&effect.state))
    }

    /// Marks the call as an effect that is its own to dispatch, on record before it is sent. A store that does not answer in
    /// time refuses the call; should the mark still be made later, it is taken back. Where the contract wants to know
    /// something first, the call is claimed, and let out when it is known.
    pub(super) async fn fence(
        &mut self,
        cleared: Cleared,
        key: ClientKey,
        times: Times,
        authority: &Authenticated,
        cancel: &CancellationToken,
    ) -> Result<Fenced, NotSent> {
        // As late as can be: it may have waited for its turn.
        self.recheck(authority, times.deadline).await?;
        let started_us = self.stopwatch.elapsed_us();
        let (effect_key, is_due) = (cleared.permit().effect_key(key.clone()), cleared.is_due());
        let claimed = match self.begin(cleared, key, times, authority, cancel).await {
            Ok(Begun::Claimed(claimed)) => *claimed,
            Ok(Begun::Fenced(fenced)) => {
                if is_due {
                    // It was sent before, and paid for then.
                    self.trail.skip(GateName::Budget);
                }
                self.trail.note(GateName::Fence, true, started_us);
                self.mark(fenced.claim(), fenced.effect_class());
                return Ok(*fenced);
            }
            Err(not_sent) => {
                self.trail.note(GateName::Fence, false, started_us);
                return Err(not_sent);
            }
        };
        let class = claimed.permit().effect_class();
        self.mark(claimed.claim(), class);
        let current = Box::pin(self.look(claimed, times.deadline, cancel)).await?;
        // And asked something.
        self.recheck(authority, times.deadline).await?;
        let funded = Box::pin(self.fund(current, times.deadline)).await?;
        let started_us = self.stopwatch.elapsed_us();
        let fenced = Box::pin(self.fence_funded(funded, (effect_key, class), times.deadline)).await;
        self.trail.note(GateName::Fence, fenced.is_ok(), started_us);
        fenced
    }

    /// Whether the caller's credential is still good.
    async fn recheck(&mut self, authority: &Authenticated, deadline: Instant) -> Result<(), NotSent> {
        let (core, call_id) = (self.core, &self.record.call_id);
        let started_us = self.stopwatch.elapsed_us();
        let rechecked = tokio::time::timeout_at(deadline, revocation::recheck(core, authority, call_id)).await;
        let rechecked = rechecked.unwrap_or_else(|_| Err(revocation::not_in_time(call_id.clone())));
        rechecked.map_err(|refusal| {
            self.trail.note(GateName::Scope, false, started_us);
            NotSent::Refused(refusal)
        })
    }

    fn mark(&mut self, claim: Option<&effect::Claim>, class: EffectClass) {
        let Some(claim) = claim else { return };
        self.record.effect_id = Some(claim.id.to_string());
        self.mark = Some(Mark { claim: claim.clone(), held: self.core.in_hand.hold(&claim.id), class });
    }

    /// Asks what the contract wants to know before the call. Whoever gives up meanwhile has sent nothing.
    async fn look(
        &mut self,
        claimed: Claimed,
        deadline: Instant,
        cancel: &CancellationToken,
    ) -> Result<Current, NotSent> {
        let questions = claimed.questions();
        if questions.is_empty() {
            return claimed.judge(&[]).map_err(NotSent::Refused);
        }
        let started_us = self.stopwatch.elapsed_us();
        let asked = async {
            let mut answers = Vec::new();
            for Question { tool, arguments, .. } in questions {
                let caller = claimed.permit().proposal().caller.clone();
                let asking = Asking { tool: &tool, arguments, caller };
                let answer = asking::ask(self.core, self.scene, asking, deadline).await;
                let answer = answer.map_err(Unanswered::into_words);
                let stop = answer.is_err();
                answers.push(answer);
                if stop {
                    break;
                }
            }
            answers
        };
        let answers = tokio::select! {
            biased;
            () = cancel.cancelled() => None,
            answers = asked => Some(answers),
        };
        let call_id = claimed.permit().call_id().clone();
        let current = match answers {
            Some(answers) => claimed.judge(&answers),
            None => Err(refusals::given_up(call_id)),
        };
        self.trail.note(GateName::State, current.is_ok(), started_us);
        current.map_err(NotSent::Refused)
    }

    async fn fence_funded(
        &mut self,
        funded: Funded,
        (effect_key, class): (EffectKey, EffectClass),
        deadline: Instant,
    ) -> Result<Fenced, NotSent> {
        let call_id = self.record.call_id.clone();
        let is_keyed = effect_key.client_key.can_come_again() && class.mutates();
        self.asked_at = Instant::now();
        let fencing = fence_funded(funded, self.dispatching_record(), self.core.effects.as_ref());
        let Ok(fenced) = tokio::time::timeout_at(deadline, fencing).await else {
            // Nobody knows whether the mark was made; whoever looks for it takes it back.
            self.mark = None;
            self.bill.leave();
            abandon(self.core, effect_key, call_id.clone());
            return Err(NotSent::Refused(refusals::fence_too_slow(call_id, class, is_keyed)));
        };
        let why = match fenced {
            Ok(fenced) => return Ok(fenced),
            Err(why) => why,
        };
        self.mark = None;
        match why {
            WhyNot::NotOnRecord(refusal) => {
                self.bill.leave();
                abandon(self.core, effect_key, call_id);
                Err(NotSent::Refused(refusal))
            }
            WhyNot::Reply { reply, effect } => Err(NotSent::Standing(reply, effect)),
        }
    }

    /// Where nobody knows and a status tool can be asked, it is asked once, and then it is tried again. Where another gateway
    /// changes the same, it is waited for.
    async fn begin(
        &mut self,
        mut cleared: Cleared,
        key: ClientKey,
        times: Times,
        authority: &Authenticated,
        cancel: &CancellationToken,
    ) -> Result<Begun, NotSent> {
        let Times { timeout_ms, deadline } = times;
        let (effect_key, class) = (cleared.permit().effect_key(key.clone()), cleared.permit().effect_class());
        let (mut asked, mut waiting) = (None, Waiting::until_half(deadline));
        loop {
            let call_id = cleared.permit().call_id().clone();
            let intent = self.intent(key.clone(), timeout_ms);
            let lease_ms = lease_ms(deadline);
            self.asked_at = Instant::now();
            let begun = begin(cleared, intent, lease_ms, self.core.effects.as_ref());
            let Ok(begun) = tokio::time::timeout_at(deadline, begun).await else {
                abandon(self.core, effect_key, call_id.clone());
                self.unread_key = None;
                let can_come_again = key.can_come_again() && class.mutates();
                return Err(NotSent::Refused(refusals::fence_too_slow(call_id, class, can_come_again)));
            };
            let unread_key = self.unread_key.take();
            let NotFenced { cleared: back, why } = match begun {
                Ok(begun) => return Ok(begun),
                Err(not_fenced) => *not_fenced,
            };
            match why {
                WhyNot::NotOnRecord(refusal) => {
                    abandon(self.core, effect_key, call_id);
                    return Err(NotSent::Refused(refusal));
                }
                WhyNot::Reply { reply: Reply::Ask(claim), effect: Some(effect) } if asked.is_none() => {
                    let asking = recovery::ask_and_settle(self.core, self.scene, claim, &effect, deadline);
                    let replied = Box::pin(asking).await;
                    self.unread_key = unread_key;
                    // A server was waited for.
                    self.recheck(authority, deadline).await?;
                    (asked, cleared) = (Some(replied), back);
                }
                WhyNot::Reply { reply: Reply::Blocked(other), effect } => {
                    self.unread_key = unread_key;
                    tokio::select! {
                        biased;
                        () = cancel.cancelled() => return Err(NotSent::Refused(refusals::given_up(call_id))),
                        goes_on = waiting.wait() => {
                            if !goes_on {
                                tracing::info!(%call_id, %other, "another effect that changes the same did not end in time");
                                return Err(NotSent::Standing(Reply::Blocked(other), effect));
                            }
                        }
                    }
                    self.recheck(authority, deadline).await?;
                    cleared = back;
                }
                WhyNot::Reply { reply: Reply::Ask(_), effect } => {
                    let may_be_under_way = asked.flatten().filter(|reply| matches!(reply, Reply::Running { .. }));
                    return Err(NotSent::Standing(may_be_under_way.unwrap_or(Reply::Unknown), effect));
                }
                WhyNot::Reply { reply, effect } => return Err(NotSent::Standing(reply, effect)),
            }
        }
    }

    fn intent(&self, key: ClientKey, timeout_ms: u64) -> Intent {
        Intent {
            key,
            owner: self.core.owner.clone(),
            timeout_ms,
            continues: self.nonce.clone(),
            outlasts: self.work.is_some(),
            record: self.dispatching_record(),
            accepts_lost_commits: self.core.accepts_lost_commits,
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
            // A claim is settled like a dispatch that never left.
            let open = |effect: &Effect| matches!(effect.state, EffectState::Claimed | EffectState::Dispatching);
            if let Some(effect) = own.filter(open) {
                let end = End::NotExecuted("it was not on record in time, so it was not sent".to_owned());
                let event = Event::Settle(effect.claim(), end);
                let change = Change {
                    target: Target::Id(effect.id),
                    event,
                    record: None,
                    quarantine: None,
                    notices: Vec::new(),
                };
                if inside.effects.apply(change).await.is_ok() {
                    return;
                }
            }
            tokio::time::sleep(Duration::from_millis(ABANDON_WAIT_MS << attempt)).await;
        }
    });
}

/// How long nobody else takes a claim over: as long as the call may take, but not so long that a crash is felt.
fn lease_ms(deadline: Instant) -> u64 {
    let left = deadline.saturating_duration_since(Instant::now());
    u64::try_from(left.as_millis()).unwrap_or(u64::MAX).min(faults::limit_ms("SERVANDA_LEASE_MS", LEASE_MS_MAX))
}

fn no_time() -> RpcError {
    RpcError::new(code::INTERNAL_ERROR, "that the `requestState` is used could not be put on record in time")
        .with_hint("nothing was sent; operators: `servanda doctor` looks at the ledger")
}
