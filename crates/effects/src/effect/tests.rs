//! The state machine as a table, and as a law: whatever happens in whatever order, class N is never done twice.

mod clocks;
mod ends;
mod lost;
mod schedules;

use bytes::Bytes;
use servanda_contract::{CallId, Digest, digest::DigestDomain, tool::EffectClass};

use super::{
    BeginMode, BeginRequest, ClientKey, DispatchEnd, DispatchOrder, Effect, EffectContext, EffectEvent, EffectId,
    EffectKey, EffectReply, EffectState, EffectWaitReason, LedgerNow, ManualSettlement, OwnerId, StoredAnswer,
    is_blocking, step,
};
use EffectClass::{K, N, Q, R};
use EffectState::{Claimed, Completed, Dispatching, Expired, FailedFinal, FailedRetryable, OutcomeUnknown as Unknown};

const NOW_MS: u64 = 100_000_000;
const HOUR_MS: u64 = 3_600_000;
/// The lease of a dispatch.
const LEASE_MS: u64 = 15_000;

fn digest(text: &str) -> Digest {
    Digest::compute(DigestDomain::Proposal, &[text.as_bytes()])
}

fn order() -> DispatchOrder {
    DispatchOrder {
        exposed_tool: "bank__pay".to_owned(),
        upstream: "bank".to_owned(),
        upstream_tool: "pay".to_owned(),
        contract_version: "1.2.0".to_owned(),
        contract_digest: digest("contract"),
        upstream_key: "sv-1".to_owned(),
        arguments: Bytes::from_static(b"{}"),
        timeout_ms: 5_000,
        key_window_ms: Some(HOUR_MS),
        dedup_window_ms: HOUR_MS,
        keeps_answer: true,
        resources: Vec::new(),
        reads: Vec::new(),
        overlaps: false,
        actors: Vec::new(),
    }
}

fn key() -> EffectKey {
    EffectKey {
        tenant: "acme".to_owned(),
        principal: "ada".to_owned(),
        tool: "bank.pay".to_owned(),
        contract_major: 1,
        client_key: ClientKey::Given("k-1".to_owned()),
    }
}

fn begin(class: EffectClass, owner: &str) -> BeginRequest {
    BeginRequest {
        id: EffectId::from("eff_1".to_owned()),
        key: key(),
        request: digest("payload"),
        class,
        owner: OwnerId::from(owner.to_owned()),
        call_id: CallId::from(format!("call_{owner}")),
        order: order(),
        mode: BeginMode::Dispatch,
        continues: None,
    }
}

fn began(class: EffectClass) -> EffectEvent {
    EffectEvent::Begin(Box::new(begin(class, "b")))
}

fn at(now_ms: u64) -> EffectContext {
    EffectContext::at(LedgerNow::plain(now_ms))
}

/// The owner has been silent for too long.
fn gone(now_ms: u64) -> EffectContext {
    EffectContext { owner_is_gone: true, ..at(now_ms) }
}

fn answer() -> StoredAnswer {
    StoredAnswer::Result(Bytes::from_static(b"{\"content\":[]}"))
}

/// An effect of owner `a` in a given state, reached by real events.
fn effect(class: EffectClass, state: EffectState) -> Effect {
    let first = step(None, &EffectEvent::Begin(Box::new(begin(class, "a"))), &at(NOW_MS)).change.unwrap();
    let claim = first.claim();
    let after = |effect: &Effect, event: EffectEvent| step(Some(effect), &event, &at(NOW_MS)).change.unwrap();
    match state {
        Dispatching => first,
        Claimed => {
            let go = BeginMode::Claim { lease_ms: 10_000 };
            step(None, &EffectEvent::Begin(Box::new(BeginRequest { mode: go, ..begin(class, "a") })), &at(NOW_MS))
                .change
                .unwrap()
        }
        Completed => after(&first, EffectEvent::Settle(claim, DispatchEnd::Completed(answer()))),
        FailedFinal => after(&first, EffectEvent::Settle(claim, DispatchEnd::Failed(answer()))),
        FailedRetryable => after(&first, EffectEvent::Settle(claim, DispatchEnd::NotExecuted("refused".to_owned()))),
        Unknown => after(&first, EffectEvent::Settle(claim, DispatchEnd::Unknown("reset".to_owned()))),
        Expired => {
            let done = effect(class, Completed);
            step(Some(&done), &EffectEvent::Expire, &at(NOW_MS + HOUR_MS)).change.unwrap()
        }
        EffectState::Compensated => Effect { state, ..effect(class, Completed) },
    }
}

fn word(reply: &EffectReply) -> &'static str {
    match reply {
        EffectReply::Mine(_) => "mine",
        EffectReply::Replay(_) => "replay",
        EffectReply::Running { .. } => "running",
        EffectReply::Mismatch => "mismatch",
        EffectReply::Unknown => "unknown",
        EffectReply::Twin(_) => "twin",
        EffectReply::Blocked(_) => "blocked",
        EffectReply::KeyExpired => "expired",
        EffectReply::Ask(_) => "ask",
        EffectReply::Settled => "settled",
        EffectReply::Contradicted => "contradicted",
        EffectReply::Stale => "stale",
        EffectReply::NotNow => "not now",
        EffectReply::NotFound => "not found",
        EffectReply::NotApproved(_) => "not approved",
    }
}

/// The resulting state and reply; the same state if nothing changes.
fn follows(before: &Effect, event: &EffectEvent, around: &EffectContext) -> (EffectState, &'static str) {
    let after = step(Some(before), event, around);
    (after.change.map_or(before.state, |changed| changed.state), word(&after.reply))
}

/// A begin that would take the effect waits for others; one that only gets an answer does not.
#[test]
fn another_effect_on_the_same_resource_blocks() {
    let other = EffectId::from("eff_other".to_owned());
    let blocked = |now_ms| EffectContext { blocked_by: Some(other.clone()), ..at(now_ms) };
    let first = step(None, &began(N), &blocked(NOW_MS));
    assert_eq!((first.change, first.reply), (None, EffectReply::Blocked(other.clone())));
    let (soon, late) = (blocked(NOW_MS + 1), blocked(NOW_MS + 11_000));
    let gone = EffectContext { owner_is_gone: true, ..blocked(NOW_MS + LEASE_MS) };
    let table = [
        (Claimed, N, &soon, "running"),
        (Claimed, N, &late, "blocked"),
        (FailedRetryable, N, &soon, "blocked"),
        (Completed, N, &soon, "replay"),
        (FailedFinal, N, &soon, "replay"),
        (Expired, N, &soon, "expired"),
        (Dispatching, N, &soon, "running"),
        (Dispatching, K, &gone, "blocked"),
        (Unknown, K, &soon, "blocked"),
        (Unknown, N, &soon, "unknown"),
        (Unknown, Q, &soon, "ask"),
    ];
    for (state, class, around, reply) in table {
        let before = effect(class, state);
        assert_eq!(follows(&before, &began(class), around), (state, reply), "{state:?} {class:?}");
    }
    // Recovery takes an effect that has kept its turn all the time.
    let recovered = EffectEvent::Recover(OwnerId::from("b".to_owned()));
    assert_eq!(follows(&effect(K, Dispatching), &recovered, &gone), (Dispatching, "mine"));
}

#[test]
fn what_an_effect_holds() {
    let order = DispatchOrder { resources: vec!["invoice/1".to_owned()], ..order() };
    let holding = |state| Effect { order: order.clone(), ..effect(N, state) };
    let wants = |name: &str| {
        let order = DispatchOrder { resources: vec![name.to_owned()], ..order.clone() };
        BeginRequest { order, ..begin(N, "b") }
    };
    for state in EffectState::ALL {
        let holds = [Claimed, Dispatching, Unknown].contains(&state);
        assert_eq!(holding(state).exclusive_resources().is_some(), holds, "{state:?}");
    }
    let sent = holding(Dispatching);
    let blocks = |effect: &Effect, begin: &BeginRequest, ledger_ms| {
        effect.exclusive_resources().is_some_and(|held| is_blocking(held, begin, ledger_ms))
    };
    let never = NOW_MS + 100 * HOUR_MS;
    for (name, expected) in [("invoice/1", true), ("invoice/*", true), ("*", true), ("invoice/2", false)] {
        assert_eq!(blocks(&sent, &wants(name), never), expected, "{name}: until it is settled");
    }
    let claim = holding(Claimed);
    assert!(blocks(&claim, &wants("invoice/1"), claim.lease_until_ms - 1));
    assert!(!blocks(&claim, &wants("invoice/1"), claim.lease_until_ms), "its time is over");
    // The owner itself says that it gave up: as far as it knows, nothing is running any more.
    assert!(!blocks(&holding(Unknown), &wants("invoice/1"), NOW_MS));
    // The owner vanished: what it sent may be running until its time is over.
    let vanished = step(Some(&sent), &began(N), &gone(NOW_MS + LEASE_MS)).change.unwrap();
    assert_eq!((vanished.state, vanished.overdue_at_ms), (Unknown, sent.at_work_until_ms()));
    assert_eq!(
        sent.at_work_until_ms(),
        NOW_MS + 2 * sent.order.timeout_ms,
        "counted from the latest moment it can have been sent"
    );
    let long = Effect { overdue_at_ms: NOW_MS + 60_000, ..vanished };
    assert!(blocks(&long, &wants("invoice/1"), NOW_MS + 59_999));
    assert!(!blocks(&long, &wants("invoice/1"), NOW_MS + 60_000));
    let fence = EffectEvent::Fence(claim.claim());
    assert_eq!(follows(&claim, &fence, &at(claim.lease_until_ms - 1)), (Dispatching, "mine"));
    assert_eq!(follows(&claim, &fence, &at(claim.lease_until_ms)), (Claimed, "stale"), "others may have begun");
    let paused = |awaits| Effect { awaits: Some(awaits), ..sent.clone() };
    assert!(paused(EffectWaitReason::Input("n".to_owned())).exclusive_resources().is_none());
    assert!(paused(EffectWaitReason::Task("t".to_owned())).exclusive_resources().is_some());
    let allowed = DispatchOrder { overlaps: true, ..order.clone() };
    assert!(Effect { order: allowed.clone(), ..sent.clone() }.exclusive_resources().is_none());
    assert!(!blocks(&sent, &BeginRequest { order: allowed, ..wants("invoice/1") }, NOW_MS));
    assert!(effect(N, Dispatching).exclusive_resources().is_none(), "it changes no named resource");
}

#[test]
fn the_same_key_again() {
    let (soon, late) = (at(NOW_MS + 1), at(NOW_MS + 11_000));
    let (silent, gone_early, gone) = (gone(NOW_MS + LEASE_MS - 1), gone(NOW_MS + 14_999), gone(NOW_MS + LEASE_MS));
    let table = [
        // state, class, around, state afterwards, reply
        (Claimed, N, &soon, Claimed, "running"),
        (Claimed, N, &late, Dispatching, "mine"),
        (FailedRetryable, N, &soon, Dispatching, "mine"),
        (Completed, N, &soon, Completed, "replay"),
        (FailedFinal, N, &soon, FailedFinal, "replay"),
        (EffectState::Compensated, N, &soon, EffectState::Compensated, "replay"),
        (Expired, N, &soon, Expired, "expired"),
        (Dispatching, R, &soon, Dispatching, "running"),
        (Dispatching, K, &soon, Dispatching, "running"),
        (Dispatching, Q, &soon, Dispatching, "running"),
        (Dispatching, N, &soon, Dispatching, "running"),
        // A live owner keeps its effects, however long they take.
        (Dispatching, R, &late, Dispatching, "running"),
        (Dispatching, K, &late, Dispatching, "running"),
        (Dispatching, Q, &late, Dispatching, "running"),
        (Dispatching, N, &late, Dispatching, "running"),
        // And so does a silent one, while the lease of the dispatch lasts.
        (Dispatching, R, &silent, Dispatching, "running"),
        (Dispatching, K, &silent, Dispatching, "running"),
        (Dispatching, Q, &silent, Dispatching, "running"),
        (Dispatching, N, &silent, Dispatching, "running"),
        (Dispatching, R, &gone, Dispatching, "mine"),
        (Dispatching, K, &gone, Dispatching, "mine"),
        // The upstream may still be working on it, and then it is not absent.
        (Dispatching, Q, &gone_early, Dispatching, "running"),
        (Dispatching, Q, &gone, Dispatching, "ask"),
        (Dispatching, N, &gone, Unknown, "unknown"),
        (Unknown, R, &soon, Dispatching, "mine"),
        (Unknown, K, &soon, Dispatching, "mine"),
        (Unknown, Q, &soon, Unknown, "ask"),
        (Unknown, N, &soon, Unknown, "unknown"),
    ];
    for (state, class, around, then, reply) in table {
        let before = effect(class, state);
        assert_eq!(follows(&before, &began(class), around), (then, reply), "{class:?} {state:?} {around:?}");
        let after = step(Some(&before), &began(class), around);
        if let EffectReply::Mine(claim) = after.reply {
            let changed = after.change.unwrap();
            assert_eq!((claim.epoch, changed.epoch), (before.epoch + 1, before.epoch + 1), "{class:?} {state:?}");
            assert_eq!(changed.owner.as_str(), "b");
        }
    }
}

#[test]
fn another_payload_never_runs_and_never_sees_the_answer() {
    for state in EffectState::ALL {
        let other = BeginRequest { request: digest("other payload"), ..begin(N, "b") };
        let after = step(Some(&effect(N, state)), &EffectEvent::Begin(Box::new(other)), &at(NOW_MS + 11_000));
        assert_eq!((after.change, after.reply), (None, EffectReply::Mismatch), "{state:?}");
    }
}

#[test]
fn a_fence_needs_the_claim_it_was_made_from() {
    let claimed = effect(N, Claimed);
    assert_eq!(follows(&claimed, &EffectEvent::Fence(claimed.claim()), &at(NOW_MS + 60_000)), (Dispatching, "mine"));
    let taken = step(Some(&claimed), &began(N), &at(NOW_MS + 11_000)).change.unwrap();
    assert_eq!(follows(&taken, &EffectEvent::Fence(claimed.claim()), &at(NOW_MS + 11_001)), (Dispatching, "stale"));
    for state in [Dispatching, Completed, FailedRetryable, Unknown, Expired] {
        let before = effect(N, state);
        assert_eq!(follows(&before, &EffectEvent::Fence(before.claim()), &at(NOW_MS)), (state, "stale"));
    }
}

#[test]
fn orphans_are_settled_by_their_class() {
    let by = |owner: &str| EffectEvent::Recover(OwnerId::from(owner.to_owned()));
    let (soon, late, gone) = (at(NOW_MS + 1), at(NOW_MS + LEASE_MS), gone(NOW_MS + LEASE_MS));
    let table = [
        (Dispatching, R, FailedRetryable, "settled"),
        (Dispatching, K, Dispatching, "mine"),
        (Dispatching, Q, Dispatching, "ask"),
        (Dispatching, N, Unknown, "unknown"),
        (Claimed, N, FailedRetryable, "settled"),
        (Unknown, N, Unknown, "not now"),
        (Completed, N, Completed, "not now"),
    ];
    for (state, class, then, reply) in table {
        let before = effect(class, state);
        assert_eq!(follows(&before, &by("c"), &soon), (state, "not now"), "{class:?} {state:?}");
        assert_eq!(follows(&before, &by("c"), &gone), (then, reply), "{class:?} {state:?}");
        // If the owner is alive, only the owner itself takes an effect that none of its calls holds any more.
        let kept = if state == Claimed { (then, reply) } else { (state, "not now") };
        assert_eq!(follows(&before, &by("c"), &late), kept, "{class:?} {state:?}");
        assert_eq!(follows(&before, &by("a"), &late), (then, reply), "{class:?} {state:?}, by its owner");
    }
}

#[test]
fn a_key_is_sent_again_only_while_the_upstream_remembers_it() {
    let unknown = effect(K, Unknown);
    // The last five minutes of the window are not used: clocks differ.
    assert_eq!(follows(&unknown, &began(K), &at(NOW_MS + HOUR_MS - 300_001)), (Dispatching, "mine"));
    assert_eq!(follows(&unknown, &began(K), &at(NOW_MS + HOUR_MS - 300_000)), (Unknown, "unknown"));
    let again = step(Some(&unknown), &began(K), &at(NOW_MS + 1)).change.unwrap();
    assert_eq!(again.first_dispatched_ms, Some(NOW_MS), "the window runs from the first dispatch");
    let refused = EffectEvent::Settle(again.claim(), DispatchEnd::NotExecuted("connection refused".to_owned()));
    assert_eq!(
        follows(&again, &refused, &at(NOW_MS + 2)),
        (Unknown, "settled"),
        "the earlier dispatch is still uncertain"
    );
}

#[test]
fn an_effect_that_waits_for_input_continues_only_with_its_nonce() {
    let before = effect(N, Dispatching);
    let awaits = DispatchEnd::Awaits(EffectWaitReason::Input("n-1".to_owned()), HOUR_MS);
    let waiting = step(Some(&before), &EffectEvent::Settle(before.claim(), awaits), &at(NOW_MS)).change.unwrap();
    let with =
        |nonce: &str| EffectEvent::Begin(Box::new(BeginRequest { continues: Some(nonce.to_owned()), ..begin(N, "b") }));
    let gone = EffectContext { owner_is_gone: true, ..at(NOW_MS + 60_000) };
    assert_eq!(follows(&waiting, &began(N), &gone), (Dispatching, "running"));
    assert_eq!(follows(&waiting, &with("n-2"), &gone), (Dispatching, "running"));
    assert_eq!(follows(&waiting, &with("n-1"), &gone), (Dispatching, "mine"));
    assert_eq!(follows(&waiting, &began(N), &at(NOW_MS + HOUR_MS)), (Unknown, "unknown"));
}

#[test]
fn a_person_settles_an_unknown_outcome_and_nothing_else() {
    for state in EffectState::ALL {
        for (completed, then) in [(true, Completed), (false, FailedRetryable)] {
            let by_hand = ManualSettlement {
                epoch: None,
                completed,
                by: "ada".to_owned(),
                evidence: "bank statement".to_owned(),
            };
            let before = effect(N, state);
            let expected = if state == Unknown { (then, "settled") } else { (state, "not now") };
            assert_eq!(follows(&before, &EffectEvent::SettleByHand(by_hand), &at(NOW_MS + 1)), expected);
        }
    }
}

/// What a person found out about one dispatch says nothing about the next one.
#[test]
fn a_person_who_looked_at_an_earlier_dispatch_does_not_settle_the_present_one() {
    let seen = |epoch| {
        let (by, evidence) = ("ada".to_owned(), "bank statement".to_owned());
        EffectEvent::SettleByHand(ManualSettlement { epoch: Some(epoch), completed: false, by, evidence })
    };
    let first = effect(N, Unknown);
    let retried = step(Some(&first), &seen(first.epoch), &at(NOW_MS)).change.unwrap();
    let sent = step(Some(&retried), &began(N), &at(NOW_MS)).change.unwrap();
    let lost = EffectEvent::Settle(sent.claim(), DispatchEnd::Unknown("reset".to_owned()));
    let again = step(Some(&sent), &lost, &at(NOW_MS)).change.unwrap();
    assert_eq!((again.state, again.epoch > first.epoch), (Unknown, true));
    assert_eq!(follows(&again, &seen(first.epoch), &at(NOW_MS)), (Unknown, "stale"));
    assert_eq!(follows(&again, &seen(again.epoch), &at(NOW_MS)), (FailedRetryable, "settled"));
}

#[test]
fn an_expired_effect_becomes_a_tombstone_even_before_pruning() {
    let over = at(NOW_MS + HOUR_MS);
    for state in [Completed, FailedFinal, FailedRetryable] {
        let before = effect(N, state);
        assert_eq!(follows(&before, &EffectEvent::Expire, &at(NOW_MS + HOUR_MS - 1)), (state, "not now"));
        assert_eq!(follows(&before, &EffectEvent::Expire, &over), (Expired, "settled"));
        assert_eq!(follows(&before, &began(N), &over), (Expired, "expired"), "a retry does not race the reaper");
        let tombstone = step(Some(&before), &EffectEvent::Expire, &over).change.unwrap();
        assert_eq!((tombstone.answer, tombstone.order.arguments.len()), (None, 0));
    }
    for state in [Claimed, Dispatching, Unknown, Expired] {
        assert_eq!(follows(&effect(N, state), &EffectEvent::Expire, &over), (state, "not now"), "{state:?}");
    }
}

#[test]
fn a_blind_retry_of_an_unknown_outcome_is_stopped() {
    let twin = EffectId::from("eff_0".to_owned());
    let around = EffectContext { twin: Some(twin.clone()), ..at(NOW_MS) };
    let after = step(None, &began(N), &around);
    assert_eq!((after.change, after.reply), (None, EffectReply::Twin(twin)));
}
