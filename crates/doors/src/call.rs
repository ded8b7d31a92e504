//! A running tool call as a door watches it: progress on the way, then the answer, or nothing any more once cancelled.
//!
//! The call itself runs in a task of its own, which nothing here stops: a call that has been dispatched is read to its
//! end and recorded whether or not somebody still waits. Dropping a [`RunningCall`] only cancels the request's token, and
//! the engine decides what that means. That holds in both eras: a legacy client may mean nothing by going away, but since
//! streams cannot be resumed nobody would get the answer, and a call not dispatched by then had better not be.

use std::sync::Arc;

use servanda_engine::{CallAnswer, CallRequest, Gateway, Remark};
use servanda_mcp::{Era, Id, RpcError, envelope::code};
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc},
    task::{JoinError, JoinHandle},
};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    fault::{Fault, LOOK_FIRST},
    greeting::Greeting,
    in_flight::Entry,
    splice,
};

/// Progress a slow reader may be behind with; more is lost, as progress may be.
pub(crate) const PROGRESS_QUEUE_MAX: usize = 64;

/// Where a call's progress comes from and what it is called there.
#[derive(Debug)]
pub(crate) struct Progress {
    pub(crate) token: String,
    pub(crate) notes: mpsc::Receiver<Remark>,
}

/// Who waits for the call, and in which form.
#[derive(Debug)]
pub(crate) struct Asker {
    pub(crate) id: Id,
    pub(crate) era: Era,
    pub(crate) greeting: Arc<Greeting>,
    pub(crate) progress: Option<Progress>,
    /// Its place among the session's unanswered requests, where there is a session.
    #[expect(dead_code, reason = "held to be dropped with the call")]
    pub(crate) entry: Option<Entry>,
}

/// A call under way.
#[derive(Debug)]
pub(crate) struct RunningCall {
    asker: Asker,
    answer: JoinHandle<CallAnswer>,
    finished: Option<Vec<u8>>,
    cancel: CancellationToken,
    _cancel_on_drop: DropGuard,
}

/// What happened to a call.
#[derive(Debug)]
pub(crate) enum CallEvent {
    /// A message on the way.
    Progress(Vec<u8>),
    /// The answer.
    Answered(Vec<u8>),
    /// The caller does not want an answer any more.
    Cancelled,
}

impl RunningCall {
    /// Starts the call. The permit is held by the call itself, not by whoever waits for it.
    pub(crate) fn start<G: Gateway>(
        gateway: Arc<G>,
        request: CallRequest,
        permit: OwnedSemaphorePermit,
        asker: Asker,
    ) -> Self {
        let cancel = request.terms.cancel.clone();
        let answer = tokio::spawn(async move {
            let answer = gateway.call(request).await;
            drop(permit);
            answer
        });
        Self { asker, answer, finished: None, _cancel_on_drop: cancel.clone().drop_guard(), cancel }
    }

    /// Whether the asker wants progress, and so a stream.
    pub(crate) fn streams(&self) -> bool {
        self.asker.progress.is_some()
    }

    /// The answer of a door that cannot wait any longer.
    pub(crate) fn end_unknown(&self) -> Vec<u8> {
        Fault::end_unknown().message(Some(&self.asker.id))
    }

    /// Waits for the answer alone.
    pub(crate) async fn finish(mut self) -> Option<Vec<u8>> {
        loop {
            match self.next().await {
                CallEvent::Progress(_) => {}
                CallEvent::Answered(message) => return Some(message),
                CallEvent::Cancelled => return None,
            }
        }
    }

    /// Waits for what happens next; not to be called again after the last event. Cancel safe.
    pub(crate) async fn next(&mut self) -> CallEvent {
        loop {
            if self.cancel.is_cancelled() {
                return CallEvent::Cancelled;
            }
            if self.finished.is_some() {
                // Progress sent before the answer goes out before it.
                if let Some(message) = self.waiting_note() {
                    return CallEvent::Progress(message);
                }
                return CallEvent::Answered(self.finished.take().unwrap_or_default());
            }
            let notes = self.asker.progress.as_mut();
            tokio::select! {
                biased;
                () = self.cancel.cancelled() => return CallEvent::Cancelled,
                Some(note) = next_note(notes) => if let Some(message) = self.note(&note) {
                    return CallEvent::Progress(message);
                },
                answer = &mut self.answer => self.finished = Some(self.message(answer)),
            }
        }
    }

    fn waiting_note(&mut self) -> Option<Vec<u8>> {
        loop {
            let note = self.asker.progress.as_mut()?.notes.try_recv().ok()?;
            if let Some(message) = self.note(&note) {
                return Some(message);
            }
        }
    }

    fn note(&self, remark: &Remark) -> Option<Vec<u8>> {
        let Remark::Progress(note) = remark else { return None };
        splice::progress(&self.asker.progress.as_ref()?.token, note.get())
    }

    fn message(&self, answer: Result<CallAnswer, JoinError>) -> Vec<u8> {
        let id = &self.asker.id;
        let result = match answer {
            Ok(CallAnswer::Result(result)) => result.json,
            Ok(CallAnswer::UnknownTool(refusal)) => {
                let error = RpcError::new(code::INVALID_PARAMS, refusal.message.clone()).with_data(&refusal);
                return Fault::from(error).message(Some(id));
            }
            Ok(CallAnswer::Failed(error)) => return Fault::from(error).message(Some(id)),
            Ok(CallAnswer::InputRequired(_) | CallAnswer::Task(_)) => {
                return Fault::internal("not built yet").message(Some(id));
            }
            Err(error) => {
                tracing::error!(request = %id, %error, "a call's task ended without an answer");
                return Fault::internal("the call ended without an answer; whether it had an effect is not known")
                    .hint(LOOK_FIRST)
                    .message(Some(id));
            }
        };
        match self.asker.era {
            Era::Legacy => splice::response(id, &result),
            Era::Modern => splice::complete(&result, &self.asker.greeting.meta_member).map_or_else(
                || Fault::internal("the tool result is not a JSON object").message(Some(id)),
                |result| splice::response(id, &result),
            ),
        }
    }
}

async fn next_note(progress: Option<&mut Progress>) -> Option<Remark> {
    match progress {
        Some(progress) => progress.notes.recv().await,
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::to_raw_value;

    use super::*;
    use crate::options::ServerIdentity;

    /// The task may send its last progress and end between two looks at the channel.
    #[tokio::test]
    async fn progress_that_waits_goes_out_before_the_answer() {
        let server = ServerIdentity { name: String::new(), version: String::new(), instructions: None };
        let (sender, notes) = mpsc::channel(2);
        sender.try_send(Remark::Progress(to_raw_value(&["not an object"]).unwrap())).unwrap();
        sender.try_send(Remark::Progress(to_raw_value(&serde_json::json!({"progress": 1})).unwrap())).unwrap();
        let asker = Asker {
            id: Id::Number(1),
            era: Era::Legacy,
            greeting: Arc::new(Greeting::new(&server)),
            progress: Some(Progress { token: "7".to_owned(), notes }),
            entry: None,
        };
        let cancel = CancellationToken::new();
        let mut call = RunningCall {
            asker,
            answer: tokio::spawn(std::future::pending()),
            finished: Some(b"answer".to_vec()),
            _cancel_on_drop: cancel.clone().drop_guard(),
            cancel,
        };
        assert!(matches!(call.next().await, CallEvent::Progress(note) if note.ends_with(br#""progress":1}}"#)));
        assert!(matches!(call.next().await, CallEvent::Answered(message) if message == b"answer"));
    }
}
