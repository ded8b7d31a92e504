//! Which state follows on which event. A pure function; every store runs it inside the transaction that reads the effect
//! and writes what comes of it, so that no two of them can disagree about what is safe.
//!
//! Safety is in the compare of epoch and state, never in a time: leases and deadlines only say when to stop waiting.

use servanda_contract::{Digest, tool::EffectClass};

use super::{
    Awaits, Begin, ByHand, Claim, Effect, EffectId, EffectState, End, Event, Go, LostWindow, OwnerId, Reply,
    Settlement, StoredAnswer,
};

/// How much later than its own time limit a dispatch counts as nobody's: its owner has given up long before.
const OVERDUE_GRACE_MS: u64 = 5_000;
/// When to ask again for something that is under way, at the least and at the most.
const RETRY_AFTER_MS: (u64, u64) = (250, 30_000);
/// How much of an upstream's window is not used, so that its clock may differ from ours: a tenth, this at the most.
const KEY_WINDOW_MARGIN_MS_MAX: u64 = 300_000;

/// What is true around an effect at the moment of the event, as the store sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Circumstances {
    /// The store's time.
    pub now_ms: u64,
    /// Whether the effect's owner has not been heard of for a while.
    pub owner_is_gone: bool,
    /// For a call without a key: an effect of the same caller and payload that ended unknown.
    pub twin: Option<EffectId>,
    /// For a call that takes turns: another effect that is under way and changes the same.
    pub blocked_by: Option<EffectId>,
    /// A time whose commits the store has lost, while that still matters.
    pub lost_window: Option<LostWindow>,
}

impl Circumstances {
    /// Nothing but the time.
    pub const fn at(now_ms: u64) -> Self {
        Self { now_ms, owner_is_gone: false, twin: None, blocked_by: None, lost_window: None }
    }
}

/// What an event comes to.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The effect afterwards, if it changes.
    pub change: Option<Effect>,
    /// What to tell.
    pub reply: Reply,
}

/// What follows on an event.
pub fn step(effect: Option<&Effect>, event: &Event, around: &Circumstances) -> Step {
    let Some(effect) = effect else {
        return match event {
            Event::Begin(begin) => first(begin, around),
            _ => Step::reply(Reply::NotFound),
        };
    };
    match event {
        Event::Begin(begin) => again(effect, begin, around),
        Event::Fence(claim) => fence(effect, claim, around.now_ms),
        Event::Release(claim, why) => settle(effect, claim, &End::NotExecuted(why.clone()), around.now_ms),
        Event::Settle(claim, end) => settle(effect, claim, end, around.now_ms),
        Event::Recover(owner) => recover(effect, owner, around),
        Event::SettleByHand(by_hand) => settle_by_hand(effect, by_hand, around.now_ms),
        Event::Expire => expire(effect, around.now_ms),
    }
}

fn first(begin: &Begin, around: &Circumstances) -> Step {
    if let Some(twin) = &around.twin {
        return Step::reply(Reply::Twin(twin.clone()));
    }
    let now_ms = around.now_ms;
    let effect = Effect {
        id: begin.id.clone(),
        key: begin.key.clone(),
        request: begin.request,
        class: begin.class,
        state: EffectState::Claimed,
        epoch: 0,
        owner: begin.owner.clone(),
        call_id: begin.call_id.clone(),
        order: begin.order.clone(),
        lease_until_ms: 0,
        overdue_at_ms: 0,
        awaits: None,
        dispatches: 0,
        first_dispatched_ms: None,
        answer: None,
        reason: None,
        settlement: None,
        created_ms: now_ms,
        changed_ms: now_ms,
        expires_ms: now_ms.saturating_add(begin.order.dedup_window_ms),
    };
    match &around.lost_window {
        Some(lost) if begin.key.client_key.can_come_again() => {
            let effect = lost.may_have_dispatched(effect);
            let step = after_uncertainty(&effect, Some(begin), around);
            Step { change: step.change.or(Some(effect)), ..step }
        }
        _ => take(&effect, begin, around),
    }
}

/// What whoever asks for the same again is answered, if it is over: nothing is done for it.
pub fn replay(effect: &Effect, request: Digest, now_ms: u64) -> Option<StoredAnswer> {
    let is_done = matches!(effect.state, EffectState::Completed | EffectState::FailedFinal | EffectState::Compensated);
    let is_same = effect.request == request && !is_over(effect, now_ms);
    (is_done && is_same).then(|| stored(effect))
}

fn stored(effect: &Effect) -> StoredAnswer {
    let lost = || StoredAnswer::Known("the answer was not kept".to_owned());
    effect.answer.clone().unwrap_or_else(lost)
}

/// A key that was used before.
fn again(effect: &Effect, begin: &Begin, around: &Circumstances) -> Step {
    let now_ms = around.now_ms;
    if effect.request != begin.request {
        return Step::reply(Reply::Mismatch);
    }
    match effect.state {
        EffectState::Expired => Step::reply(Reply::KeyExpired),
        // Expiry does not wait for whoever clears up, so that no retry can come in between.
        _ if is_over(effect, now_ms) => Step { change: Some(tombstone(effect, now_ms)), reply: Reply::KeyExpired },
        EffectState::Completed | EffectState::FailedFinal | EffectState::Compensated => {
            Step::reply(Reply::Replay(stored(effect)))
        }
        EffectState::FailedRetryable => take(effect, begin, around),
        EffectState::Claimed if now_ms >= effect.lease_until_ms || around.owner_is_gone => take(effect, begin, around),
        EffectState::Claimed => running(effect, effect.lease_until_ms, now_ms),
        EffectState::Dispatching if goes_on(effect, begin) => take(effect, begin, around),
        EffectState::Dispatching if is_orphan(effect, around) => after_uncertainty(effect, Some(begin), around),
        EffectState::Dispatching => running(effect, effect.overdue_at_ms, now_ms),
        EffectState::OutcomeUnknown => after_uncertainty(effect, Some(begin), around),
    }
}

/// What may follow when nobody knows whether it was done, by class. With a call that wants it, what may be sent again is.
fn after_uncertainty(effect: &Effect, begin: Option<&Begin>, around: &Circumstances) -> Step {
    let now_ms = around.now_ms;
    match (effect.class, begin) {
        (EffectClass::R, Some(begin)) => take(effect, begin, around),
        (EffectClass::K, Some(begin)) if in_key_window(effect, now_ms) => take(effect, begin, around),
        (EffectClass::Q, _) => Step::reply(Reply::Ask(effect.claim())),
        _ if effect.state == EffectState::OutcomeUnknown => Step::reply(Reply::Unknown),
        _ => {
            let why = "its owner went away or its time passed before anybody said how it ended";
            Step { change: Some(unknown(effect, why.to_owned(), now_ms)), reply: Reply::Unknown }
        }
    }
}

/// Makes it the caller's, one epoch on, unless another that changes the same is under way.
fn take(effect: &Effect, begin: &Begin, around: &Circumstances) -> Step {
    if let Some(other) = &around.blocked_by {
        return Step::reply(Reply::Blocked(other.clone()));
    }
    let now_ms = around.now_ms;
    let mut taken = Effect {
        epoch: effect.epoch.saturating_add(1),
        owner: begin.owner.clone(),
        call_id: begin.call_id.clone(),
        // The same payload by a newer contract of the same major version is still the same payload, sent the newer way; but
        // what was sent under a key before is sent in the same bytes again.
        order: if effect.dispatches == 0 { begin.order.clone() } else { effect.order.clone() },
        class: if effect.dispatches == 0 { begin.class } else { effect.class },
        awaits: None,
        answer: None,
        reason: None,
        changed_ms: now_ms,
        expires_ms: now_ms.saturating_add(effect.order.dedup_window_ms),
        ..effect.clone()
    };
    match begin.go {
        Go::Claim { lease_ms } if effect.dispatches == 0 => {
            taken.state = EffectState::Claimed;
            taken.lease_until_ms = now_ms.saturating_add(lease_ms);
        }
        // What may have left cannot be taken back to a claim.
        Go::Claim { .. } | Go::Dispatch => dispatch(&mut taken, now_ms),
    }
    let claim = taken.claim();
    Step { change: Some(taken), reply: Reply::Mine(claim) }
}

fn dispatch(effect: &mut Effect, now_ms: u64) {
    effect.state = EffectState::Dispatching;
    effect.dispatches = effect.dispatches.saturating_add(1);
    effect.first_dispatched_ms = effect.first_dispatched_ms.or(Some(now_ms));
    effect.overdue_at_ms = now_ms.saturating_add(effect.order.timeout_ms).saturating_add(OVERDUE_GRACE_MS);
}

/// I1: bytes leave only after this compare-and-set.
fn fence(effect: &Effect, claim: &Claim, now_ms: u64) -> Step {
    if !effect.is_of(claim) || effect.state != EffectState::Claimed {
        return Step::reply(Reply::Stale);
    }
    // A claim that is not good any more has kept nobody from changing the same.
    if effect.order.takes_turns() && now_ms >= effect.lease_until_ms {
        return Step::reply(Reply::Stale);
    }
    let mut fenced = Effect { changed_ms: now_ms, ..effect.clone() };
    dispatch(&mut fenced, now_ms);
    Step { change: Some(fenced), reply: Reply::Mine(claim.clone()) }
}

fn settle(effect: &Effect, claim: &Claim, end: &End, now_ms: u64) -> Step {
    use EffectState as State;
    if !effect.is_of(claim) {
        return Step::reply(Reply::Stale);
    }
    let (state, answer, reason) = match (effect.state, end) {
        // I4: a late real answer of the same epoch settles what nobody knew.
        (State::Dispatching | State::OutcomeUnknown, End::Completed(answer)) => {
            (State::Completed, Some(answer.clone()), None)
        }
        (State::Claimed | State::Dispatching | State::OutcomeUnknown, End::Failed(answer)) => {
            (State::FailedFinal, Some(answer.clone()), None)
        }
        // Nothing left this time; what left before is as uncertain as it was.
        (State::Dispatching, End::NotExecuted(why)) if effect.dispatches > 1 && effect.class != EffectClass::R => {
            (State::OutcomeUnknown, None, Some(why.clone()))
        }
        (State::Claimed | State::Dispatching, End::NotExecuted(why)) => {
            (State::FailedRetryable, None, Some(why.clone()))
        }
        (State::Dispatching | State::OutcomeUnknown, End::Absent(why)) if effect.class == EffectClass::Q => {
            (State::FailedRetryable, None, Some(why.clone()))
        }
        (State::Dispatching, End::Unknown(why)) => (State::OutcomeUnknown, None, Some(why.clone())),
        (State::Dispatching, End::Awaits(awaits, until_ms)) => return wait(effect, awaits, *until_ms, now_ms),
        _ => return Step::reply(Reply::Stale),
    };
    let mut settled = Effect { state, answer, reason, awaits: None, ..effect.clone() };
    settled.settled_at(now_ms);
    // It never ran, so that whatever was sent before does not count against the next attempt.
    if state == State::FailedRetryable {
        (settled.dispatches, settled.first_dispatched_ms) = (0, None);
    }
    Step { change: Some(settled), reply: Reply::Settled }
}

fn wait(effect: &Effect, awaits: &Awaits, until_ms: u64, now_ms: u64) -> Step {
    let waiting =
        Effect { awaits: Some(awaits.clone()), overdue_at_ms: until_ms, changed_ms: now_ms, ..effect.clone() };
    Step { change: Some(waiting), reply: Reply::Settled }
}

fn recover(effect: &Effect, owner: &OwnerId, around: &Circumstances) -> Step {
    let now_ms = around.now_ms;
    match effect.state {
        EffectState::Claimed if now_ms >= effect.lease_until_ms || around.owner_is_gone => settle(
            effect,
            &effect.claim(),
            &End::NotExecuted("its owner went away; nothing was sent".to_owned()),
            now_ms,
        ),
        EffectState::Dispatching if is_orphan(effect, around) => match effect.class {
            // Nobody waits for it, and it changed nothing.
            EffectClass::R => {
                let end = End::NotExecuted("its owner went away; it changes nothing".to_owned());
                settle(effect, &effect.claim(), &end, now_ms)
            }
            EffectClass::K if in_key_window(effect, now_ms) => {
                let mut taken = Effect {
                    epoch: effect.epoch.saturating_add(1),
                    owner: owner.clone(),
                    awaits: None,
                    changed_ms: now_ms,
                    ..effect.clone()
                };
                dispatch(&mut taken, now_ms);
                let claim = taken.claim();
                Step { change: Some(taken), reply: Reply::Mine(claim) }
            }
            _ => after_uncertainty(effect, None, around),
        },
        _ => Step::reply(Reply::NotNow),
    }
}

/// I4: a person settles what nobody knows, and nothing else.
fn settle_by_hand(effect: &Effect, by_hand: &ByHand, now_ms: u64) -> Step {
    if effect.state != EffectState::OutcomeUnknown {
        return Step::reply(Reply::NotNow);
    }
    let ByHand { completed, by, evidence } = by_hand.clone();
    let mut settled = effect.clone();
    if completed {
        settled.state = EffectState::Completed;
        settled.answer = Some(StoredAnswer::Known(format!("a person settled it as completed: {evidence}")));
    } else {
        settled.state = EffectState::FailedRetryable;
        (settled.dispatches, settled.first_dispatched_ms) = (0, None);
    }
    settled.settlement = Some(Settlement { by, evidence, at_ms: now_ms });
    settled.settled_at(now_ms);
    Step { change: Some(settled), reply: Reply::Settled }
}

fn expire(effect: &Effect, now_ms: u64) -> Step {
    if is_over(effect, now_ms) {
        Step { change: Some(tombstone(effect, now_ms)), reply: Reply::Settled }
    } else {
        Step::reply(Reply::NotNow)
    }
}

fn running(effect: &Effect, until_ms: u64, now_ms: u64) -> Step {
    let (least, most) = RETRY_AFTER_MS;
    let retry_after_ms = until_ms.saturating_sub(now_ms).clamp(least, most);
    Step::reply(Reply::Running { retry_after_ms, awaits: effect.awaits.clone() })
}

fn unknown(effect: &Effect, why: String, now_ms: u64) -> Effect {
    let mut unknown = Effect { state: EffectState::OutcomeUnknown, reason: Some(why), awaits: None, ..effect.clone() };
    unknown.settled_at(now_ms);
    unknown
}

/// Nothing is left of it but that it was there.
fn tombstone(effect: &Effect, now_ms: u64) -> Effect {
    let mut tombstone = Effect {
        state: EffectState::Expired,
        answer: None,
        reason: None,
        awaits: None,
        changed_ms: now_ms,
        ..effect.clone()
    };
    tombstone.order.arguments = bytes::Bytes::new();
    tombstone
}

/// Whether a settled effect may be forgotten. What nobody knows is never forgotten before somebody settles it.
fn is_over(effect: &Effect, now_ms: u64) -> bool {
    use EffectState as State;
    let settled =
        matches!(effect.state, State::Completed | State::FailedFinal | State::FailedRetryable | State::Compensated);
    settled && now_ms >= effect.expires_ms
}

/// Whether somebody has to look after an effect: a claim or a dispatch that is nobody's any more.
pub fn is_orphaned(effect: &Effect, around: &Circumstances) -> bool {
    match effect.state {
        EffectState::Claimed => around.now_ms >= effect.lease_until_ms || around.owner_is_gone,
        EffectState::Dispatching => is_orphan(effect, around),
        _ => false,
    }
}

/// Whether a dispatched effect is nobody's any more. What waits for input or a task needs no owner to be alive. Of class Q
/// only the time counts: an owner that is merely silent might still send after the status tool was asked.
fn is_orphan(effect: &Effect, around: &Circumstances) -> bool {
    around.now_ms >= effect.overdue_at_ms || (needs_owner(effect) && around.owner_is_gone)
}

/// Whether an effect that is under way is nobody's as soon as its owner is gone, before its time.
pub fn needs_owner(effect: &Effect) -> bool {
    match effect.state {
        EffectState::Claimed => true,
        EffectState::Dispatching => effect.awaits.is_none() && effect.class != EffectClass::Q,
        _ => false,
    }
}

fn in_key_window(effect: &Effect, now_ms: u64) -> bool {
    let (Some(window_ms), Some(first_ms)) = (effect.order.key_window_ms, effect.first_dispatched_ms) else {
        return false;
    };
    let margin_ms = (window_ms / 10).min(KEY_WINDOW_MARGIN_MS_MAX);
    now_ms < first_ms.saturating_add(window_ms.saturating_sub(margin_ms))
}

fn goes_on(effect: &Effect, begin: &Begin) -> bool {
    match (&effect.awaits, &begin.continues) {
        (Some(Awaits::Input(nonce)), Some(continues)) => nonce == continues,
        _ => false,
    }
}

impl Step {
    fn reply(reply: Reply) -> Self {
        Self { change: None, reply }
    }
}

impl Effect {
    /// The evidence its present owner holds.
    pub fn claim(&self) -> Claim {
        Claim { id: self.id.clone(), epoch: self.epoch }
    }

    fn is_of(&self, claim: &Claim) -> bool {
        self.id == claim.id && self.epoch == claim.epoch
    }

    fn settled_at(&mut self, now_ms: u64) {
        self.changed_ms = now_ms;
        self.expires_ms = now_ms.saturating_add(self.order.dedup_window_ms);
        // What nobody can ask for again is not kept; and what cannot be sent again needs no arguments.
        if !self.order.keeps_answer && matches!(self.answer, Some(StoredAnswer::Result(_))) {
            let known = "its caller got the answer; without a key nobody can ask again";
            self.answer = Some(StoredAnswer::Known(known.to_owned()));
        }
        if matches!(self.state, EffectState::Completed | EffectState::FailedFinal) {
            self.order.arguments = bytes::Bytes::new();
        }
    }
}
