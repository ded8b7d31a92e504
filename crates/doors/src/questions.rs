//! The questions that a legacy client has been asked and has not answered yet.
//!
//! A question has an id of our own that is valid only within its session, so no other client can answer it. Each door
//! decides how it travels. A question that is dropped unanswered is declined.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use serde_json::value::RawValue;
use servanda_engine::{PendingQuestion, QuestionReply};
use servanda_mcp::{ClientCapabilities, Id, envelope};
use tokio::sync::oneshot;
use uuid::Uuid;

/// The open questions of one session.
#[derive(Debug)]
pub(crate) struct SessionQuestions {
    /// Makes the ids of two sessions different, and those of a session and its restored successor.
    tag: String,
    open_max: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    asked: u64,
    open: HashMap<Id, oneshot::Sender<QuestionReply>>,
}

/// A question to be sent.
#[derive(Debug)]
pub(crate) struct SessionQuestion {
    pub(crate) id: Id,
    /// The request.
    pub(crate) message: Vec<u8>,
}

impl SessionQuestions {
    pub(crate) fn new(open_max: usize) -> Self {
        let tag = Uuid::new_v4().simple().to_string();
        Self { tag, open_max, state: Mutex::default() }
    }

    /// Opens a question. It is declined if the client cannot answer it or too many are open.
    pub(crate) fn open(&self, ask: PendingQuestion, capabilities: &ClientCapabilities) -> Option<SessionQuestion> {
        let PendingQuestion { question, reply } = ask;
        if !capabilities.answers(question.method(), question.params()) {
            tracing::debug!(
                method = question.method(),
                "a question is declined: the client did not declare that it answers this method"
            );
            return None;
        }
        let mut state = self.state();
        if state.open.len() >= self.open_max {
            // No task waits for the answers to these any more.
            state.open.retain(|_, reply| !reply.is_closed());
        }
        if state.open.len() >= self.open_max {
            tracing::warn!(open = state.open.len(), "a question is declined: the client has too many open questions");
            return None;
        }
        state.asked += 1;
        let id = Id::Text(format!("servanda-{}-{}", self.tag, state.asked));
        let message = envelope::request(&id, question.method(), question.params().map(RawValue::get));
        state.open.insert(id.clone(), reply);
        Some(SessionQuestion { id, message })
    }

    /// Passes an answer on. An answer to an unknown or withdrawn question is dropped.
    pub(crate) fn answer(&self, id: &Id, reply: QuestionReply) {
        let asker = self.state().open.remove(id);
        if let Some(asker) = asker {
            let _ = asker.send(reply);
        }
    }

    /// Whether a task still waits for the answer.
    pub(crate) fn is_open(&self, id: &Id) -> bool {
        self.state().open.get(id).is_some_and(|reply| !reply.is_closed())
    }

    /// Closes a question. Returns whether it was still open.
    pub(crate) fn withdraw(&self, id: &Id) -> bool {
        self.state().open.remove(id).is_some()
    }

    /// Closes all of them.
    pub(crate) fn withdraw_all(&self) {
        self.state().open.clear();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every critical section leaves a whole table: no panic can leave it half-changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use servanda_engine::ClientQuestion;
    use servanda_mcp::RpcError;

    use super::*;

    fn capabilities() -> ClientCapabilities {
        ClientCapabilities::parse(Some(&RawValue::from_string(r#"{"roots":{}}"#.to_owned()).unwrap()))
    }

    fn ask(method: &str) -> (PendingQuestion, oneshot::Receiver<QuestionReply>) {
        let (reply, answered) = oneshot::channel();
        (PendingQuestion { question: ClientQuestion::unrestricted("up", method, None).unwrap(), reply }, answered)
    }

    fn refused() -> QuestionReply {
        Err(RpcError::new(-1, "no"))
    }

    #[test]
    fn an_answer_reaches_its_question_once_and_within_its_session() {
        let (here, there) = (SessionQuestions::new(4), SessionQuestions::new(4));
        let (asked, mut answered) = ask("roots/list");
        let question = here.open(asked, &capabilities()).unwrap();
        there.answer(&question.id, refused());
        assert!(answered.try_recv().is_err(), "another session's answer");
        here.answer(&question.id, refused());
        assert!(answered.try_recv().unwrap().is_err());
        here.answer(&question.id, refused());
        assert!(!here.withdraw(&question.id));
    }

    #[test]
    fn what_the_client_cannot_answer_is_declined() {
        let (asked, mut answered) = ask("sampling/createMessage");
        assert!(SessionQuestions::new(4).open(asked, &capabilities()).is_none());
        assert_eq!(answered.try_recv().unwrap_err(), oneshot::error::TryRecvError::Closed);
    }

    #[test]
    fn there_is_a_limit_that_forgotten_questions_do_not_count_against() {
        let questions = SessionQuestions::new(2);
        let (first, answered) = ask("roots/list");
        let (second, _second) = ask("roots/list");
        assert!(questions.open(first, &capabilities()).is_some());
        assert!(questions.open(second, &capabilities()).is_some());
        assert!(questions.open(ask("roots/list").0, &capabilities()).is_none());
        drop(answered);
        assert!(questions.open(ask("roots/list").0, &capabilities()).is_some());
    }

    #[test]
    fn a_question_withdrawn_is_declined() {
        let questions = SessionQuestions::new(2);
        let (asked, mut answered) = ask("roots/list");
        let question = questions.open(asked, &capabilities()).unwrap();
        assert!(questions.withdraw(&question.id));
        assert_eq!(answered.try_recv().unwrap_err(), oneshot::error::TryRecvError::Closed);
    }
}
