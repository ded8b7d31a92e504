//! Explores every history within the bounds, breadth first, so that a broken promise is shown by a shortest history. Two states
//! that differ only in the time are one.

use std::collections::HashMap;

use crate::{
    Action, Violation,
    action::possible,
    canonical::Canonical,
    happen::after,
    world::{Bounds, World},
};

/// The result of an exploration.
#[derive(Debug)]
pub enum Explored {
    /// Every state within the bounds was explored, and no promise was broken.
    Exhausted {
        /// How many states there are.
        states: usize,
        /// The length of the longest shortest history.
        depth: usize,
    },
    /// A shortest history that breaks a promise.
    Broken {
        /// The promise.
        violation: Violation,
        /// What happened, in order.
        history: Vec<Action>,
        /// How many states were explored.
        states: usize,
    },
    /// There were more states than the limit.
    TooMany {
        /// The limit.
        states: usize,
    },
}

/// How a state was first reached: from which state, by which action.
type Reached = HashMap<u128, (u128, Action)>;

/// Explores everything within the bounds. `wanted` says which broken promises count.
pub fn explore(bounds: &Bounds, states_max: usize, wanted: impl Fn(Violation) -> bool) -> Explored {
    let canonical = Canonical::new(*bounds);
    let first = World::new(bounds);
    let root = canonical.fingerprint(&first);
    let mut reached: Reached = HashMap::new();
    let mut layer = vec![(root, first)];
    let (mut states, mut depth) = (1, 0);
    while !layer.is_empty() {
        let mut next = Vec::new();
        for (from, world) in layer {
            for action in possible(&world, bounds) {
                match after(&world, bounds, action) {
                    Err(violation) if wanted(violation) => {
                        let mut history = history_of(&reached, root, from);
                        history.push(action);
                        return Explored::Broken { violation, history, states };
                    }
                    // A broken promise that is not wanted ends its history here.
                    Err(_) => {}
                    Ok(world) => {
                        let print = canonical.fingerprint(&world);
                        if print != root && !reached.contains_key(&print) {
                            reached.insert(print, (from, action));
                            next.push((print, world));
                            states += 1;
                        }
                    }
                }
            }
            if states > states_max {
                return Explored::TooMany { states };
            }
        }
        depth += usize::from(!next.is_empty());
        layer = next;
    }
    Explored::Exhausted { states, depth }
}

fn history_of(reached: &Reached, root: u128, last: u128) -> Vec<Action> {
    let mut history = Vec::new();
    let mut at = last;
    while at != root {
        let Some((from, action)) = reached.get(&at) else { break };
        history.push(*action);
        at = *from;
    }
    history.reverse();
    history
}
