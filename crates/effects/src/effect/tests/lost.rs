//! Keys that a store does not know after it has lost some of its commits.

use super::*;
use crate::effect::LostWindow;

/// Ten minutes were lost, and the loss was accepted just now.
fn after_a_loss(from_ms: u64) -> EffectContext {
    EffectContext { lost_window: Some(LostWindow { from_ms, until_ms: NOW_MS }), ..at(NOW_MS) }
}

fn by_hand(completed: bool) -> EffectEvent {
    EffectEvent::SettleByHand(ManualSettlement {
        epoch: None,
        completed,
        by: "ada".to_owned(),
        evidence: "the list".to_owned(),
    })
}

#[test]
fn an_unknown_key_of_class_n_does_not_run_after_a_loss_until_a_person_settles_it() {
    let around = after_a_loss(NOW_MS - 600_000);
    let after = step(None, &began(N), &around);
    let effect = after.change.unwrap();
    assert_eq!((effect.state, word(&after.reply), effect.is_from_lost_window()), (Unknown, "unknown", true));
    assert!(effect.reason.as_ref().unwrap().contains("lost the time from"), "{effect:?}");
    assert_eq!(follows(&effect, &began(N), &around), (Unknown, "unknown"));
    assert_eq!(follows(&effect, &began(N), &at(NOW_MS + 30 * HOUR_MS)), (Unknown, "unknown"), "nor later");
    let done = step(Some(&effect), &by_hand(true), &around).change.unwrap();
    assert_eq!(follows(&done, &began(N), &around), (Completed, "replay"));
    let not_done = step(Some(&effect), &by_hand(false), &around).change.unwrap();
    assert_eq!(follows(&not_done, &began(N), &around), (Dispatching, "mine"));
}

/// The state that it never ran is from when the restored copy was made.
#[test]
fn a_key_that_never_ran_before_a_loss_may_have_run_in_it() {
    let around = after_a_loss(NOW_MS - 600_000);
    for state in [FailedRetryable, Claimed] {
        let before = Effect { changed_ms: NOW_MS - 700_000, ..effect(N, state) };
        assert_eq!(follows(&before, &began(N), &around), (Unknown, "unknown"), "{state:?}");
        let since = Effect { changed_ms: NOW_MS, ..before };
        assert_ne!(follows(&since, &began(N), &around), (Unknown, "unknown"), "{state:?}");
    }
}

#[test]
fn a_call_without_a_key_is_a_new_operation_after_a_loss_too() {
    let mut keyless = begin(N, "b");
    keyless.key.client_key = ClientKey::Call(CallId::from("call_b".to_owned()));
    let after = step(None, &EffectEvent::Begin(Box::new(keyless)), &after_a_loss(NOW_MS - 600_000));
    assert_eq!((after.change.unwrap().state, word(&after.reply)), (Dispatching, "mine"));
}

/// The upstream knows the gateway's key for an hour: it may be sent again as long as the upstream still knows a
/// dispatch from the beginning of the lost window.
#[test]
fn a_key_that_its_upstream_dedupes_is_sent_after_a_loss_while_the_upstream_still_knows_it() {
    let after = step(None, &began(K), &after_a_loss(NOW_MS - 600_000));
    let sent = after.change.unwrap();
    assert_eq!((sent.state, word(&after.reply)), (Dispatching, "mine"));
    // Nothing was sent this time; what may have been sent in the lost window is still uncertain.
    let refused = EffectEvent::Settle(sent.claim(), DispatchEnd::NotExecuted("no connection".to_owned()));
    assert_eq!(follows(&sent, &refused, &at(NOW_MS + 1)), (Unknown, "settled"));
    let now_ms = 10 * HOUR_MS;
    let lost_window = Some(LostWindow { from_ms: now_ms - HOUR_MS, until_ms: now_ms });
    let after = step(None, &began(K), &EffectContext { lost_window, ..at(now_ms) });
    assert_eq!((after.change.unwrap().state, word(&after.reply)), (Unknown, "unknown"));
}

#[test]
fn a_key_that_can_be_asked_about_is_asked_about_after_a_loss() {
    let around = after_a_loss(NOW_MS - 600_000);
    let after = step(None, &began(Q), &around);
    let effect = after.change.unwrap();
    assert_eq!(word(&after.reply), "ask");
    let absent = EffectEvent::Settle(effect.claim(), DispatchEnd::Absent("not there".to_owned()));
    let absent = step(Some(&effect), &absent, &around).change.unwrap();
    assert_eq!(follows(&absent, &began(Q), &around), (Dispatching, "mine"));
}
