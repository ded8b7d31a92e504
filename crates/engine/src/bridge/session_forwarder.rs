//! Forwards what a server says to a session outside of any one request: between calls, during the handshake, or while several calls run and
//! the server does not say which it means. The rules of questions apply here too, and the strictest contract of the server decides.

use servanda_upstream::{ServerMessage, ServerMessageSink, UpstreamQuestion};

use super::message_translator::{MessageSubscriber, MessageTranslator};
use crate::{
    client::{ClientMessage, PendingQuestion},
    questions::{QuestionRules, ServerQuestion},
};

/// Passes on to one session what one server says outside of its requests.
#[derive(Debug)]
pub(crate) struct SessionForwarder {
    pub(crate) subscriber: MessageSubscriber,
    pub(crate) message_translator: MessageTranslator,
    /// What may be asked outside of calls.
    pub(crate) rules: QuestionRules,
}

impl SessionForwarder {
    /// Asks the client, or tells the server why not. No call is running whose record could name the question, so only the log does.
    fn ask(&self, ask: UpstreamQuestion) -> bool {
        let UpstreamQuestion { method, params, reply } = ask;
        let params = self.message_translator.translate_params(params);
        match self.rules.check(ServerQuestion { method, params }, &mut Vec::new()) {
            Ok(question) => {
                tracing::info!(method = question.method(), "a question of an upstream belongs to no call");
                self.message_translator.send(&self.subscriber, ClientMessage::Ask(PendingQuestion { question, reply }))
            }
            Err(not_put) => {
                let _ = reply.send(Err(not_put.to_error()));
                true
            }
        }
    }
}

impl ServerMessageSink for SessionForwarder {
    fn receive(&self, message: ServerMessage) -> bool {
        match message {
            ServerMessage::Ask(ask) => self.ask(ask),
            other => self
                .message_translator
                .translate(other)
                .is_some_and(|message| self.message_translator.send(&self.subscriber, message)),
        }
    }

    fn is_gone(&self) -> bool {
        self.subscriber.sink.as_ref().is_none_or(tokio::sync::mpsc::Sender::is_closed)
    }
}
