//! The bounds that are explored, and for every rule the bounds in which its absence is visible.

use servanda_contract::tool::EffectClass;
use servanda_effects::effect::{EffectRule, EffectRules};

use crate::{Bounds, Violation};

/// Bounds with a name.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    /// What it is called in reports.
    pub name: &'static str,
    /// Its bounds.
    pub bounds: Bounds,
}

/// The rules that were not in force before issue 15.
pub const BEFORE: EffectRules = EffectRules::IN_FORCE
    .without(EffectRule::Lease)
    .without(EffectRule::LedgerTime)
    .without(EffectRule::SendWithinLease)
    .without(EffectRule::Accepted)
    .without(EffectRule::LateEvidence)
    .without(EffectRule::WholeKey)
    .without(EffectRule::UnknownBefore)
    .without(EffectRule::TurnUntilOverdue);

const NOTHING: Bounds = Bounds {
    class: EffectClass::N,
    owners: 2,
    keys: 1,
    calls: 2,
    claims: false,
    ticks: None,
    leaps: 0,
    outages: 0,
    pauses: 0,
    deaths: 0,
    losses: 0,
    lost_acks: 0,
    rules: EffectRules::IN_FORCE,
};

/// The bounds of random histories: more of everything than can be explored.
pub fn wide(class: EffectClass, keys: u8, claims: bool) -> Bounds {
    Bounds {
        class,
        owners: 3,
        keys,
        calls: 8,
        claims,
        ticks: Some(40),
        leaps: 1,
        outages: 3,
        pauses: 3,
        deaths: 2,
        losses: 6,
        lost_acks: 2,
        rules: EffectRules::IN_FORCE,
    }
}

/// What `make test` explores.
pub fn small() -> Vec<Scenario> {
    let mut scenarios = Vec::new();
    for (name, class) in [("small, class N", EffectClass::N), ("small, class K", EffectClass::K)] {
        let bounds = Bounds { class, calls: 2, outages: 1, losses: 1, ..NOTHING };
        scenarios.push(Scenario { name, bounds });
    }
    scenarios
}

/// What `make model` explores.
pub fn full() -> Vec<Scenario> {
    let mut scenarios = Vec::new();
    let one = Bounds { calls: 3, outages: 1, pauses: 1, deaths: 1, ..NOTHING };
    for (class, name) in [(EffectClass::N, "one key of class N"), (EffectClass::Q, "one key of class Q")] {
        scenarios.push(Scenario { name, bounds: Bounds { class, losses: 2, lost_acks: 1, ..one } });
    }
    // Calls that are sent again have many more histories, so three calls do not get all events at once.
    for (class, name) in [(EffectClass::K, "one key of class K"), (EffectClass::R, "one key of class R")] {
        let three = Bounds { class, calls: 3, ..NOTHING };
        scenarios.push(Scenario { name, bounds: Bounds { class, calls: 2, losses: 1, lost_acks: 1, ..one } });
        scenarios.push(Scenario { name, bounds: Bounds { outages: 1, pauses: 1, ..three } });
        scenarios.push(Scenario { name, bounds: Bounds { deaths: 1, losses: 2, ..three } });
        scenarios.push(Scenario { name, bounds: Bounds { outages: 1, lost_acks: 1, losses: 1, ..three } });
    }
    let wide = Bounds { calls: 3, owners: 3, outages: 1, pauses: 1, deaths: 1, losses: 1, ..NOTHING };
    scenarios.push(Scenario { name: "three gateways, class N", bounds: wide });
    let resent = Bounds { class: EffectClass::K, owners: 3, calls: 2, ..NOTHING };
    scenarios.push(Scenario { name: "three gateways, class K", bounds: Bounds { outages: 1, deaths: 1, ..resent } });
    scenarios.push(Scenario { name: "three gateways, class K", bounds: Bounds { pauses: 1, losses: 1, ..resent } });
    let claims = Bounds { claims: true, calls: 3, outages: 1, pauses: 1, deaths: 1, losses: 1, ..NOTHING };
    scenarios.push(Scenario { name: "claimed first, class N", bounds: claims });
    for (class, name) in [
        (EffectClass::N, "two keys of one account, class N"),
        (EffectClass::K, "two keys of one account, class K"),
        (EffectClass::Q, "two keys of one account, class Q"),
    ] {
        let account = Bounds { class, keys: 2, calls: 3, ..NOTHING };
        scenarios.push(Scenario { name, bounds: Bounds { outages: 1, pauses: 1, ..account } });
        scenarios.push(Scenario { name, bounds: Bounds { pauses: 1, deaths: 1, ..account } });
        scenarios.push(Scenario { name, bounds: Bounds { deaths: 1, losses: 1, outages: 1, ..account } });
    }
    let windows = Bounds { calls: 4, leaps: 1, pauses: 1, losses: 2, ..NOTHING };
    scenarios.push(Scenario { name: "windows that end, class N", bounds: windows });
    scenarios.push(Scenario { name: "windows that end, class K", bounds: Bounds { class: EffectClass::K, ..windows } });
    scenarios
}

/// Bounds in which the absence of a rule is visible, and the promise that it breaks.
pub fn without(rule: EffectRule) -> (Bounds, Violation) {
    let (bounds, violation) = match rule {
        EffectRule::Lease => (Bounds { pauses: 1, ..NOTHING }, Violation::UnknownWhileHeld),
        EffectRule::LedgerTime => (Bounds { outages: 1, ..NOTHING }, Violation::UnknownWhileHeld),
        EffectRule::Epoch => (Bounds { claims: true, ..NOTHING }, Violation::RanTwice),
        EffectRule::NeverAgain => (Bounds { losses: 1, ..NOTHING }, Violation::RanTwice),
        EffectRule::SendWithinLease => (Bounds { keys: 2, pauses: 1, ..NOTHING }, Violation::TwoAtOnce),
        EffectRule::Accepted => {
            let bounds = Bounds { class: EffectClass::K, pauses: 1, leaps: 1, ..NOTHING };
            (bounds, Violation::DoneUndone)
        }
        EffectRule::LateEvidence => {
            let bounds = Bounds { class: EffectClass::K, pauses: 1, losses: 1, ..NOTHING };
            (bounds, Violation::EvidenceDropped)
        }
        EffectRule::WholeKey => (Bounds { class: EffectClass::K, losses: 2, ..NOTHING }, Violation::NothingDenied),
        EffectRule::UnknownBefore => (Bounds { outages: 1, ..NOTHING }, Violation::NothingDenied),
        EffectRule::Turns => (Bounds { keys: 2, ..NOTHING }, Violation::TwoAtOnce),
        EffectRule::TurnUntilOverdue => (Bounds { keys: 2, deaths: 1, calls: 3, ..NOTHING }, Violation::TwoAtOnce),
        EffectRule::KeyWindow => {
            let bounds = Bounds { class: EffectClass::K, losses: 1, leaps: 1, ..NOTHING };
            (bounds, Violation::RanTwice)
        }
        EffectRule::AbsentAfterItsTime => (Bounds { class: EffectClass::Q, losses: 1, ..NOTHING }, Violation::RanTwice),
        EffectRule::Tombstone => (Bounds { leaps: 1, ..NOTHING }, Violation::DoneUndone),
    };
    (Bounds { rules: EffectRules::IN_FORCE.without(rule), ..bounds }, violation)
}
