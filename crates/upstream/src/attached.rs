//! Where remarks go that no request can be said to have caused, by affinity. Bounded: what nobody receives from any more
//! makes room.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::RemarkSink;

/// How many affinities may have a sink.
const ATTACHED_MAX: usize = 4_096;

/// The sinks.
#[derive(Debug, Default)]
pub(crate) struct Attached(Mutex<HashMap<Arc<str>, RemarkSink>>);

impl Attached {
    /// Attaches a sink in place of a former one. False if there is no room.
    pub(crate) fn attach(&self, affinity: &str, sink: RemarkSink) -> bool {
        let mut sinks = self.lock();
        if sinks.len() >= ATTACHED_MAX {
            sinks.retain(|_, sink| !sink.is_closed());
        }
        if sinks.len() >= ATTACHED_MAX && !sinks.contains_key(affinity) {
            return false;
        }
        sinks.insert(Arc::from(affinity), sink);
        true
    }

    pub(crate) fn detach(&self, affinity: &str) {
        self.lock().remove(affinity);
    }

    pub(crate) fn of(&self, affinity: &str) -> Option<RemarkSink> {
        self.lock().get(affinity).filter(|sink| !sink.is_closed()).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, RemarkSink>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    #[test]
    fn sinks_are_bounded_and_the_abandoned_make_room() {
        let attached = Attached::default();
        let mut receivers = Vec::new();
        for number in 0..ATTACHED_MAX {
            let (sink, receiver) = mpsc::channel(1);
            assert!(attached.attach(&number.to_string(), sink));
            receivers.push(receiver);
        }
        let (sink, _receiver) = mpsc::channel(1);
        assert!(!attached.attach("one more", sink.clone()));
        assert!(attached.attach("0", sink.clone()), "a known affinity is no one more");
        receivers.pop();
        assert!(attached.attach("one more", sink));
        assert!(attached.of("one more").is_some());
        attached.detach("one more");
        assert!(attached.of("one more").is_none());
    }
}
