//! Random histories, longer and wider than can be explored exhaustively. Every history comes from a seed, so that one that
//! breaks a promise can be repeated.

use crate::{
    Action, Violation,
    action::possible,
    happen::after,
    world::{Bounds, World},
};

/// A history that broke a promise.
#[derive(Debug)]
pub struct Broken {
    /// The number it was drawn from.
    pub seed: u64,
    /// Which promise.
    pub violation: Violation,
    /// What happened, in order.
    pub history: Vec<Action>,
}

/// Walks through that many histories, and returns their number of steps.
pub fn walk(bounds: &Bounds, seed: u64, histories: u64, steps_max: usize) -> Result<u64, Box<Broken>> {
    let mut steps = 0;
    for number in 0..histories {
        let seed = seed.wrapping_add(number);
        steps += one(bounds, seed, steps_max)?;
    }
    Ok(steps)
}

fn one(bounds: &Bounds, seed: u64, steps_max: usize) -> Result<u64, Box<Broken>> {
    let mut random = Random(seed ^ 0x9e37_79b9_7f4a_7c15);
    let mut world = World::new(bounds);
    let mut history = Vec::new();
    for _ in 0..steps_max {
        let actions = possible(&world, bounds);
        let Some(action) = actions.get(random.below(actions.len())).copied() else { break };
        history.push(action);
        world = match after(&world, bounds, action) {
            Ok(world) => world,
            Err(violation) => return Err(Box::new(Broken { seed, violation, history })),
        };
    }
    Ok(history.len() as u64)
}

/// `SplitMix64`.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        if limit == 0 { 0 } else { usize::try_from(self.next() % limit as u64).unwrap_or_default() }
    }
}
