//! What a server says to a session outside of any one request: between calls, during the handshake, or while several calls are under way
//! and it does not say which it means. The rules of questions hold here too, and the strictest contract of the server decides.

use servanda_upstream::{Ask as ServerAsk, Bystander, Remark as ServerRemark};

use super::outlet::{Hearer, Outlet};
use crate::{
    client::{Ask, Remark},
    questions::{Asking, QuestionRules},
};

/// Passes on to one session what one server says outside of its requests.
#[derive(Debug)]
pub(crate) struct SessionBystander {
    pub(crate) hearer: Hearer,
    pub(crate) outlet: Outlet,
    /// What may be asked outside of calls.
    pub(crate) rules: QuestionRules,
}

impl SessionBystander {
    /// Asks the client, or tells the server why not. No call is under way whose record could name the question, so only the log does.
    fn ask(&self, ask: ServerAsk) -> bool {
        let ServerAsk { method, params, reply } = ask;
        let params = self.outlet.params(params);
        match self.rules.put(Asking { method, params }, &mut Vec::new()) {
            Ok(question) => {
                tracing::info!(method = question.method(), "a question of an upstream belongs to no one call");
                self.outlet.pass(&self.hearer, Remark::Ask(Ask { question, reply }))
            }
            Err(not_put) => {
                let _ = reply.send(Err(not_put.to_error()));
                true
            }
        }
    }
}

impl Bystander for SessionBystander {
    fn hear(&self, remark: ServerRemark) -> bool {
        match remark {
            ServerRemark::Ask(ask) => self.ask(ask),
            other => self.outlet.translate(other).is_some_and(|remark| self.outlet.pass(&self.hearer, remark)),
        }
    }

    fn is_gone(&self) -> bool {
        self.hearer.sink.as_ref().is_none_or(tokio::sync::mpsc::Sender::is_closed)
    }
}
