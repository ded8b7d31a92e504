//! The law: whatever happens to one key, in whatever order, with two owners, a network and a clock, an effect
//! that may not be repeated happens at most once, and its states follow the arrows of the design.

use proptest::prelude::*;
use servanda_contract::tool::EffectClass;

use super::{
    Claimed, Completed, Dispatching, Expired, FailedFinal, FailedRetryable, HOUR_MS, K, N, NOW_MS, Unknown, answer, at,
    begin,
};
use crate::effect::{
    BeginMode, BeginRequest, Claim, DispatchEnd, Effect, EffectContext, EffectEvent, EffectReply, EffectState,
    ManualSettlement, OwnerId, step,
};

/// What can happen to one key, with two owners, a network and a clock.
#[derive(Debug, Clone)]
enum Happening {
    Begins { owner: u8, claims: bool },
    Fences { owner: u8 },
    Sends { owner: u8 },
    Answers { owner: u8 },
    Resets { owner: u8 },
    NeverSends { owner: u8 },
    Recovers,
    Waits(u64),
    OwnersVanish,
    SettlesByHand,
    Expires,
}

fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    let owner = 0..3u8;
    let one = prop_oneof![
        4 => (owner.clone(), any::<bool>()).prop_map(|(owner, claims)| Happening::Begins { owner, claims }),
        3 => owner.clone().prop_map(|owner| Happening::Fences { owner }),
        4 => owner.clone().prop_map(|owner| Happening::Sends { owner }),
        2 => owner.clone().prop_map(|owner| Happening::Answers { owner }),
        2 => owner.clone().prop_map(|owner| Happening::Resets { owner }),
        1 => owner.prop_map(|owner| Happening::NeverSends { owner }),
        2 => Just(Happening::Recovers),
        2 => prop_oneof![Just(100u64), Just(12_000), Just(HOUR_MS)].prop_map(Happening::Waits),
        1 => Just(Happening::OwnersVanish),
        1 => Just(Happening::SettlesByHand),
        1 => Just(Happening::Expires),
    ];
    proptest::collection::vec(one, 1..60)
}

/// A process that does what it is allowed to do, whenever it gets to it.
#[derive(Debug, Default, Clone)]
struct Process {
    claimed: Option<Claim>,
    may_send: Option<Claim>,
    sent: Option<Claim>,
}

struct World {
    effect: Option<Effect>,
    now_ms: u64,
    owners_gone: bool,
    processes: [Process; 3],
    /// How often the upstream performed it.
    done: u32,
}

impl World {
    fn apply(&mut self, event: &EffectEvent) -> EffectReply {
        let around = EffectContext { owner_is_gone: self.owners_gone, ..at(self.now_ms) };
        let after = step(self.effect.as_ref(), event, &around);
        if let Some(changed) = after.change {
            self.effect = Some(changed);
        }
        after.reply
    }

    fn happens(&mut self, class: EffectClass, happening: &Happening) {
        match happening {
            Happening::Begins { owner, claims } => {
                let go = if *claims { BeginMode::Claim { lease_ms: 10_000 } } else { BeginMode::Dispatch };
                let wants = BeginRequest { mode: go, ..begin(class, &owner.to_string()) };
                if let EffectReply::Mine(claim) = self.apply(&EffectEvent::Begin(Box::new(wants))) {
                    let fenced = self.effect.as_ref().unwrap().state == Dispatching;
                    let process = &mut self.processes[usize::from(*owner)];
                    if fenced { process.may_send = Some(claim) } else { process.claimed = Some(claim) }
                }
            }
            Happening::Fences { owner } => {
                let Some(claim) = self.processes[usize::from(*owner)].claimed.take() else { return };
                if let EffectReply::Mine(claim) = self.apply(&EffectEvent::Fence(claim)) {
                    self.processes[usize::from(*owner)].may_send = Some(claim);
                }
            }
            // A zombie may wake up at any time and send what it was once allowed to send.
            Happening::Sends { owner } => {
                let process = &mut self.processes[usize::from(*owner)];
                let Some(claim) = process.may_send.take() else { return };
                process.sent = Some(claim);
                self.done += u32::from(class != K || self.done == 0);
            }
            Happening::Answers { owner } => {
                let Some(claim) = self.processes[usize::from(*owner)].sent.take() else { return };
                self.apply(&EffectEvent::Settle(claim, DispatchEnd::Completed(answer())));
            }
            Happening::Resets { owner } => {
                let Some(claim) = self.processes[usize::from(*owner)].sent.take() else { return };
                self.apply(&EffectEvent::Settle(claim, DispatchEnd::Unknown("reset".to_owned())));
            }
            Happening::NeverSends { owner } => {
                let Some(claim) = self.processes[usize::from(*owner)].may_send.take() else { return };
                self.apply(&EffectEvent::Settle(claim, DispatchEnd::NotExecuted("refused".to_owned())));
            }
            Happening::Recovers => {
                if let EffectReply::Mine(claim) = self.apply(&EffectEvent::Recover(OwnerId::from("2".to_owned()))) {
                    self.processes[2].may_send = Some(claim);
                }
            }
            Happening::Waits(ms) => {
                self.now_ms += ms;
                self.owners_gone = false;
            }
            Happening::OwnersVanish => self.owners_gone = true,
            Happening::SettlesByHand => {
                let by_hand = ManualSettlement {
                    epoch: None,
                    completed: true,
                    by: "ada".to_owned(),
                    evidence: "seen".to_owned(),
                };
                self.apply(&EffectEvent::SettleByHand(by_hand));
            }
            Happening::Expires => drop(self.apply(&EffectEvent::Expire)),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Two processes, pauses of any length, lost answers, zombies, recoveries: at most one effect.
    #[test]
    fn nothing_of_class_n_or_k_is_ever_done_twice(k in any::<bool>(), happenings in happenings()) {
        let class = if k { K } else { N };
        let mut world = World {
            effect: None, now_ms: NOW_MS, owners_gone: false, processes: Default::default(), done: 0,
        };
        for (number, happening) in happenings.iter().enumerate() {
            let before = world.effect.clone();
            world.happens(class, happening);
            prop_assert!(world.done <= 1, "done {} times after {number}: {happening:?}", world.done);
            if let (Some(before), Some(after)) = (before, &world.effect) {
                prop_assert!(after.epoch >= before.epoch);
                prop_assert!(legal(before.state, after.state), "{:?} to {:?}", before.state, after.state);
            }
        }
    }
}

/// The arrows of the design, and staying in the same state.
fn legal(before: EffectState, after: EffectState) -> bool {
    let arrows = [
        (Claimed, Dispatching),
        (Claimed, FailedRetryable),
        (Claimed, FailedFinal),
        (Dispatching, Completed),
        (Dispatching, FailedFinal),
        (Dispatching, FailedRetryable),
        (Dispatching, Unknown),
        (FailedRetryable, Claimed),
        (FailedRetryable, Dispatching),
        (FailedRetryable, Expired),
        (Unknown, Completed),
        (Unknown, FailedFinal),
        (Unknown, FailedRetryable),
        (Unknown, Dispatching),
        (Completed, Expired),
        (FailedFinal, Expired),
    ];
    before == after || arrows.contains(&(before, after))
}
