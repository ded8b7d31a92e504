//! What the ledger does with an end, by the state it finds and the epoch of the end: as a table for every
//! class.

use bytes::Bytes;
use servanda_contract::{refusal::EffectKnowledge, tool::EffectClass};

use super::{
    Claimed, Completed, Dispatching, Expired, FailedFinal, FailedRetryable, HOUR_MS, K, LEASE_MS, N, NOW_MS, Q, R,
    Unknown, answer, at, began, effect, follows, gone, word,
};
use crate::effect::{
    Claim, DispatchEnd, Effect, EffectContext, EffectEvent, EffectReply, EffectRule, EffectRules, EffectState,
    EffectWaitReason, OwnerId, StoredAnswer, knowledge_of_key, step,
};

const ALL: [EffectClass; 4] = [R, K, Q, N];

fn ends() -> [(&'static str, DispatchEnd); 5] {
    [
        ("completed", DispatchEnd::Completed(answer())),
        ("failed", DispatchEnd::Failed(answer())),
        ("not executed", DispatchEnd::NotExecuted("refused".to_owned())),
        ("absent", DispatchEnd::Absent("no such key".to_owned())),
        ("unknown", DispatchEnd::Unknown("reset".to_owned())),
    ]
}

fn settle(before: &Effect, epoch: u64, end: &DispatchEnd) -> (EffectState, &'static str, bool) {
    let claim = Claim { epoch, ..before.claim() };
    let after = step(Some(before), &EffectEvent::Settle(claim, end.clone()), &at(NOW_MS + 1));
    let reply = word(&after.reply);
    let changed = after.change.unwrap_or_else(|| before.clone());
    (changed.state, reply, changed.conflict.is_some())
}

/// The result of each end for class N: completed, failed, not executed, absent, unknown.
#[rustfmt::skip]
const PRESENT_EPOCH: [(EffectState, [(EffectState, &str); 5]); 7] = [
    (Claimed, [(Claimed, "stale"), (FailedFinal, "settled"), (FailedRetryable, "settled"), (Claimed, "stale"), (Claimed, "stale")]),
    (Dispatching, [(Completed, "settled"), (FailedFinal, "settled"), (FailedRetryable, "settled"), (Dispatching, "stale"), (Unknown, "settled")]),
    (Unknown, [(Completed, "settled"), (FailedFinal, "settled"), (Unknown, "stale"), (Unknown, "stale"), (Unknown, "settled")]),
    (Completed, [(Completed, "settled"), (Completed, "contradicted"), (Completed, "stale"), (Completed, "stale"), (Completed, "stale")]),
    (FailedFinal, [(FailedFinal, "contradicted"), (FailedFinal, "settled"), (FailedFinal, "stale"), (FailedFinal, "stale"), (FailedFinal, "stale")]),
    (FailedRetryable, [(Completed, "contradicted"), (FailedFinal, "settled"), (FailedRetryable, "settled"), (FailedRetryable, "settled"), (FailedRetryable, "stale")]),
    (Expired, [(Expired, "stale"); 5]),
];

#[test]
fn an_end_of_the_present_epoch() {
    for (state, expected) in PRESENT_EPOCH {
        let before = effect(N, state);
        for ((name, end), expected) in ends().iter().zip(expected) {
            let (after, reply, conflict) = settle(&before, before.epoch, end);
            assert_eq!((after, reply), expected, "{state:?} {name}");
            assert_eq!(conflict, reply == "contradicted", "{state:?} {name}");
        }
    }
}

/// The ledger says that an answer came late if it did, and never otherwise.
#[test]
fn an_answer_to_a_call_that_ended_unknown_is_said_to_be_late() {
    let sent = effect(Q, Dispatching);
    let lost = EffectEvent::Settle(sent.claim(), DispatchEnd::Unknown("the deadline passed".to_owned()));
    let unknown = step(Some(&sent), &lost, &at(NOW_MS + 1)).change.unwrap();
    let reason = |effect: &Effect, end: DispatchEnd| {
        let settled = step(Some(effect), &EffectEvent::Settle(effect.claim(), end), &at(NOW_MS + 2)).change.unwrap();
        settled.reason.unwrap_or_default()
    };
    for end in [DispatchEnd::Completed(answer()), DispatchEnd::Failed(answer())] {
        assert_eq!(reason(&sent, end.clone()), "");
        assert!(reason(&unknown, end).contains("after the deadline"));
    }
    let found = DispatchEnd::Completed(StoredAnswer::Known("a status tool found it".to_owned()));
    assert_eq!(reason(&unknown, found), "");
}

/// Until its time is over, the upstream may be working on an effect that its status tool does not know yet.
#[test]
fn an_effect_that_a_status_tool_does_not_find_is_absent_only_when_its_time_is_over() {
    let sent = effect(Q, Dispatching);
    let lost = EffectEvent::Settle(sent.claim(), DispatchEnd::Unknown("reset".to_owned()));
    let unknown = step(Some(&sent), &lost, &at(NOW_MS + 1)).change.unwrap();
    let absent = EffectEvent::Settle(sent.claim(), DispatchEnd::Absent("no such key".to_owned()));
    let over_ms = sent.at_work_until_ms();
    for asked in [sent, unknown] {
        assert_eq!(follows(&asked, &absent, &at(over_ms - 1)), (asked.state, "running"));
        assert_eq!(follows(&asked, &absent, &at(over_ms)), (FailedRetryable, "settled"));
        let early =
            EffectContext { rules: EffectRules::IN_FORCE.without(EffectRule::AbsentAfterItsTime), ..at(over_ms - 1) };
        assert_eq!(follows(&asked, &absent, &early), (FailedRetryable, "settled"), "the rule alone holds it back");
        let found = EffectEvent::Settle(asked.claim(), DispatchEnd::Completed(answer()));
        assert_eq!(follows(&asked, &found, &at(NOW_MS + 2)), (Completed, "settled"));
    }
}

/// An effect that was taken for not executed was dispatched after all, and a failed one may have changed
/// something first.
#[test]
fn a_failure_after_all_is_not_denied() {
    let never_ran = effect(N, FailedRetryable);
    let failed = EffectEvent::Settle(never_ran.claim(), DispatchEnd::Failed(answer()));
    let failed = step(Some(&never_ran), &failed, &at(NOW_MS + 1)).change.unwrap();
    assert_eq!((failed.state, knowledge_of_key(Some(&failed))), (FailedFinal, EffectKnowledge::Unknown));
}

/// It gave up its turn while it waited, so another effect may be changing the same resource.
#[test]
fn an_effect_that_waited_for_input_in_vain_is_not_sent_again() {
    let waiting = Effect { awaits: Some(EffectWaitReason::Input("n".to_owned())), ..effect(K, Dispatching) };
    let over = gone(NOW_MS + LEASE_MS);
    let recover = EffectEvent::Recover(OwnerId::from("own_b".to_owned()));
    assert_eq!(follows(&waiting, &recover, &over), (Unknown, "unknown"));
    assert_eq!(follows(&Effect { awaits: None, ..waiting }, &recover, &over), (Dispatching, "mine"));
}

/// An owner whose effect was taken over answers after all. A definite answer is never dropped.
#[test]
fn an_answer_of_an_earlier_epoch_is_evidence() {
    for class in [K, R] {
        let first = effect(class, Dispatching);
        let taken = step(Some(&first), &began(class), &gone(NOW_MS + LEASE_MS)).change.unwrap();
        assert_eq!((taken.state, taken.epoch), (Dispatching, first.epoch + 1));
        for (end, then) in [(DispatchEnd::Completed(answer()), Completed), (DispatchEnd::Failed(answer()), FailedFinal)]
        {
            assert_eq!(settle(&taken, first.epoch, &end), (then, "settled", false), "{class:?}");
            let lost = EffectEvent::Settle(taken.claim(), DispatchEnd::Unknown("reset".to_owned()));
            let unknown = step(Some(&taken), &lost, &at(NOW_MS)).change.unwrap();
            assert_eq!(settle(&unknown, first.epoch, &end), (then, "settled", false), "{class:?}");
        }
        for (name, end) in &ends()[2..] {
            assert_eq!(settle(&taken, first.epoch, end), (Dispatching, "stale", false), "{class:?} {name}");
        }
    }
    // The new owner's own answer is then the same one and is reported as done; another answer is not.
    let first = effect(K, Dispatching);
    let taken = step(Some(&first), &began(K), &gone(NOW_MS + LEASE_MS)).change.unwrap();
    let late = EffectEvent::Settle(first.claim(), DispatchEnd::Completed(answer()));
    let done = step(Some(&taken), &late, &at(NOW_MS)).change.unwrap();
    assert_eq!(settle(&done, taken.epoch, &DispatchEnd::Completed(answer())), (Completed, "settled", false));
    let other = StoredAnswer::Result(Bytes::from_static(b"{\"content\":[1]}"));
    assert_eq!(settle(&done, taken.epoch, &DispatchEnd::Completed(other)), (Completed, "stale", false));
}

/// A later epoch of an effect that cannot be repeated exists only because the ledger held that the earlier one
/// never ran.
#[test]
fn an_answer_that_contradicts_the_ledger_is_kept_and_pages() {
    for class in [N, Q] {
        let first = effect(class, FailedRetryable);
        let taken = step(Some(&first), &began(class), &at(NOW_MS + 1)).change.unwrap();
        let late = EffectEvent::Settle(first.claim(), DispatchEnd::Completed(answer()));
        let after = step(Some(&taken), &late, &at(NOW_MS + 2));
        assert_eq!(after.reply, EffectReply::Contradicted, "{class:?}");
        let changed = after.change.unwrap();
        assert_eq!((changed.state, changed.conflict.map(|conflict| conflict.state)), (Completed, Some(Dispatching)));
    }
}

#[test]
fn without_the_rule_late_evidence_is_dropped() {
    let first = effect(K, Dispatching);
    let taken = step(Some(&first), &began(K), &gone(NOW_MS + LEASE_MS)).change.unwrap();
    let around = super::EffectContext { rules: EffectRules::IN_FORCE.without(EffectRule::LateEvidence), ..at(NOW_MS) };
    let late = EffectEvent::Settle(first.claim(), DispatchEnd::Completed(answer()));
    assert_eq!(step(Some(&taken), &late, &around).reply, EffectReply::Stale);
}

/// An owner that did not learn that its end was accepted offers it again.
#[test]
fn the_same_end_again_is_settled_and_changes_nothing() {
    for class in ALL {
        let before = effect(class, Dispatching);
        for (name, end) in ends() {
            let offered = EffectEvent::Settle(before.claim(), end);
            let Some(settled) = step(Some(&before), &offered, &at(NOW_MS)).change else { continue };
            let again = step(Some(&settled), &offered, &at(NOW_MS + 1));
            assert_eq!((again.change, again.reply), (None, EffectReply::Settled), "{class:?} {name}");
        }
    }
}

/// A status tool that found the effect knows no answer; the owner's own answer, when it comes, is better
/// evidence.
#[test]
fn an_answer_takes_the_place_of_what_was_only_known() {
    let asked = effect(Q, Dispatching);
    let found = DispatchEnd::Completed(StoredAnswer::Known("the status tool found it".to_owned()));
    let known = step(Some(&asked), &EffectEvent::Settle(asked.claim(), found), &at(NOW_MS)).change.unwrap();
    let after =
        step(Some(&known), &EffectEvent::Settle(asked.claim(), DispatchEnd::Completed(answer())), &at(NOW_MS + 1));
    assert_eq!(after.reply, EffectReply::Settled);
    assert_eq!(after.change.unwrap().answer, Some(answer()));
    let over = step(Some(&known), &EffectEvent::Expire, &at(NOW_MS + HOUR_MS)).change.unwrap();
    assert_eq!(settle(&over, asked.epoch, &DispatchEnd::Completed(answer())), (Expired, "stale", false));
}
