//! What a server says on the way, in the guest's own terms: exposed URIs, our task ids, and only as much of the log as the
//! guest asked for.

use std::sync::Arc;

use serde_json::value::RawValue;
use servanda_catalog::names::Naming;
use servanda_mcp::{
    Era, LogLevel, RawObject,
    envelope::to_json,
    fields::{member, meta, method},
};
use servanda_upstream::{Remark, RemarkSink};

use crate::{log_level, relay::Exposure, tasks::TaskIndex, works::Ear};

/// Who hears it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hearer {
    pub(crate) sink: Option<RemarkSink>,
    /// How much of the log is wanted.
    pub(crate) level: Option<LogLevel>,
}

/// How it is put.
#[derive(Debug, Clone)]
pub(crate) struct Outlet {
    pub(crate) naming: Naming,
    pub(crate) upstream: Arc<str>,
    pub(crate) guest_era: Era,
    pub(crate) tasks: Arc<TaskIndex>,
    /// Who keeps the progress of long work.
    pub(crate) ear: Option<Ear>,
}

impl Outlet {
    /// Hands a remark to whoever hears. What does not fit is lost; a question that is lost is declined.
    pub(crate) fn pass(&self, hearer: &Hearer, remark: Remark) {
        let Some(sink) = &hearer.sink else { return };
        if let Some(remark) = self.translate(hearer.level, remark) {
            let _ = sink.try_send(remark);
        }
    }

    /// Writes the progress of long work down, so that a client can ask for it later. The client that waits is told by [`Outlet::pass`].
    pub(crate) fn keep_progress(&self, remark: &Remark) {
        if let (Some(ear), Remark::Progress(params)) = (&self.ear, remark) {
            ear.hear(params);
        }
    }

    /// A question's parameters, with the ids that the guest knows.
    pub(crate) fn params(&self, params: Option<Box<RawValue>>) -> Option<Box<RawValue>> {
        let params = params?;
        Some(self.with_our_related_task(&params).unwrap_or(params))
    }

    fn translate(&self, level: Option<LogLevel>, remark: Remark) -> Option<Remark> {
        match remark {
            Remark::LogMessage(line) => self.wants(level, &line).then_some(Remark::LogMessage(line)),
            Remark::Notification { method, params } => self.notification(method, params),
            other => Some(other),
        }
    }

    /// What a guest asked for, whatever a server says to others on the same connection. A modern guest that did not ask
    /// wants nothing; a legacy one leaves it to the server.
    fn wants(&self, level: Option<LogLevel>, line: &RawValue) -> bool {
        match level {
            Some(level) => log_level::of_line(line).is_none_or(|of_line| of_line >= level),
            None => self.guest_era == Era::Legacy,
        }
    }

    fn notification(&self, method: String, params: Option<Box<RawValue>>) -> Option<Remark> {
        let params = match (method.as_str(), params) {
            (method::RESOURCES_UPDATED, Some(params)) => {
                let exposure = Exposure { naming: self.naming, upstream: &self.upstream };
                let other = exposure.member(&params, "uri").and_then(|json| RawValue::from_string(json).ok());
                Some(other.unwrap_or(params))
            }
            // Somebody else's task, or one that nobody knows here.
            (method::TASKS_STATUS | method::TASKS_NOTIFICATION, params) => Some(self.with_our_id(&params?)?),
            (_, params) => self.params(params),
        };
        Some(Remark::Notification { method, params })
    }

    fn with_our_id(&self, params: &RawValue) -> Option<Box<RawValue>> {
        let members: RawObject<'_> = serde_json::from_str(params.get()).ok()?;
        let theirs: String = serde_json::from_str(members.get(member::TASK_ID)?.get()).ok()?;
        let ours = to_json(self.tasks.ours(&self.upstream, &theirs)?.as_ref());
        RawValue::from_string(members.to_json_with(|name, _| (name == member::TASK_ID).then(|| ours.clone()))).ok()
    }

    /// With our id in `_meta["io.modelcontextprotocol/related-task"]`, where one stands there; without that member where
    /// the guest knows of no such task, because the engine made it.
    fn with_our_related_task(&self, params: &RawValue) -> Option<Box<RawValue>> {
        if !params.get().contains(meta::RELATED_TASK) {
            return None;
        }
        let members: RawObject<'_> = serde_json::from_str(params.get()).ok()?;
        let notes: RawObject<'_> = serde_json::from_str(members.get(member::META)?.get()).ok()?;
        let notes = match self.with_our_id(notes.get(meta::RELATED_TASK)?) {
            Some(ours) => notes.to_json_with(|name, _| (name == meta::RELATED_TASK).then(|| ours.get().to_owned())),
            None => notes.without(&[meta::RELATED_TASK]).to_json(),
        };
        RawValue::from_string(members.to_json_with(|name, _| (name == member::META).then(|| notes.clone()))).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::value::RawValue;
    use servanda_catalog::names::Naming;
    use servanda_mcp::{Era, LogLevel};
    use servanda_upstream::Remark;
    use tokio::sync::mpsc;

    use super::{Hearer, Outlet};
    use crate::tasks::TaskIndex;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    fn outlet(guest_era: Era) -> Outlet {
        let tasks = TaskIndex::default();
        tasks.learn("up", "theirs", "ours");
        Outlet { naming: Naming::Prefixed, upstream: Arc::from("up"), guest_era, tasks: Arc::new(tasks), ear: None }
    }

    /// What a guest of that era hears of a remark.
    fn heard(guest_era: Era, level: Option<LogLevel>, remark: Remark) -> Option<String> {
        let (sink, mut remarks) = mpsc::channel(1);
        outlet(guest_era).pass(&Hearer { sink: Some(sink), level }, remark);
        Some(match remarks.try_recv().ok()? {
            Remark::Progress(params) | Remark::LogMessage(params) => params.get().to_owned(),
            Remark::Notification { method, params } => {
                format!("{method} {}", params.map_or("-".into(), |raw| raw.get().to_owned()))
            }
            Remark::Ask(ask) => ask.method,
        })
    }

    #[test]
    fn a_modern_guest_hears_of_the_log_what_it_asked_for() {
        let line = |level: &str| Remark::LogMessage(raw(&format!(r#"{{"level":"{level}","data":1}}"#)));
        let table = [
            (Era::Legacy, None, "debug", true),
            (Era::Legacy, Some(LogLevel::Error), "debug", false),
            (Era::Modern, None, "emergency", false),
            (Era::Modern, Some(LogLevel::Warning), "info", false),
            (Era::Modern, Some(LogLevel::Warning), "warning", true),
            (Era::Modern, Some(LogLevel::Warning), "alert", true),
        ];
        for (era, level, of_line, passes) in table {
            assert_eq!(heard(era, level, line(of_line)).is_some(), passes, "{era:?} {level:?} {of_line}");
        }
    }

    #[test]
    fn notifications_have_the_names_the_guest_knows() {
        let said =
            |method: &str, params: &str| Remark::Notification { method: method.to_owned(), params: Some(raw(params)) };
        let table = [
            (
                "notifications/resources/updated",
                r#"{"uri":"a://b","x":1.0}"#,
                Some(r#"{"uri":"servanda://up/a://b","x":1.0}"#),
            ),
            (
                "notifications/tasks/status",
                r#"{"taskId":"theirs","status":"working"}"#,
                Some(r#"{"taskId":"ours","status":"working"}"#),
            ),
            ("notifications/tasks/status", r#"{"taskId":"another's"}"#, None),
            ("notifications/elicitation/complete", r#"{"elicitationId": "x"}"#, Some(r#"{"elicitationId": "x"}"#)),
            (
                "acme/said",
                r#"{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"theirs"},"a":1}}"#,
                Some(r#"{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"ours"},"a":1}}"#),
            ),
            (
                "acme/said",
                r#"{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"made by us"},"a":1}}"#,
                Some(r#"{"_meta":{"a":1}}"#),
            ),
        ];
        for (method, params, expected) in table {
            let expected = expected.map(|params| format!("{method} {params}"));
            assert_eq!(heard(Era::Legacy, None, said(method, params)), expected, "{params}");
        }
    }
}
