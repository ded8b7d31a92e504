//! Which state follows which event. A pure function; every store runs it inside the transaction that reads the
//! effect and writes the result, so that no two stores can disagree about what is safe.
//!
//! Safety comes from comparing epoch and state, never from a time: leases and deadlines only say when to stop
//! waiting.

use servanda_contract::{Digest, tool::EffectClass};

use super::{
    BeginMode, BeginRequest, Claim, DispatchEnd, Effect, EffectContext, EffectEvent, EffectReply, EffectRule,
    EffectState, EffectTransition, EffectWaitReason, LostWindow, OwnerId, StoredAnswer, is_orphaned,
    orphan::{OVERDUE_GRACE_MS, may_recover},
    owner_silence_ms_max,
    settle::{settle, settle_by_hand},
};

/// The part of an upstream's window that is not used, because its clock may differ from ours: a tenth, but at
/// most this.
const KEY_WINDOW_MARGIN_MS_MAX: u64 = 300_000;

/// When to ask again about an effect that another call performs.
const STANDING_RETRY_AFTER_MS: u64 = 1_000;

/// Computes the result of an event.
pub fn step(effect: Option<&Effect>, event: &EffectEvent, around: &EffectContext) -> EffectTransition {
    let Some(effect) = effect else {
        return match event {
            EffectEvent::Begin(begin) => first(begin, around),
            _ => EffectTransition::reply(EffectReply::NotFound),
        };
    };
    match event {
        EffectEvent::Begin(begin) => again(effect, begin, around),
        EffectEvent::Fence(claim) => fence(effect, claim, around),
        EffectEvent::Release(claim, why) => settle(effect, claim, &DispatchEnd::NotExecuted(why.clone()), around),
        EffectEvent::Settle(claim, end) => settle(effect, claim, end, around),
        EffectEvent::Recover(owner) => recover(effect, owner, around),
        EffectEvent::SettleByHand(by_hand) => settle_by_hand(effect, by_hand, around),
        EffectEvent::Expire => expire(effect, around),
    }
}

/// The answer of an effect that is done, for a call with the same payload. Read-only.
pub fn replay(effect: &Effect, request: Digest) -> Option<StoredAnswer> {
    let is_done = matches!(effect.state, EffectState::Completed | EffectState::FailedFinal | EffectState::Compensated);
    (is_done && effect.request == request).then(|| stored(effect))
}

/// What a call with this payload is told about an effect that may not be dispatched for it, without changing the effect. None if it never
/// ran, so that the call may begin it. Read-only.
pub fn standing_reply(effect: &Effect, request: Digest) -> Option<EffectReply> {
    if effect.request != request {
        return Some(EffectReply::Mismatch);
    }
    match effect.state {
        EffectState::Completed | EffectState::FailedFinal | EffectState::Compensated => {
            Some(EffectReply::Replay(stored(effect)))
        }
        EffectState::Claimed | EffectState::Dispatching => {
            Some(EffectReply::Running { retry_after_ms: STANDING_RETRY_AFTER_MS, awaits: effect.awaits.clone() })
        }
        EffectState::OutcomeUnknown => Some(EffectReply::Unknown),
        EffectState::Expired => Some(EffectReply::KeyExpired),
        EffectState::FailedRetryable => None,
    }
}

fn first(begin: &BeginRequest, around: &EffectContext) -> EffectTransition {
    if let Some(twin) = &around.twin {
        return EffectTransition::reply(EffectReply::Twin(twin.clone()));
    }
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
        first_dispatched_ledger_ms: None,
        answer: None,
        reason: None,
        settlement: None,
        conflict: None,
        created_ms: around.now_ms,
        changed_ms: around.now_ms,
        expires_ms: around.ledger_ms.saturating_add(begin.order.dedup_window_ms),
    };
    match &around.lost_window {
        Some(lost) if begin.key.client_key.can_come_again() => after_loss(&effect, lost, begin, around),
        _ => take(&effect, begin, around),
    }
}

/// The result for a key that may have been dispatched in a window that the store has lost.
fn after_loss(effect: &Effect, lost: &LostWindow, begin: &BeginRequest, around: &EffectContext) -> EffectTransition {
    let effect = lost.may_have_dispatched(effect.clone());
    let step = after_uncertainty(&effect, Some(begin), around);
    EffectTransition { change: step.change.or(Some(effect)), ..step }
}

fn stored(effect: &Effect) -> StoredAnswer {
    let lost = || StoredAnswer::Known("the answer was not kept".to_owned());
    effect.answer.clone().unwrap_or_else(lost)
}

/// Begins with a key that was used before.
fn again(effect: &Effect, begin: &BeginRequest, around: &EffectContext) -> EffectTransition {
    let expires = around.rules.has(EffectRule::Tombstone);
    if effect.request != begin.request {
        return EffectTransition::reply(EffectReply::Mismatch);
    }
    // The state that it never ran may be older than a dispatch in a window that the store has lost.
    let lost = around.lost_window.as_ref().filter(|lost| effect.changed_ms < lost.until_ms);
    if let (EffectState::FailedRetryable | EffectState::Claimed, Some(lost)) = (effect.state, lost) {
        return after_loss(effect, lost, begin, around);
    }
    match effect.state {
        EffectState::Expired if expires => EffectTransition::reply(EffectReply::KeyExpired),
        EffectState::Expired => take(effect, begin, around),
        // An effect expires without waiting for the pruning, so that no retry can come in between.
        _ if expires && is_over(effect, around) => {
            EffectTransition { change: Some(tombstone(effect, around)), reply: EffectReply::KeyExpired }
        }
        EffectState::Completed | EffectState::FailedFinal | EffectState::Compensated => {
            EffectTransition::reply(EffectReply::Replay(stored(effect)))
        }
        EffectState::FailedRetryable => take(effect, begin, around),
        EffectState::Claimed if is_orphaned(effect, around) => take(effect, begin, around),
        EffectState::Claimed => EffectTransition::running(effect, effect.lease_until_ms, around),
        EffectState::Dispatching if goes_on(effect, begin) => go_on(effect, begin, around),
        EffectState::Dispatching if is_orphaned(effect, around) => after_uncertainty(effect, Some(begin), around),
        EffectState::Dispatching => EffectTransition::running(effect, effect.overdue_at_ms, around),
        EffectState::OutcomeUnknown => after_uncertainty(effect, Some(begin), around),
    }
}

/// What may follow, by class, when it is unknown whether the effect was done. If a call wants it and it may be
/// sent again, it is.
fn after_uncertainty(effect: &Effect, begin: Option<&BeginRequest>, around: &EffectContext) -> EffectTransition {
    match (effect.class, begin) {
        (EffectClass::R, Some(begin)) => take(effect, begin, around),
        (EffectClass::K, Some(begin)) if in_key_window(effect, around) => take(effect, begin, around),
        (EffectClass::Q, _) => EffectTransition::reply(EffectReply::Ask(effect.claim())),
        (_, Some(begin)) if !around.rules.has(EffectRule::NeverAgain) => take(effect, begin, around),
        _ if effect.state == EffectState::OutcomeUnknown => EffectTransition::reply(EffectReply::Unknown),
        _ => {
            let why = "its owner went away or its time passed before its end was known";
            EffectTransition { change: Some(unknown(effect, why.to_owned(), around)), reply: EffectReply::Unknown }
        }
    }
}

/// Makes the caller the owner, in the next epoch, unless another effect under way changes the same resource.
fn take(effect: &Effect, begin: &BeginRequest, around: &EffectContext) -> EffectTransition {
    if let Some(other) = around.blocked_by.as_ref().filter(|_| around.rules.has(EffectRule::Turns)) {
        return EffectTransition::reply(EffectReply::Blocked(other.clone()));
    }
    let mut taken = Effect {
        epoch: effect.epoch.saturating_add(1),
        owner: begin.owner.clone(),
        call_id: begin.call_id.clone(),
        // The same payload under a newer contract of the same major version is sent the newer way. But an
        // effect that was sent before under the key is sent again in the same bytes.
        order: if effect.dispatches == 0 { begin.order.clone() } else { effect.order.clone() },
        class: if effect.dispatches == 0 { begin.class } else { effect.class },
        awaits: None,
        answer: None,
        reason: None,
        changed_ms: around.now_ms,
        expires_ms: around.ledger_ms.saturating_add(effect.order.dedup_window_ms),
        ..effect.clone()
    };
    match begin.mode {
        BeginMode::Claim { lease_ms } if effect.dispatches == 0 => {
            taken.state = EffectState::Claimed;
            taken.lease_until_ms = around.ledger_ms.saturating_add(lease_ms);
        }
        // An effect that may have been sent cannot go back to a claim.
        BeginMode::Claim { .. } | BeginMode::Dispatch => dispatch(&mut taken, around),
    }
    let claim = taken.claim();
    EffectTransition { change: Some(taken), reply: EffectReply::Mine(claim) }
}

/// Continues a dispatch that waited for input. It is the same dispatch, so the earlier one is not in doubt.
fn go_on(effect: &Effect, begin: &BeginRequest, around: &EffectContext) -> EffectTransition {
    let mut taken = take(effect, begin, around);
    if let Some(changed) = &mut taken.change {
        changed.dispatches = effect.dispatches;
    }
    taken
}

/// Lets bytes leave. The dispatch has a lease of its own, granted by the store at this moment: however old the
/// owner's last heartbeat is, no other process takes the effect over before the lease has ended.
fn dispatch(effect: &mut Effect, around: &EffectContext) {
    effect.state = EffectState::Dispatching;
    effect.dispatches = effect.dispatches.saturating_add(1);
    effect.first_dispatched_ms = effect.first_dispatched_ms.or(Some(around.now_ms));
    effect.first_dispatched_ledger_ms = effect.first_dispatched_ledger_ms.or(Some(around.ledger_ms));
    effect.overdue_at_ms = around.ledger_ms.saturating_add(effect.order.timeout_ms).saturating_add(OVERDUE_GRACE_MS);
    effect.lease_until_ms = around.ledger_ms.saturating_add(owner_silence_ms_max());
}

/// I1: bytes leave only after this compare-and-set.
fn fence(effect: &Effect, claim: &Claim, around: &EffectContext) -> EffectTransition {
    let is_own = effect.is_of(claim) && effect.state == EffectState::Claimed;
    if !is_own && around.rules.has(EffectRule::Epoch) {
        return EffectTransition::reply(EffectReply::Stale);
    }
    // A claim whose lease has ended no longer blocked other calls from changing the same resource.
    if effect.order.takes_turns() && around.ledger_ms >= effect.lease_until_ms {
        return EffectTransition::reply(EffectReply::Stale);
    }
    let mut fenced = Effect { changed_ms: around.now_ms, ..effect.clone() };
    dispatch(&mut fenced, around);
    let claim = fenced.claim();
    EffectTransition { change: Some(fenced), reply: EffectReply::Mine(claim) }
}

fn recover(effect: &Effect, owner: &OwnerId, around: &EffectContext) -> EffectTransition {
    if !may_recover(effect, owner, around) {
        return EffectTransition::reply(EffectReply::NotNow);
    }
    let never_ran = |why: &str| settle(effect, &effect.claim(), &DispatchEnd::NotExecuted(why.to_owned()), around);
    match (effect.state, effect.class) {
        (EffectState::Claimed, _) => never_ran("its owner went away; nothing was sent"),
        // No call waits for it, and it changed nothing.
        (_, EffectClass::R) => never_ran("its owner went away; it changes nothing"),
        // An effect that waited for input has given up its turn, and does nothing until it gets the input.
        (_, EffectClass::K)
            if in_key_window(effect, around) && !matches!(effect.awaits, Some(EffectWaitReason::Input(_))) =>
        {
            let mut taken = Effect {
                epoch: effect.epoch.saturating_add(1),
                owner: owner.clone(),
                awaits: None,
                changed_ms: around.now_ms,
                ..effect.clone()
            };
            dispatch(&mut taken, around);
            let claim = taken.claim();
            EffectTransition { change: Some(taken), reply: EffectReply::Mine(claim) }
        }
        _ => after_uncertainty(effect, None, around),
    }
}

fn expire(effect: &Effect, around: &EffectContext) -> EffectTransition {
    if is_over(effect, around) {
        EffectTransition { change: Some(tombstone(effect, around)), reply: EffectReply::Settled }
    } else {
        EffectTransition::reply(EffectReply::NotNow)
    }
}

/// Marks an effect unknown whose owner vanished. The upstream may still be working on it, so it keeps its turn
/// until its time is over.
fn unknown(effect: &Effect, why: String, around: &EffectContext) -> Effect {
    let keeps_turn = around.rules.has(EffectRule::TurnUntilOverdue);
    Effect {
        overdue_at_ms: if keeps_turn { effect.at_work_until_ms() } else { around.ledger_ms },
        state: EffectState::OutcomeUnknown,
        reason: Some(why),
        awaits: None,
        answer: None,
        changed_ms: around.now_ms,
        expires_ms: around.ledger_ms.saturating_add(effect.order.dedup_window_ms),
        ..effect.clone()
    }
}

/// Keeps nothing of the effect but its existence.
fn tombstone(effect: &Effect, around: &EffectContext) -> Effect {
    let mut tombstone = Effect {
        state: EffectState::Expired,
        answer: None,
        reason: None,
        awaits: None,
        changed_ms: around.now_ms,
        ..effect.clone()
    };
    tombstone.order.arguments = bytes::Bytes::new();
    tombstone
}

/// Whether a settled effect may be forgotten. An unknown effect is never forgotten before it is settled.
fn is_over(effect: &Effect, around: &EffectContext) -> bool {
    use EffectState as State;
    let settled =
        matches!(effect.state, State::Completed | State::FailedFinal | State::FailedRetryable | State::Compensated);
    settled && around.ledger_ms >= effect.expires_ms
}

/// Whether an upstream that deduplicates keys still knows this one. The clock by which more time has passed
/// counts: the store's clock may have been set back, and ledger time does not advance while no gateway runs.
fn in_key_window(effect: &Effect, around: &EffectContext) -> bool {
    let (Some(window_ms), Some(first_ms)) = (effect.order.key_window_ms, effect.first_dispatched_ms) else {
        return false;
    };
    let first_ledger_ms = effect.first_dispatched_ledger_ms.unwrap_or(around.ledger_ms);
    let passed_ms = around.now_ms.saturating_sub(first_ms).max(around.ledger_ms.saturating_sub(first_ledger_ms));
    let margin_ms = (window_ms / 10).min(KEY_WINDOW_MARGIN_MS_MAX);
    passed_ms < window_ms.saturating_sub(margin_ms) || !around.rules.has(EffectRule::KeyWindow)
}

fn goes_on(effect: &Effect, begin: &BeginRequest) -> bool {
    match (&effect.awaits, &begin.continues) {
        (Some(EffectWaitReason::Input(nonce)), Some(continues)) => nonce == continues,
        _ => false,
    }
}
