//! A legacy session, whatever its transport: the client, its version, its subscriptions, and its open questions. Each
//! door decides how messages reach it.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use servanda_engine::{ChangeEvent, Requester, ResourceWatchGuard};
use servanda_mcp::{LogLevel, ProtocolVersion, envelope, fields::method, task};

use crate::{in_flight::ClientRequestsInFlight, notifications::Notifications, questions::SessionQuestions};

/// Tasks that a session receives updates about. A new one replaces the oldest, which the client can still ask for.
const TASKS_MAX: usize = 64;

/// The limits of a session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SessionLimits {
    pub(crate) questions_max: usize,
    pub(crate) watches_max: usize,
}

/// One session.
#[derive(Debug)]
pub(crate) struct LegacyClientSession {
    pub(crate) requester: Requester,
    pub(crate) version: ProtocolVersion,
    pub(crate) in_flight: Arc<ClientRequestsInFlight>,
    pub(crate) questions: SessionQuestions,
    /// Whether the client declared that it answers any kind of question.
    pub(crate) answers_anything: bool,
    watches_max: usize,
    interests: Mutex<SessionInterests>,
}

/// What the client wants to be told of.
#[derive(Debug, Default)]
struct SessionInterests {
    log_level: Option<LogLevel>,
    /// `None` for a resource whose watch is being set up.
    watches: BTreeMap<String, Option<ResourceWatchGuard>>,
    tasks: VecDeque<String>,
}

/// There is no room for another watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooManyWatches;

impl LegacyClientSession {
    pub(crate) fn new(
        requester: Requester,
        version: ProtocolVersion,
        in_flight: Arc<ClientRequestsInFlight>,
        limits: SessionLimits,
    ) -> Self {
        Self {
            answers_anything: requester.capabilities.answers_anything(),
            requester,
            version,
            in_flight,
            questions: SessionQuestions::new(limits.questions_max),
            watches_max: limits.watches_max,
            interests: Mutex::default(),
        }
    }

    /// Whether its revision has batches.
    pub(crate) fn takes_batches(&self) -> bool {
        self.version == ProtocolVersion::V2025_03_26
    }

    pub(crate) fn log_level(&self) -> Option<LogLevel> {
        self.interests().log_level
    }

    pub(crate) fn set_log_level(&self, level: LogLevel) {
        self.interests().log_level = Some(level);
    }

    /// Reserves a place for a watch. Returns whether the resource is not watched yet.
    pub(crate) fn prepare_watch(&self, uri: &str) -> Result<bool, TooManyWatches> {
        let mut interests = self.interests();
        if interests.watches.contains_key(uri) {
            return Ok(false);
        }
        if interests.watches.len() >= self.watches_max {
            return Err(TooManyWatches);
        }
        interests.watches.insert(uri.to_owned(), None);
        Ok(true)
    }

    /// Keeps a watch whose place was reserved, or frees the place.
    pub(crate) fn keep_watch(&self, uri: &str, watch: Option<ResourceWatchGuard>) {
        let mut interests = self.interests();
        match (interests.watches.get_mut(uri), watch) {
            (Some(place), Some(watch)) => *place = Some(watch),
            (Some(_), None) => drop(interests.watches.remove(uri)),
            // The client unsubscribed meanwhile.
            (None, watch) => drop(watch),
        }
    }

    pub(crate) fn unwatch(&self, uri: &str) {
        let watch = self.interests().watches.remove(uri);
        drop(watch);
    }

    /// The watched resources.
    pub(crate) fn watched(&self) -> Vec<String> {
        self.interests().watches.keys().cloned().collect()
    }

    /// The resources whose watch still has to be set up.
    pub(crate) fn unwatched(&self) -> Vec<String> {
        let interests = self.interests();
        interests.watches.iter().filter(|(_, watch)| watch.is_none()).map(|(uri, _)| uri.clone()).collect()
    }

    /// Whether the session receives updates about a task.
    pub(crate) fn knows_task(&self, task_id: &str) -> bool {
        self.interests().tasks.iter().any(|known| known == task_id)
    }

    /// Remembers a task of this session, so that the session receives updates about it.
    pub(crate) fn remember_task(&self, task_id: &str) {
        let mut interests = self.interests();
        if interests.tasks.iter().any(|known| known == task_id) {
            return;
        }
        if interests.tasks.len() >= TASKS_MAX {
            interests.tasks.pop_front();
        }
        interests.tasks.push_back(task_id.to_owned());
    }

    /// The notifications that report a change to the client.
    pub(crate) fn announcements(&self, notifications: &Notifications) -> Vec<Vec<u8>> {
        let Some(notifications) = &notifications.visible_to(&self.requester.caller) else { return Vec::new() };
        let mut messages: Vec<Vec<u8>> =
            notifications.changed_lists().iter().map(|method| envelope::notification(method, None)).collect();
        let interests = self.interests();
        for params in notifications.updates(interests.watches.keys().map(String::as_str)) {
            messages.push(envelope::notification(method::RESOURCES_UPDATED, Some(params.get())));
        }
        if let Notifications::One(ChangeEvent::Task { owner, task_id, params }) = notifications
            && self.requester.caller.may_see_calls_of(owner)
            && interests.tasks.iter().any(|known| **known == **task_id)
            && !task::is_modern(params)
        {
            messages.push(envelope::notification(method::TASKS_STATUS, Some(params.get())));
        }
        messages
    }

    /// Ends everything that the session has open.
    pub(crate) fn end(&self) {
        self.in_flight.cancel_all();
        self.questions.withdraw_all();
        let watches = std::mem::take(&mut self.interests().watches);
        drop(watches);
    }

    fn interests(&self) -> MutexGuard<'_, SessionInterests> {
        // Every critical section leaves whole interests: no panic can leave them half-changed.
        self.interests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;
    use servanda_engine::Requester;

    use super::*;

    fn session(watches_max: usize) -> LegacyClientSession {
        let limits = SessionLimits { questions_max: 1, watches_max };
        LegacyClientSession::new(Requester::local(), ProtocolVersion::NEWEST_LEGACY, Arc::default(), limits)
    }

    fn text(messages: Vec<Vec<u8>>) -> Vec<String> {
        messages.into_iter().map(|message| String::from_utf8(message).unwrap()).collect()
    }

    fn params(text: &str) -> Arc<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap().into()
    }

    #[test]
    fn watches_have_a_limit_and_each_resource_has_one() {
        let session = session(2);
        assert_eq!(session.prepare_watch("a:1"), Ok(true));
        assert_eq!(session.prepare_watch("a:1"), Ok(false));
        assert_eq!(session.prepare_watch("a:2"), Ok(true));
        assert_eq!(session.prepare_watch("a:3"), Err(TooManyWatches));
        session.keep_watch("a:2", None);
        assert_eq!(session.prepare_watch("a:3"), Ok(true), "the one that failed made room");
        session.unwatch("a:1");
        assert_eq!(session.watched(), ["a:3"]);
    }

    #[test]
    fn only_what_was_asked_for_is_told() {
        let session = session(2);
        session.prepare_watch("a:1").unwrap();
        let updated = |uri: &str| {
            let params = params(&format!(r#"{{"uri":"{uri}","x":1.0}}"#));
            Notifications::One(ChangeEvent::Resource { uri: uri.into(), params })
        };
        assert_eq!(
            text(session.announcements(&updated("a:1"))),
            [r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:1","x":1.0}}"#]
        );
        assert!(session.announcements(&updated("a:2")).is_empty());
        let long = params(&format!(r#"{{"uri":"a:1","_meta":{{"x":"{}"}}}}"#, "y".repeat(64 * 1024)));
        assert_eq!(
            text(session.announcements(&Notifications::One(ChangeEvent::Resource { uri: "a:1".into(), params: long }))),
            [r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:1"}}"#]
        );
        assert_eq!(
            text(session.announcements(&Notifications::One(ChangeEvent::Prompts))),
            [r#"{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}"#]
        );
        let within = |tenant: &str| {
            let tenants = Arc::new([tenant.to_owned()].into_iter().collect());
            Notifications::One(ChangeEvent::ForTenants { tenants, news: Arc::new(ChangeEvent::Prompts) })
        };
        assert_eq!(
            session.announcements(&within("local")),
            session.announcements(&Notifications::One(ChangeEvent::Prompts))
        );
        assert!(session.announcements(&within("acme")).is_empty(), "another tenant's");
        assert_eq!(session.announcements(&Notifications::Anything).len(), 4, "three lists and the watched resource");
    }

    /// Columns: the task's owner, its id, the era of the notification, and whether this session is told.
    #[test]
    fn tasks_are_told_to_the_session_that_has_them() {
        let session = session(1);
        session.remember_task("mine");
        for (tenant, principal, task_id, form, told) in [
            ("local", "local", "mine", r#"{"ttl":1}"#, true),
            ("local", "local", "other", r#"{"ttl":1}"#, false),
            ("local", "stranger", "mine", r#"{"ttl":1}"#, false),
            ("another", "local", "mine", r#"{"ttl":1}"#, false),
            ("local", "local", "mine", r#"{"ttlMs":1}"#, false),
        ] {
            let owner = Arc::new(servanda_contract::Caller::named(tenant, principal));
            let news = ChangeEvent::Task { owner, task_id: task_id.into(), params: params(form) };
            assert_eq!(
                session.announcements(&Notifications::One(news)).len(),
                usize::from(told),
                "{principal} {task_id}"
            );
        }
    }

    #[test]
    fn the_oldest_task_is_forgotten() {
        let session = session(1);
        for number in 0..=TASKS_MAX {
            session.remember_task(&number.to_string());
        }
        assert_eq!(session.interests().tasks.len(), TASKS_MAX);
        assert!(!session.interests().tasks.contains(&"0".to_owned()));
    }
}
