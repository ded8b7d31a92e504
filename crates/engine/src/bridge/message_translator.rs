//! Translates a server's messages for the requester: with the gateway's task ids, without invisible characters, with the server's name on
//! its log, and only as much of the log as the requester asked for.

use std::{borrow::Cow, sync::Arc};

use serde_json::value::RawValue;
use servanda_contract::legibility;
use servanda_mcp::{
    Era, LogLevel, RawObject,
    envelope::to_json,
    fields::{member, meta, method},
    shape,
};
use servanda_upstream::ServerMessage;

use super::{Bridge, log_level};
use crate::{
    client::{ClientMessage, ClientMessageSink},
    deferred::TaskIndex,
    long_running::ProgressRecorder,
    questions::{Elicitations, legible_in_brief},
    world::UpstreamMember,
};

/// The member of a log line that says who logs.
const LOGGER: &str = "logger";
/// The gateway's own name as a logger. No server's log line keeps it.
const OWN_LOGGER: &str = "servanda";

/// Receives translated messages.
#[derive(Debug, Clone, Default)]
pub(crate) struct MessageSubscriber {
    pub(crate) sink: Option<ClientMessageSink>,
    /// How much of the log is wanted.
    pub(crate) level: Option<LogLevel>,
}

/// Translates the messages of one server for one requester.
#[derive(Debug, Clone)]
pub(crate) struct MessageTranslator {
    upstream: Arc<str>,
    requester_era: Era,
    /// The requester's affinity.
    affinity: Arc<str>,
    tasks: Arc<TaskIndex>,
    elicitations: Arc<Elicitations>,
    /// Records the progress of long work.
    pub(super) progress_recorder: Option<ProgressRecorder>,
}

impl MessageTranslator {
    pub(crate) fn new(bridge: &Bridge, member: &UpstreamMember, requester_era: Era, affinity: &Arc<str>) -> Self {
        Self {
            upstream: Arc::clone(&member.id),
            requester_era,
            affinity: Arc::clone(affinity),
            tasks: Arc::clone(&bridge.tasks),
            elicitations: Arc::clone(&bridge.elicitations),
            progress_recorder: None,
        }
    }

    /// The same translator, which also records the progress of long work.
    pub(crate) fn with_progress_recorder(self, progress_recorder: Option<ProgressRecorder>) -> Self {
        Self { progress_recorder, ..self }
    }

    /// Sends a message to the subscriber. A message that does not fit is dropped, and a dropped question is declined. Returns whether it was
    /// sent.
    pub(crate) fn send(&self, subscriber: &MessageSubscriber, message: ClientMessage) -> bool {
        let Some(sink) = &subscriber.sink else { return false };
        let wants =
            !matches!(&message, ClientMessage::LogMessage(line) if !self.wants_log_line(subscriber.level, line));
        wants && sink.try_send(message).is_ok()
    }

    /// Records the progress of long work, so that a client can ask for it later. The client that waits is told by
    /// [`MessageTranslator::send`].
    pub(crate) fn keep_progress(&self, message: &ClientMessage) {
        if let (Some(progress_recorder), ClientMessage::Progress(params)) = (&self.progress_recorder, message) {
            progress_recorder.record_notification(params);
        }
    }

    /// A question's parameters, with the task ids that the requester knows.
    pub(crate) fn translate_params(&self, params: Option<Box<RawValue>>) -> Option<Box<RawValue>> {
        let params = params?;
        Some(self.with_our_related_task(&params).unwrap_or(params))
    }

    /// A message as the requester may get it; none if it may not. A question is none too, because it has to pass the rules of questions
    /// first.
    pub(crate) fn translate(&self, message: ServerMessage) -> Option<ClientMessage> {
        match message {
            ServerMessage::Progress(params) => legible_json(&params).map(ClientMessage::Progress),
            ServerMessage::LogMessage(line) => self.log_line(&line).map(ClientMessage::LogMessage),
            ServerMessage::Notification { method, params } => self.notification(method, &params?),
            ServerMessage::Ask(_) => None,
        }
    }

    /// A line of the server's log. Its logger begins with the server's name, and nothing in it looks like the gateway's name.
    fn log_line(&self, line: &RawValue) -> Option<Box<RawValue>> {
        let line = legible_json(line)?;
        let members: RawObject<'_> = serde_json::from_str(line.get()).ok()?;
        let theirs = members.get(LOGGER).and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
        let logger = match theirs.filter(|theirs| !theirs.is_empty() && !is_own_logger(theirs)) {
            Some(theirs) => format!("{}/{theirs}", self.upstream),
            None => self.upstream.as_ref().to_owned(),
        };
        let mut json = String::from("{");
        members.without(&[LOGGER]).write_members(&mut json);
        json.extend([&to_json(LOGGER), ":", &to_json(&logger), "}"]);
        RawValue::from_string(json).ok()
    }

    /// Whether the requester asked for this log line, whatever the server sends to others on the same connection. A modern requester that
    /// did not ask gets nothing; a legacy one leaves it to the server.
    fn wants_log_line(&self, level: Option<LogLevel>, line: &RawValue) -> bool {
        match level {
            Some(level) => log_level::level_of_line(line).is_none_or(|of_line| of_line >= level),
            None => self.requester_era == Era::Legacy,
        }
    }

    /// The notification that an elicitation is done, if the requester was given that elicitation. Requesters get no other notification.
    fn notification(&self, method: String, params: &RawValue) -> Option<ClientMessage> {
        if method != method::ELICITATION_COMPLETE {
            return None;
        }
        let members: RawObject<'_> = serde_json::from_str(params.get()).ok()?;
        let id: String = serde_json::from_str(members.get("elicitationId")?.get()).ok()?;
        if !self.elicitations.contains(&self.upstream, &self.affinity, &id) {
            tracing::debug!(upstream = %self.upstream, "the end of an elicitation that the client was not given is dropped");
            return None;
        }
        Some(ClientMessage::Notification { method, params: self.translate_params(legible_json(params)) })
    }

    fn with_our_id(&self, params: &RawValue) -> Option<Box<RawValue>> {
        let members: RawObject<'_> = serde_json::from_str(params.get()).ok()?;
        let theirs: String = serde_json::from_str(members.get(member::TASK_ID)?.get()).ok()?;
        let ours = to_json(self.tasks.our_id(&self.upstream, &theirs)?.as_ref());
        RawValue::from_string(members.to_json_with(|name, _| (name == member::TASK_ID).then(|| ours.clone()))).ok()
    }

    /// The params with the gateway's id in `_meta["io.modelcontextprotocol/related-task"]`, if that member is there; without the member if
    /// the requester knows of no such task, because the engine made it.
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

/// JSON without invisible characters; none if it cannot be read.
fn legible_json(json: &RawValue) -> Option<Box<RawValue>> {
    match shape::with_texts(json.get(), legible_in_brief)? {
        Cow::Borrowed(_) => Some(json.to_owned()),
        Cow::Owned(shown) => RawValue::from_string(shown).ok(),
    }
}

/// Whether a logger's name looks like the gateway's.
fn is_own_logger(name: &str) -> bool {
    let looks: String =
        legibility::skeleton(&name.to_lowercase()).chars().filter(|each| each.is_alphanumeric()).collect();
    looks.contains(&legibility::skeleton(OWN_LOGGER))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{json, value::RawValue};
    use servanda_mcp::{Era, LogLevel};
    use servanda_upstream::ServerMessage;
    use tokio::sync::mpsc;

    use super::{MessageSubscriber, MessageTranslator};
    use crate::{client::ClientMessage, deferred::TaskIndex, questions::Elicitations};

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    fn message_translator(requester_era: Era) -> MessageTranslator {
        let (tasks, elicitations) = (TaskIndex::default(), Elicitations::default());
        tasks.insert("up", "theirs", "ours");
        let [upstream, affinity] = ["up", "client"].map(Arc::from);
        elicitations.insert(&upstream, &affinity, "given");
        let (tasks, elicitations) = (Arc::new(tasks), Arc::new(elicitations));
        MessageTranslator { upstream, requester_era, affinity, tasks, elicitations, progress_recorder: None }
    }

    /// What a requester of that era receives of a message.
    fn heard(requester_era: Era, level: Option<LogLevel>, message: ServerMessage) -> Option<String> {
        let (sink, mut messages) = mpsc::channel(1);
        let message_translator = message_translator(requester_era);
        message_translator.send(&MessageSubscriber { sink: Some(sink), level }, message_translator.translate(message)?);
        Some(match messages.try_recv().ok()? {
            ClientMessage::Progress(params) | ClientMessage::LogMessage(params) => params.get().to_owned(),
            ClientMessage::Notification { params, .. } => params.map_or("-".into(), |raw| raw.get().to_owned()),
            ClientMessage::Ask(ask) => ask.question.method().to_owned(),
        })
    }

    #[test]
    fn a_modern_requester_hears_of_the_log_what_it_asked_for() {
        let line = |level: &str| ServerMessage::LogMessage(raw(&format!(r#"{{"level":"{level}","data":1}}"#)));
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
    fn a_log_has_its_servers_name_and_nothing_hidden() {
        let table = [
            (r#"{"level":"info","data":1e400,"logger":"db"}"#, r#"{"level":"info","data":1e400,"logger":"up/db"}"#),
            (r#"{"level":"info"}"#, r#"{"level":"info","logger":"up"}"#),
            (r#"{"logger":["a"],"level":"info"}"#, r#"{"level":"info","logger":"up"}"#),
            (r#"{"level":"info","logger":"The Servanda gateway"}"#, r#"{"level":"info","logger":"up"}"#),
            (r#"{"level":"info","logger":"d\u200bb"}"#, r#"{"level":"info","logger":"up/d<U+200B>b"}"#),
            (r#"{"level":"info","logger":"servanda"}"#, r#"{"level":"info","logger":"up"}"#),
            (r#"{"level":"info","logger":" Servanda.gateway"}"#, r#"{"level":"info","logger":"up"}"#),
            (r#"{"level":"info","logger":"s\u0435rv\u0430nda"}"#, r#"{"level":"info","logger":"up"}"#),
            (
                r#"{"level":"info","data":{"a":"\u001b[2J\u202e"}}"#,
                r#"{"level":"info","data":{"a":"<U+001B>[2J<U+202E>"},"logger":"up"}"#,
            ),
        ];
        for (said, expected) in table {
            let line = ServerMessage::LogMessage(raw(said));
            assert_eq!(heard(Era::Legacy, None, line).as_deref(), Some(expected));
        }
        assert_eq!(
            heard(Era::Legacy, None, ServerMessage::LogMessage(raw(r#"{"level":"info","data":"\ud800"}"#))),
            None
        );
        let progress = ServerMessage::Progress(raw(r#"{"progress":1.0,"message":"a\u200bb"}"#));
        assert_eq!(heard(Era::Legacy, None, progress).as_deref(), Some(r#"{"progress":1.0,"message":"a<U+200B>b"}"#));
    }

    #[test]
    fn no_notification_passes_but_the_end_of_an_elicitation_that_was_given() {
        let complete = "notifications/elicitation/complete";
        let related = |id: &str| {
            let meta = json!({"io.modelcontextprotocol/related-task": {"taskId": id}});
            json!({"_meta": meta, "elicitationId": "given"}).to_string()
        };
        let given = r#"{"elicitationId": "given"}"#;
        let table = [
            (complete, given.to_owned(), Some(given.to_owned())),
            (complete, related("theirs"), Some(related("ours"))),
            (complete, related("made by us"), Some(r#"{"_meta":{},"elicitationId":"given"}"#.to_owned())),
            (complete, r#"{"elicitationId":"another's"}"#.to_owned(), None),
            (complete, "{}".to_owned(), None),
            ("notifications/elicitation/create", given.to_owned(), None),
            ("notifications/tasks/status", r#"{"taskId":"theirs"}"#.to_owned(), None),
            ("acme/said", given.to_owned(), None),
        ];
        for (method, params, expected) in table {
            let message = ServerMessage::Notification { method: method.to_owned(), params: Some(raw(&params)) };
            assert_eq!(heard(Era::Legacy, None, message), expected, "{method} {params}");
        }
    }
}
