//! Where server messages go that no request caused, by affinity. Bounded: sinks whose receiver is gone make room.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::ServerMessageSink;

/// How many affinities may have a sink.
const ATTACHED_MAX: usize = 4_096;

/// The sinks, by affinity.
#[derive(Debug, Default)]
pub(crate) struct AttachedSinks(Mutex<HashMap<Arc<str>, Arc<dyn ServerMessageSink>>>);

impl AttachedSinks {
    /// Attaches a sink in place of a former one. Returns false if there is no room.
    pub(crate) fn attach(&self, affinity: &str, session_sink: Arc<dyn ServerMessageSink>) -> bool {
        let mut session_sinks = self.lock();
        if session_sinks.len() >= ATTACHED_MAX {
            session_sinks.retain(|_, session_sink| !session_sink.is_gone());
        }
        if session_sinks.len() >= ATTACHED_MAX && !session_sinks.contains_key(affinity) {
            return false;
        }
        session_sinks.insert(Arc::from(affinity), session_sink);
        true
    }

    pub(crate) fn detach(&self, affinity: &str) {
        self.lock().remove(affinity);
    }

    pub(crate) fn get(&self, affinity: &str) -> Option<Arc<dyn ServerMessageSink>> {
        self.lock().get(affinity).filter(|session_sink| !session_sink.is_gone()).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Arc<dyn ServerMessageSink>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    #[test]
    fn session_sinks_are_bounded_and_the_abandoned_make_room() {
        let attached = AttachedSinks::default();
        let mut receivers = Vec::new();
        for number in 0..ATTACHED_MAX {
            let (sink, receiver) = mpsc::channel(1);
            assert!(attached.attach(&number.to_string(), Arc::new(sink)));
            receivers.push(receiver);
        }
        let (sink, _receiver) = mpsc::channel(1);
        assert!(!attached.attach("one more", Arc::new(sink.clone())));
        assert!(attached.attach("0", Arc::new(sink.clone())), "replacing the sink of a known affinity needs no room");
        receivers.pop();
        assert!(attached.attach("one more", Arc::new(sink)));
        assert!(attached.get("one more").is_some());
        attached.detach("one more");
        assert!(attached.get("one more").is_none());
    }
}
