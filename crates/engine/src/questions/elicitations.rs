//! Which elicitations clients were given: a server may report the end of these, and of no others.

use std::{
    collections::{HashSet, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

/// The most elicitations that are remembered; the oldest is dropped first.
const GIVEN_MAX: usize = 16_384;
/// How long the id of an elicitation may be; a longer one is not remembered.
const ID_BYTES_MAX: usize = 1_024;

/// The elicitations that clients were given.
#[derive(Debug, Default)]
pub(crate) struct Elicitations(Mutex<ElicitationSet>);

/// One elicitation: the upstream, the client's affinity, and the upstream's id.
type ElicitationKey = (Arc<str>, Arc<str>, String);

#[derive(Debug, Default)]
struct ElicitationSet {
    all: HashSet<ElicitationKey>,
    order: VecDeque<ElicitationKey>,
}

impl Elicitations {
    /// Remembers that a client was given an elicitation.
    pub(crate) fn insert(&self, upstream: &Arc<str>, affinity: &Arc<str>, id: &str) {
        if id.len() > ID_BYTES_MAX {
            return;
        }
        let elicitation = (Arc::clone(upstream), Arc::clone(affinity), id.to_owned());
        let mut given = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !given.all.insert(elicitation.clone()) {
            return;
        }
        given.order.push_back(elicitation);
        if given.order.len() > GIVEN_MAX
            && let Some(oldest) = given.order.pop_front()
        {
            given.all.remove(&oldest);
        }
    }

    /// Whether a client was given it.
    pub(crate) fn contains(&self, upstream: &Arc<str>, affinity: &Arc<str>, id: &str) -> bool {
        let elicitation = (Arc::clone(upstream), Arc::clone(affinity), id.to_owned());
        self.0.lock().unwrap_or_else(PoisonError::into_inner).all.contains(&elicitation)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{Elicitations, GIVEN_MAX};

    #[test]
    fn they_are_known_by_server_and_client_and_bounded() {
        let elicitations = Elicitations::default();
        let [up, other, client]: [Arc<str>; 3] = ["up", "other", "client"].map(Arc::from);
        elicitations.insert(&up, &client, "1");
        assert!(elicitations.contains(&up, &client, "1"));
        assert!(!elicitations.contains(&other, &client, "1") && !elicitations.contains(&up, &other, "1"));
        for number in 0..GIVEN_MAX {
            elicitations.insert(&up, &other, &number.to_string());
        }
        assert!(!elicitations.contains(&up, &client, "1"), "the oldest made room");
        assert!(elicitations.contains(&up, &other, "0"));
    }
}
