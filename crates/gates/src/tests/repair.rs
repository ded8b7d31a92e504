//! Repair loops end.

use proptest::prelude::*;
use servanda_contract::{
    CallId, Digest, FieldError, GateName, Refusal, TaxonomyClass,
    digest::DigestDomain,
    refusal::{RepairProgress, RepairStop},
    taxonomy::NextAction,
};

use crate::repair::{RepairChain, RepairLimits};

const LIMITS: RepairLimits = RepairLimits { attempts_max: 5, same_errors_max: 3 };

/// A refusal about one field.
fn refusal(field: &str) -> Refusal {
    let error = FieldError {
        field: field.to_owned(),
        pointer: format!("/{field}"),
        expected: "integer".to_owned(),
        actual: "string".to_owned(),
        message: String::new(),
        did_you_mean: None,
    };
    let (call_id, class) = (CallId::from("call_1".to_owned()), TaxonomyClass::TypeMismatch);
    Refusal::new(call_id, GateName::Types, class, "m".to_owned(), "h".to_owned()).with_field_errors(vec![error])
}

fn arguments(text: &str) -> Digest {
    Digest::compute(DigestDomain::Arguments, &[text.as_bytes()])
}

/// Plays refusals as (arguments, failing field), and returns why each was stopped.
fn play(attempts: &[(&str, &str)]) -> Vec<Option<RepairStop>> {
    let mut chain = RepairChain::default();
    let played = attempts.iter().map(|(text, field)| {
        let mut refusal = refusal(field);
        chain.note(&mut refusal, arguments(text), LIMITS);
        refusal.repair.unwrap().stopped
    });
    played.collect()
}

#[test]
fn a_chain_that_makes_progress_goes_on() {
    assert_eq!(play(&[("1", "a"), ("2", "b"), ("3", "c"), ("4", "d")]), [None, None, None, None]);
}

#[test]
fn the_same_arguments_twice() {
    assert_eq!(play(&[("1", "a"), ("1", "a")]), [None, Some(RepairStop::SameArguments)]);
    assert_eq!(play(&[("1", "a"), ("2", "b"), ("1", "a")]), [None, None, Some(RepairStop::SameArguments)]);
}

#[test]
fn the_same_errors_again_and_again() {
    assert_eq!(play(&[("1", "a"), ("2", "a"), ("3", "a")]), [None, None, Some(RepairStop::SameErrors)]);
    // A different error in between counts as progress; the attempts still end.
    let expected = [None, None, None, None, Some(RepairStop::AttemptsExhausted)];
    assert_eq!(play(&[("1", "a"), ("2", "a"), ("3", "b"), ("4", "a"), ("5", "a")]), expected);
}

#[test]
fn the_answer_says_so() {
    let mut chain = RepairChain::default();
    let mut first = refusal("a");
    chain.note(&mut first, arguments("1"), LIMITS);
    assert_eq!(first.repair, Some(RepairProgress { attempt: 1, attempts_max: 5, stopped: None }));
    assert!(first.repairable && first.hint == "h");
    let mut second = refusal("a");
    chain.note(&mut second, arguments("1"), LIMITS);
    assert!(!second.repairable && second.escalate);
    assert_eq!(second.next_action, NextAction::StopAndTellUser);
    assert_eq!(
        second.hint,
        "stop repairing: these very arguments were refused before; ask the user for the missing facts, or leave this tool alone"
    );
    assert_eq!(second.message, "m", "the message still says what is wrong");
}

/// The engine drops a chain when a call passes: the next chain starts at one.
#[test]
fn a_new_chain_begins_anew() {
    let mut chain = RepairChain::default();
    chain.note(&mut refusal("a"), arguments("1"), LIMITS);
    chain = RepairChain::default();
    let mut again = refusal("a");
    chain.note(&mut again, arguments("1"), LIMITS);
    assert_eq!(again.repair, Some(RepairProgress { attempt: 1, attempts_max: 5, stopped: None }));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn after_the_last_attempt_every_answer_says_stop(
        attempts in proptest::collection::vec((0_u8..20, 0_u8..4), 1..40),
        attempts_max in 0_u32..8,
        same_errors_max in 1_u32..6,
    ) {
        let limits = RepairLimits { attempts_max, same_errors_max };
        let mut chain = RepairChain::default();
        for (number, (text, field)) in (1_u32..).zip(attempts) {
            let mut refusal = refusal(&field.to_string());
            chain.note(&mut refusal, arguments(&text.to_string()), limits);
            let progress = refusal.repair.clone().unwrap();
            prop_assert_eq!(progress.attempt, number);
            prop_assert_eq!(progress.stopped.is_some(), !refusal.repairable);
            if number >= attempts_max {
                prop_assert!(progress.stopped.is_some(), "attempt {} of {}", number, attempts_max);
            }
        }
        // The limit bounds the memory, however often a caller repeats.
        let remembered = format!("{chain:?}").matches("sha256:").count();
        prop_assert!(remembered <= usize::try_from(attempts_max.max(1)).unwrap() + 1, "{}", remembered);
    }
}
