//! Finds our task id by the upstream and its own task id, for notifications, which carry the upstream's id. The durable state is in the
//! notebook; this index is filled from there when tasks are read.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

/// How many tasks are remembered; the oldest is dropped first.
const TASKS_MAX: usize = 10_000;

/// An upstream's id and a task's id there.
type UpstreamTaskKey = (String, String);

/// Our task ids, by the upstreams' own ids.
#[derive(Debug, Default)]
pub(crate) struct TaskIndex {
    tasks: Mutex<TaskIndexState>,
}

#[derive(Debug, Default)]
struct TaskIndexState {
    ours: HashMap<UpstreamTaskKey, Arc<str>>,
    order: VecDeque<UpstreamTaskKey>,
}

impl TaskIndex {
    /// Remembers a task.
    pub(crate) fn insert(&self, upstream: &str, theirs: &str, ours: &str) {
        let mut known = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (upstream.to_owned(), theirs.to_owned());
        if known.ours.insert(key.clone(), Arc::from(ours)).is_some() {
            return;
        }
        known.order.push_back(key);
        if known.order.len() > TASKS_MAX
            && let Some(oldest) = known.order.pop_front()
        {
            known.ours.remove(&oldest);
        }
    }

    /// Our id of a task.
    pub(crate) fn our_id(&self, upstream: &str, theirs: &str) -> Option<Arc<str>> {
        let known = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        known.ours.get(&(upstream.to_owned(), theirs.to_owned())).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::{TASKS_MAX, TaskIndex};

    #[test]
    fn tasks_of_two_upstreams_are_apart_and_bounded_in_number() {
        let index = TaskIndex::default();
        index.insert("a", "1", "ours-a");
        index.insert("b", "1", "ours-b");
        index.insert("a", "1", "ours-a");
        assert_eq!(index.our_id("a", "1").as_deref(), Some("ours-a"));
        assert_eq!(index.our_id("b", "1").as_deref(), Some("ours-b"));
        for number in 0..TASKS_MAX {
            index.insert("c", &number.to_string(), "ours");
        }
        assert_eq!(index.our_id("a", "1"), None, "the oldest went first");
        assert_eq!(index.tasks.lock().unwrap().ours.len(), TASKS_MAX);
    }
}
