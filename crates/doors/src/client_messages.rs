//! Renders what a server sends besides its answer into messages for the client: progress under the client's own token,
//! log lines from the level it wants, questions under an id of our own, other notifications unchanged.

use std::{borrow::Cow, sync::Arc};

use serde::Deserialize;
use serde_json::value::RawValue;
use servanda_engine::{ClientMessage, PendingQuestion};
use servanda_mcp::{Id, LogLevel, envelope, fields::method};

use crate::{questions::SessionQuestion, session::LegacyClientSession, splice};

/// The prefix of every notification's method.
const NOTIFICATION: &str = "notifications/";

/// Which messages the client gets.
#[derive(Debug)]
pub(crate) struct ClientMessageAudience {
    /// The client's progress token for the request, if it wants progress.
    pub(crate) progress_token: Option<String>,
    pub(crate) log: ClientLogFilter,
    /// The session that questions go to. A modern client is asked in the answer instead, never while the request runs.
    pub(crate) session: Option<Arc<LegacyClientSession>>,
}

/// Which log lines the client wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientLogFilter {
    /// Those from the session's log level on; all of them if the session set no level.
    OfSession,
    /// Those from this level on.
    From(LogLevel),
    None,
}

/// Turns what the engine reports into wire messages for one client.
#[derive(Debug)]
pub(crate) struct ClientMessageRelay {
    audience: ClientMessageAudience,
    /// The last progress sent. Progress only ever goes up.
    progress: f64,
    /// Questions that may still be open. The session's question limit bounds them.
    asked: Vec<Id>,
}

impl ClientMessageRelay {
    pub(crate) fn new(audience: ClientMessageAudience) -> Self {
        Self { audience, progress: f64::NEG_INFINITY, asked: Vec::new() }
    }

    /// A relay for messages to a session that belong to no request.
    pub(crate) fn for_session(session: Arc<LegacyClientSession>) -> Self {
        Self::new(ClientMessageAudience {
            progress_token: None,
            log: ClientLogFilter::OfSession,
            session: Some(session),
        })
    }

    /// The message to send, or `None` if the client is not to get one.
    pub(crate) fn render(&mut self, client_message: ClientMessage) -> Option<Vec<u8>> {
        match client_message {
            ClientMessage::Progress(params) => self.render_progress(&params),
            ClientMessage::LogMessage(params) => {
                self.passes_log(&params).then(|| envelope::notification(method::LOG_MESSAGE, Some(params.get())))
            }
            ClientMessage::Notification { method, params } if method.starts_with(NOTIFICATION) => {
                Some(envelope::notification(&method, params.as_deref().map(RawValue::get)))
            }
            ClientMessage::Notification { .. } => None,
            ClientMessage::Ask(ask) => self.ask(ask).map(|question| question.message),
        }
    }

    /// Asks a question, if the client can be asked.
    pub(crate) fn ask(&mut self, ask: PendingQuestion) -> Option<SessionQuestion> {
        let session = self.audience.session.as_ref()?;
        let question = session.questions.open(ask, &session.requester.capabilities)?;
        self.asked.retain(|id| session.questions.is_open(id));
        self.asked.push(question.id.clone());
        Some(question)
    }

    /// Withdraws one question that is still open, and returns the cancellation to send to the client.
    pub(crate) fn withdraw(&mut self) -> Option<Vec<u8>> {
        let session = self.audience.session.as_ref()?;
        loop {
            let id = self.asked.pop()?;
            if session.questions.withdraw(&id) {
                return Some(envelope::cancelled(&id, None));
            }
        }
    }

    fn render_progress(&mut self, params: &RawValue) -> Option<Vec<u8>> {
        #[derive(Deserialize)]
        struct ProgressValue {
            progress: f64,
        }
        let token = self.audience.progress_token.as_deref()?;
        let ProgressValue { progress } = object(params)?;
        if progress <= self.progress {
            return None;
        }
        self.progress = progress;
        splice::progress(token, params.get())
    }

    fn passes_log(&self, params: &RawValue) -> bool {
        #[derive(Deserialize)]
        struct Line<'a> {
            #[serde(borrow)]
            level: Cow<'a, str>,
        }
        let least = match (self.audience.log, &self.audience.session) {
            (ClientLogFilter::From(level), _) => level,
            (ClientLogFilter::OfSession, Some(session)) => session.log_level().unwrap_or(LogLevel::Debug),
            (ClientLogFilter::OfSession, None) | (ClientLogFilter::None, _) => return false,
        };
        let line: Option<Line<'_>> = object(params);
        line.and_then(|line| LogLevel::from_wire(&line.level)).is_some_and(|level| level >= least)
    }
}

/// Parses parameters that must be an object: serde would also read an array, member by member.
fn object<'a, T: Deserialize<'a>>(params: &'a RawValue) -> Option<T> {
    params.get().starts_with('{').then(|| serde_json::from_str(params.get()).ok()).flatten()
}

impl Drop for ClientMessageRelay {
    fn drop(&mut self) {
        while self.withdraw().is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use servanda_engine::{ClientQuestion, Requester};
    use servanda_mcp::{ClientCapabilities, ProtocolVersion};
    use tokio::sync::oneshot;

    use super::*;
    use crate::session::SessionLimits;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    fn session() -> Arc<LegacyClientSession> {
        let limits = SessionLimits { questions_max: 2, watches_max: 1 };
        let requester =
            Requester { capabilities: ClientCapabilities::parse(Some(&raw(r#"{"roots":{}}"#))), ..Requester::local() };
        Arc::new(LegacyClientSession::new(requester, ProtocolVersion::NEWEST_LEGACY, Arc::default(), limits))
    }

    fn relay(
        token: Option<&str>,
        log: ClientLogFilter,
        session: Option<Arc<LegacyClientSession>>,
    ) -> ClientMessageRelay {
        ClientMessageRelay::new(ClientMessageAudience { progress_token: token.map(str::to_owned), log, session })
    }

    fn passed(relay: &mut ClientMessageRelay, client_message: ClientMessage) -> Option<String> {
        relay.render(client_message).map(|message| String::from_utf8(message).unwrap())
    }

    #[test]
    fn progress_goes_up_under_the_clients_token() {
        let mut relay = relay(Some("\"t\""), ClientLogFilter::None, None);
        for (params, told) in [
            (r#"{"progress":0}"#, true),
            (r#"{"progress":0}"#, false),
            (r#"{"progress":2.5,"total":3}"#, true),
            (r#"{"progress":1}"#, false),
            (r#"{"total":3}"#, false),
            (r#"{"progress":"4"}"#, false),
            ("[5]", false),
            (r#"{"progress":3,"message":"m"}"#, true),
        ] {
            assert_eq!(passed(&mut relay, ClientMessage::Progress(raw(params))).is_some(), told, "{params}");
        }
        let mut deaf = self::relay(None, ClientLogFilter::None, None);
        assert_eq!(passed(&mut deaf, ClientMessage::Progress(raw(r#"{"progress":1}"#))), None);
    }

    /// Columns: the filter, the session, the line's level, and whether the client gets the line.
    #[test]
    fn log_lines_are_told_from_the_level_wanted() {
        let (silent, wanting) = (session(), session());
        wanting.set_log_level(LogLevel::Error);
        for (log, session, level, told) in [
            (ClientLogFilter::From(LogLevel::Warning), None, "warning", true),
            (ClientLogFilter::From(LogLevel::Warning), None, "alert", true),
            (ClientLogFilter::From(LogLevel::Warning), None, "notice", false),
            (ClientLogFilter::From(LogLevel::Debug), None, "verbose", false),
            (ClientLogFilter::From(LogLevel::Debug), None, "", false),
            (ClientLogFilter::None, None, "emergency", false),
            (ClientLogFilter::OfSession, Some(&silent), "debug", true),
            (ClientLogFilter::OfSession, Some(&wanting), "warning", false),
            (ClientLogFilter::OfSession, Some(&wanting), "error", true),
        ] {
            let mut relay = relay(None, log, session.map(Arc::clone));
            let params = raw(&format!(r#"{{"level":"{level}","data":1.0}}"#));
            let expected = format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"{level}","data":1.0}}}}"#
            );
            assert_eq!(
                passed(&mut relay, ClientMessage::LogMessage(params)),
                told.then_some(expected),
                "{log:?} {level}"
            );
        }
    }

    #[test]
    fn notifications_pass_as_they_are_and_requests_do_not() {
        let mut relay = relay(None, ClientLogFilter::None, None);
        let client_message =
            |method: &str| ClientMessage::Notification { method: method.to_owned(), params: Some(raw("{ }")) };
        assert_eq!(
            passed(&mut relay, client_message("notifications/x")).as_deref(),
            Some(r#"{"jsonrpc":"2.0","method":"notifications/x","params":{ }}"#)
        );
        assert_eq!(passed(&mut relay, client_message("tools/call")), None);
    }

    #[test]
    fn questions_go_to_a_session_only_and_are_withdrawn_in_the_end() {
        let ask = || {
            let (reply, answered) = oneshot::channel();
            (
                ClientMessage::Ask(PendingQuestion {
                    question: ClientQuestion::unrestricted("up", "roots/list", None).unwrap(),
                    reply,
                }),
                answered,
            )
        };
        let mut modern = relay(None, ClientLogFilter::None, None);
        let (asked, mut answered) = ask();
        assert_eq!(passed(&mut modern, asked), None);
        assert!(matches!(answered.try_recv(), Err(oneshot::error::TryRecvError::Closed)));

        let session = session();
        let mut legacy = relay(None, ClientLogFilter::OfSession, Some(Arc::clone(&session)));
        let (asked, _answered) = ask();
        let message = passed(&mut legacy, asked).unwrap();
        assert!(
            message.contains(r#","method":"roots/list","params":{"_meta":{"servanda/asked-by":"up"}}}"#),
            "{message}"
        );
        let withdrawn = String::from_utf8(legacy.withdraw().unwrap()).unwrap();
        assert!(withdrawn.contains("notifications/cancelled"), "{withdrawn}");
        assert!(legacy.withdraw().is_none());

        let (asked, mut answered) = ask();
        assert!(passed(&mut legacy, asked).is_some());
        drop(legacy);
        assert!(matches!(answered.try_recv(), Err(oneshot::error::TryRecvError::Closed)));
    }
}
