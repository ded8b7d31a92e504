//! The questions that a legacy server asks a client. Each is passed on, awaited by a task of its own, and answered under the server's own
//! id. Nothing here blocks the task that reads from the server.
//!
//! The conversations decide which client is asked; the client decides what to answer.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde_json::value::RawValue;
use servanda_mcp::{
    Id, RpcError,
    envelope::{code, failure, response},
};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::outbox::Outbox;
use crate::{
    QuestionReply, ServerMessage, ServerMessageSink, UpstreamQuestion, request::pausable_deadline::DeadlinePause,
    shared::SharedContext,
};

/// How many questions may be open on one connection.
const QUESTIONS_OPEN_MAX: usize = 64;

/// The open questions of one connection.
#[derive(Debug)]
pub(crate) struct OpenQuestions {
    context: Arc<SharedContext>,
    server_outbox: Outbox,
    /// By the server's ids, each with the token that ends it.
    open: Mutex<HashMap<Id, CancellationToken>>,
}

/// A question on its way to a client.
#[derive(Debug)]
pub(crate) struct RoutedQuestion<'a> {
    pub(crate) id: Id,
    pub(crate) method: &'a str,
    pub(crate) params: Option<&'a RawValue>,
    /// Pauses the deadlines of these requests for as long as the question is open.
    pub(crate) clocks: Vec<DeadlinePause>,
    /// Cancelled when the request it belongs to is over.
    pub(crate) over: CancellationToken,
}

impl OpenQuestions {
    pub(crate) fn new(context: Arc<SharedContext>, server_outbox: Outbox) -> Self {
        Self { context, server_outbox, open: Mutex::new(HashMap::new()) }
    }

    pub(crate) fn server_outbox(&self) -> &Outbox {
        &self.server_outbox
    }

    /// Asks a client, or declines if that is not possible.
    pub(crate) fn ask(self: &Arc<Self>, client: &dyn ServerMessageSink, asked: RoutedQuestion<'_>) {
        let RoutedQuestion { id, method, params, clocks, over } = asked;
        let withdrawn = CancellationToken::new();
        {
            let mut open = self.lock();
            if open.contains_key(&id) {
                tracing::debug!(upstream = %self.context.spec.id, %id, "the server used one id for two open questions");
                return;
            }
            if open.len() >= QUESTIONS_OPEN_MAX {
                drop(open);
                return self.server_outbox.refuse(&id, code::INTERNAL_ERROR, "too many questions are open");
            }
            open.insert(id.clone(), withdrawn.clone());
        }
        let (reply, replied) = oneshot::channel();
        let ask = UpstreamQuestion { method: method.to_owned(), params: params.map(ToOwned::to_owned), reply };
        if !client.receive(ServerMessage::Ask(ask)) {
            self.lock().remove(&id);
            return self.server_outbox.refuse(&id, code::INTERNAL_ERROR, "the client does not take questions now");
        }
        let questions = Arc::clone(self);
        self.context.tasks.spawn(async move {
            let answer = questions.answer(replied, &withdrawn, &over).await;
            questions.lock().remove(&id);
            if let Some(answer) = answer {
                let body = answer.map_or_else(|error| failure(Some(&id), &error), |result| response(&id, result.get()));
                questions.server_outbox.send(body).await;
            }
            // Only now: the request's deadline runs again when the server can continue.
            drop(clocks);
        });
    }

    /// Whether a question is open.
    pub(crate) fn has_open(&self) -> bool {
        !self.lock().is_empty()
    }

    /// The server withdraws the question.
    pub(crate) fn withdraw(&self, id: &Id) {
        if let Some(withdrawn) = self.lock().get(id) {
            withdrawn.cancel();
        }
    }

    /// The client's answer, or why there is none; none if the server no longer waits for one.
    async fn answer(
        &self,
        replied: oneshot::Receiver<QuestionReply>,
        withdrawn: &CancellationToken,
        over: &CancellationToken,
    ) -> Option<QuestionReply> {
        let declined = |why: &str| Some(Err(RpcError::new(code::INTERNAL_ERROR, why)));
        tokio::select! {
            biased;
            () = withdrawn.cancelled() => None,
            _ = self.server_outbox.loss.reported() => None,
            reply = replied => reply.map_or_else(|_| declined("the client was not asked or did not answer"), Some),
            () = over.cancelled() => declined("the request that this belongs to is over"),
            () = tokio::time::sleep(Duration::from_millis(self.context.spec.limits.input_ms_max)) => {
                declined("the client did not answer in time")
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Id, CancellationToken>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
