//! `make model`: explores the full bounds, shows what breaks without each rule, and walks through a million random histories.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a trial prints, and says how long it took")]

use std::{process::ExitCode, time::Instant};

use model::{BEFORE, Bounds, Explored, Violation, explore, full, walk, wide, without};
use servanda_contract::tool::EffectClass;
use servanda_effects::effect::{EffectRule, EffectRules};

/// The most states for a machine of this size.
const STATES_MAX: usize = 40_000_000;
/// Random histories, over all classes.
const HISTORIES: u64 = 1_000_000;

fn main() -> ExitCode {
    let started = Instant::now();
    // Words of a scenario's name: only matching scenarios are explored.
    if let Some(name) = std::env::args().nth(1) {
        return if exhaust(&name) { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let whole = exhaust("") & rules_before() & each_rule() & histories();
    println!("{} in {} s", if whole { "passed" } else { "FAILED" }, started.elapsed().as_secs());
    if whole { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn exhaust(name: &str) -> bool {
    println!("every history within the bounds, all rules in force:");
    let mut whole = true;
    for scenario in full().into_iter().filter(|scenario| scenario.name.contains(name)) {
        let started = Instant::now();
        let explored = explore(&scenario.bounds, STATES_MAX, |_| true);
        whole &= matches!(explored, Explored::Exhausted { .. });
        println!(
            "  {} ({}): {} in {} s",
            scenario.name,
            extent(&scenario.bounds),
            words(&explored),
            started.elapsed().as_secs()
        );
    }
    whole
}

/// Shortest histories of what independent trials found.
fn rules_before() -> bool {
    println!("with the rules before issue 15:");
    let (bounds, _) = without(EffectRule::WholeKey);
    let bounds = Bounds { rules: BEFORE, ..bounds };
    let away = Bounds { outages: 1, ticks: Some(6), losses: 0, ..bounds };
    let a1 = explore(&away, STATES_MAX, |violation| violation == Violation::DoneUndone);
    println!("  A1, told as done and not held as done: {}", words(&a1));
    let a2 = explore(&bounds, STATES_MAX, |violation| violation == Violation::NothingDenied);
    println!("  A2 (a), told that nothing was done: {}", words(&a2));
    [a1, a2].iter().all(|explored| matches!(explored, Explored::Broken { .. }))
}

fn each_rule() -> bool {
    println!("without each rule by itself, and with it within the same bounds:");
    let mut whole = true;
    for rule in EffectRule::ALL {
        let (bounds, expected) = without(rule);
        let explored = explore(&bounds, STATES_MAX, |violation| violation == expected);
        let in_force = explore(&Bounds { rules: EffectRules::IN_FORCE, ..bounds }, STATES_MAX, |_| true);
        whole &= matches!(explored, Explored::Broken { .. }) && matches!(in_force, Explored::Exhausted { .. });
        println!("  {rule:?}: {}; with it: {}", words(&explored), words(&in_force));
    }
    whole
}

fn histories() -> bool {
    let classes = [EffectClass::N, EffectClass::K, EffectClass::Q, EffectClass::R];
    let shapes = [(1, false), (2, false), (1, true), (2, true)];
    let each = HISTORIES / (classes.len() * shapes.len()) as u64;
    let (mut steps, seed) = (0, 15_000_000);
    for class in classes {
        for (keys, claims) in shapes {
            match walk(&wide(class, keys, claims), seed, each, 80) {
                Ok(walked) => steps += walked,
                Err(broken) => {
                    println!("a random history of class {class:?} breaks a promise: {broken:#?}");
                    return false;
                }
            }
        }
    }
    println!("{} random histories from seed {seed}, {steps} steps: no promise broken", each * 16);
    true
}

/// How often each thing may happen.
fn extent(bounds: &Bounds) -> String {
    let Bounds { owners, keys, calls, outages, pauses, deaths, losses, lost_acks, leaps, .. } = bounds;
    let mut words = vec![format!("{owners} gateways, {keys} keys, {calls} calls")];
    let happens = [
        (outages, "outages"),
        (pauses, "pauses"),
        (deaths, "deaths"),
        (losses, "losses"),
        (lost_acks, "lost acknowledgements"),
        (leaps, "leaps"),
    ];
    words.extend(happens.iter().filter(|(count, _)| **count > 0).map(|(count, what)| format!("{count} {what}")));
    words.join(", ")
}

fn words(explored: &Explored) -> String {
    match explored {
        Explored::Exhausted { states, depth } => format!("{states} states, exhausted at depth {depth}"),
        Explored::TooMany { states } => format!("not exhausted after {states} states"),
        Explored::Broken { violation, history, states } => {
            let steps: Vec<String> = history.iter().map(|action| format!("{action:?}")).collect();
            format!("{violation:?} after {} steps ({states} states): {}", history.len(), steps.join(", "))
        }
    }
}
