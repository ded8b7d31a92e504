//! The small form of `make model`.

use servanda_contract::tool::EffectClass;
use servanda_effects::effect::{EffectRule, EffectRules};

use crate::{BEFORE, Bounds, Explored, Violation, explore, scenario, walk};

#[test]
fn within_small_bounds_no_promise_is_broken() {
    for scenario in scenario::small() {
        match explore(&scenario.bounds, 300_000, |_| true) {
            Explored::Exhausted { states, depth } => {
                assert!(states > 1_000 && depth > 10, "{}: {states} states, depth {depth}", scenario.name);
            }
            other => panic!("{}: {other:?}", scenario.name),
        }
    }
}

/// Each rule is needed: without it, and with all others, a promise breaks.
#[test]
fn taking_out_a_rule_breaks_a_promise() {
    for rule in EffectRule::ALL {
        let (bounds, expected) = scenario::without(rule);
        match explore(&bounds, 300_000, |violation| violation == expected) {
            Explored::Broken { .. } => {}
            other => panic!("without {rule:?}: {other:?}"),
        }
    }
}

/// What independent trials found under the earlier rules: a call reported as done that the ledger does not hold as done after a
/// store outage, and a keyed call whose client was told that nothing was done while its upstream was down.
#[test]
fn the_rules_before_break_as_it_was_found() {
    let away = Bounds { class: EffectClass::K, outages: 1, ticks: Some(6), rules: BEFORE, ..small_bounds() };
    let found = explore(&away, 300_000, |violation| violation == Violation::DoneUndone);
    assert!(matches!(found, Explored::Broken { .. }), "A1: {found:?}");
    let down = Bounds { class: EffectClass::K, losses: 2, rules: BEFORE, ..small_bounds() };
    let found = explore(&down, 300_000, |violation| violation == Violation::NothingDenied);
    assert!(matches!(found, Explored::Broken { .. }), "A2 (a): {found:?}");
}

#[test]
fn random_histories_keep_every_promise() {
    for class in [EffectClass::N, EffectClass::K, EffectClass::Q] {
        for keys in [1, 2] {
            if let Err(broken) = walk(&scenario::wide(class, keys, false), 7, 500, 80) {
                panic!("{class:?}, {keys} keys: {broken:#?}");
            }
        }
    }
}

fn small_bounds() -> Bounds {
    let (bounds, _) = scenario::without(EffectRule::Turns);
    Bounds { keys: 1, rules: EffectRules::IN_FORCE, ..bounds }
}
