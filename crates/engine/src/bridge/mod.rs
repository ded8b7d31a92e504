//! The bridge between the eras: a requester of either era makes a request to a server of either era, and questions are translated both
//! ways.
//!
//! [`conversation_state`] decides, [`conversation`] performs. [`parked_request`] holds requests while their requesters look for answers.
//! [`message_translator`] translates the servers' messages for the requester, [`session_forwarder`] does so for messages that belong to no
//! request. [`sessions`] keeps what outlasts a request. The bridge is about requests, not about tool calls: prompts and resources cross it
//! the same way. Deliberately not here: whether a question may be asked, and in which words, which is in `crate::questions`.

mod conversation;
mod conversation_state;
mod log_level;
mod message_translator;
mod parked_request;
mod seal;
mod session_forwarder;
mod sessions;

use std::{future::Future, pin::Pin, sync::Arc};

use serde_json::value::RawValue;
use servanda_contract::{CallId, Timestamp, time::Clock};
use servanda_effects::{Note, NoteKind, Notebook, effect::ClientKey};
use servanda_mcp::{
    RawObject, RpcError,
    envelope::{code, to_json},
    fields::{member, method},
};
use servanda_upstream::Continuation;
use tokio::{
    sync::{OnceCell, oneshot},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

pub(crate) use self::{
    conversation::{Conversation, ConversationEnd, RepeatableRequest, RequiredInput},
    conversation_state::QuestionTarget,
    message_translator::{MessageSubscriber, MessageTranslator},
    parked_request::{ParkedReply, ParkedRequest, RequestAnswer, RequestBinding},
    sessions::ClientSessions,
};
use self::{
    parked_request::ParkedRequestTable,
    seal::{RequestStatePayload, Seal, StatePurpose},
};
use crate::{deferred::TaskIndex, long_running::LongWork, questions::Elicitations};

/// How long a requester may look for answers before a request at a legacy server continues without them.
pub(crate) const INPUT_MS_MAX: u64 = 600_000;
/// How long a state of a modern server is valid. The gateway holds nothing for it.
pub(crate) const ROUND_MS_MAX: u64 = 3_600_000;

/// What conversations have in common.
#[derive(Debug)]
pub(crate) struct Bridge {
    notebook: Arc<dyn Notebook>,
    clock: Arc<dyn Clock>,
    seal: OnceCell<Seal>,
    parked: ParkedRequestTable,
    pub(crate) elicitations: Arc<Elicitations>,
    /// The gateway's ids of tasks, for messages of servers about them.
    tasks: Arc<TaskIndex>,
    /// Cancelled when no client will come back because the gateway shuts down.
    closing: CancellationToken,
}

/// What a request is, by the state that it brings.
#[derive(Debug)]
pub(crate) enum OpenedRequest {
    /// A new request, perhaps with answers to questions that were not asked.
    Fresh(Continuation),
    /// Another round of a conversation with a modern server.
    Round {
        /// The only upstream that may get it.
        upstream: String,
        /// Identifies this state.
        nonce: String,
        continuation: Continuation,
        first_call: Option<CallId>,
        /// The operation that the state belongs to.
        key: Option<ClientKey>,
    },
    /// The return of a call whose client showed the page of its ticket. Its answers are dropped.
    ApprovalPage,
    /// The return to a parked request.
    Parked { id: String, first_call: Option<CallId> },
}

/// What a requester brings when it comes back.
#[derive(Debug, Default)]
pub(crate) struct ClientContinuation {
    pub(crate) input_responses: Option<Box<RawValue>>,
    pub(crate) request_state: Option<String>,
}

/// A server's request for input, as its requester gets it.
#[derive(Debug)]
pub(crate) struct InputRequiredResult {
    /// The members of an `input_required` result.
    pub(crate) json: String,
    /// Identifies the state in the result.
    pub(crate) nonce: String,
    /// Until when the state is valid.
    pub(crate) expires_at: Timestamp,
}

/// A request in progress.
pub(crate) type RequestFuture = Pin<Box<dyn Future<Output = RequestAnswer> + Send>>;

impl Bridge {
    pub(crate) fn new(notebook: Arc<dyn Notebook>, clock: Arc<dyn Clock>, tasks: Arc<TaskIndex>) -> Self {
        let (parked, closing) = (ParkedRequestTable::default(), CancellationToken::new());
        Self { notebook, clock, seal: OnceCell::new(), parked, elicitations: Arc::default(), tasks, closing }
    }

    /// Declines all questions from now on, because no client will come back.
    pub(crate) fn close(&self) {
        self.closing.cancel();
    }

    /// Reads what a modern requester brings. `claim` is the request that it makes now.
    pub(crate) async fn open(
        &self,
        brought: ClientContinuation,
        claim: &RequestBinding,
    ) -> Result<OpenedRequest, RpcError> {
        let ClientContinuation { input_responses, request_state } = brought;
        let Some(text) = request_state else {
            return Ok(OpenedRequest::Fresh(Continuation { input_responses, request_state: None }));
        };
        let carried = self.seal().await?.verify(&text, claim.audience(), self.clock.now())?;
        let first_call = carried.first_call;
        Ok(match carried.purpose {
            StatePurpose::ApprovalPage { .. } => OpenedRequest::ApprovalPage,
            StatePurpose::Parked { id } => OpenedRequest::Parked { id, first_call },
            StatePurpose::Round { upstream, nonce, state, key } => {
                let continuation = Continuation { input_responses, request_state: state };
                OpenedRequest::Round { upstream, nonce, continuation, first_call, key }
            }
        })
    }

    /// Marks a state as used by a call. Fails if another call used it before, and names that call, or if the notebook cannot say.
    pub(crate) async fn spend(&self, nonce: &str, call_id: &CallId) -> Result<(), RpcError> {
        // A little longer than any state is valid.
        let expires_at = Some(self.expiry(2 * ROUND_MS_MAX));
        let note = Note { kind: NoteKind::Spent, key: nonce.to_owned(), value: to_json(call_id), expires_at };
        match self.notebook.write_first(note).await {
            Ok(kept) if kept.value == to_json(call_id) => Ok(()),
            Ok(kept) => Err(state_spent(&kept.value)),
            Err(error) => {
                tracing::error!(%error, "the use of a request state could not be stored");
                Err(notebook_unavailable())
            }
        }
    }

    /// Marks a state as unused again, because nothing was sent for the call that used it.
    pub(crate) async fn unspend(&self, nonce: &str) {
        if let Err(error) = self.notebook.erase(NoteKind::Spent, nonce).await {
            tracing::warn!(%error, "a request state that was not used stays marked as used");
        }
    }

    /// The members of an `input_required` result for a modern requester: the server's, with its state inside the gateway's.
    pub(crate) async fn input_required_result(
        &self,
        wanted: &RequiredInput,
        claim: &RequestBinding,
        upstream: &str,
    ) -> Result<InputRequiredResult, RpcError> {
        let members: RawObject<'_> = serde_json::from_slice(&wanted.answer.result).unwrap_or_default();
        let theirs = members.get(member::REQUEST_STATE).and_then(|raw| serde_json::from_str(raw.get()).ok());
        let (nonce, expires_at) = (uuid::Uuid::new_v4().to_string(), self.expiry(ROUND_MS_MAX));
        let state = self.sign_state(&claim.round_state(expires_at, upstream, &nonce, theirs)).await?;
        // The result has no other members, because a client would read them beside the questions.
        let notes = members.get(member::META).map_or_else(String::new, |raw| format!(r#""{}":{raw},"#, member::META));
        let put = format!(r#"{{{notes}"{}":{}}}"#, member::INPUT_REQUESTS, wanted.input_requests);
        let put: RawObject<'_> = serde_json::from_str(&put).unwrap_or_default();
        let json = with_state(&put, &state);
        Ok(InputRequiredResult { json, nonce, expires_at })
    }

    /// The members of an `input_required` result that sends the person of a modern requester to the page of a ticket.
    pub(crate) async fn approval_page_result(
        &self,
        ticket: &str,
        params: &RawValue,
        claim: &RequestBinding,
    ) -> Result<String, RpcError> {
        let purpose = StatePurpose::ApprovalPage { ticket: ticket.to_owned() };
        let expires_at = self.expiry(ROUND_MS_MAX);
        let carried = RequestStatePayload::new(claim.audience(), expires_at, claim.first_call.clone(), purpose);
        let state = self.sign_state(&carried).await?;
        let (questions, ask) = (member::INPUT_REQUESTS, method::ELICITATION_CREATE);
        let put = format!(r#"{{"{questions}":{{"approval":{{"method":"{ask}","params":{}}}}}}}"#, params.get());
        let put: RawObject<'_> = serde_json::from_str(&put).unwrap_or_default();
        Ok(with_state(&put, &state))
    }

    /// Waits with the requester that made a request until the request is over or the requester is asked something. In the second case, the
    /// request continues in a task of its own.
    pub(crate) async fn run_until_answer(
        self: &Arc<Self>,
        parked_request: Arc<ParkedRequest>,
        mut turns: oneshot::Receiver<ParkedReply>,
        mut underway: RequestFuture,
        gives_up: &CancellationToken,
    ) -> ParkedReply {
        loop {
            tokio::select! {
                biased;
                done = &mut underway => {
                    self.parked.leave(&parked_request);
                    return ParkedReply::Done(done);
                }
                turn = &mut turns => {
                    tokio::spawn(Arc::clone(self).finish_parked(parked_request, underway));
                    return turn.unwrap_or_else(|_| ParkedReply::Refused(request_gone(None)));
                }
                () = gives_up.cancelled(), if !parked_request.cancel.is_cancelled() => parked_request.cancel.cancel(),
            }
        }
    }

    /// Lets a requester come back to its parked request, and waits with it.
    pub(crate) async fn rejoin(
        &self,
        id: &str,
        first_call: Option<&CallId>,
        input_responses: Option<&RawValue>,
        subscriber: MessageSubscriber,
        gives_up: &CancellationToken,
    ) -> ParkedReply {
        let Some(answers) = input_responses.map_or_else(|| Some(Vec::new()), conversation_state::read_input_responses)
        else {
            let error = RpcError::new(code::INVALID_PARAMS, "`inputResponses` must be an object");
            return ParkedReply::Refused(error.with_hint("send one member for every key of `inputRequests`"));
        };
        let Some(parked_request) = self.parked.find(id) else { return ParkedReply::Refused(request_gone(first_call)) };
        let mut turns = match parked_request.rejoin(answers, subscriber) {
            Ok(turns) => turns,
            Err(error) => return ParkedReply::Refused(error),
        };
        loop {
            tokio::select! {
                turn = &mut turns => return turn.unwrap_or_else(|_| ParkedReply::Refused(request_gone(first_call))),
                () = gives_up.cancelled(), if !parked_request.cancel.is_cancelled() => parked_request.cancel.cancel(),
            }
        }
    }

    /// The parked request with that id and its long work, if it is long work.
    pub(crate) fn waiting_work(&self, id: &str) -> Option<(Arc<ParkedRequest>, Arc<LongWork>)> {
        let parked_request = self.parked.find(id)?;
        let work = Arc::clone(parked_request.work()?);
        Some((parked_request, work))
    }

    /// Runs a request whose requester was asked something to its end. If no requester waits for the answer, it is kept for a while.
    async fn finish_parked(self: Arc<Self>, parked_request: Arc<ParkedRequest>, underway: RequestFuture) {
        let done = underway.await;
        if let Err(turn) = parked_request.reply(ParkedReply::Done(done))
            && let Some(until) = parked_request.lapses_at()
        {
            let mut arrivals = parked_request.arrivals.lock().await;
            tokio::select! {
                Some(returning_request) = arrivals.recv() => {
                    parked_request.send_unsent(&returning_request.waiting_requester);
                    returning_request.waiting_requester.reply(turn);
                }
                () = tokio::time::sleep_until(until) => {}
                () = self.closing.cancelled() => {}
            }
        }
        self.parked.leave(&parked_request);
        parked_request.close().await;
    }

    async fn seal(&self) -> Result<&Seal, RpcError> {
        self.seal.get_or_try_init(|| Seal::load(self.notebook.as_ref())).await.map_err(|error| {
            tracing::error!(%error, "the key that seals request states could not be read");
            notebook_unavailable()
        })
    }

    async fn sign_state(&self, carried: &RequestStatePayload) -> Result<String, RpcError> {
        Ok(self.seal().await?.sign(carried))
    }

    fn expiry(&self, from_now_ms: u64) -> Timestamp {
        Timestamp::from_unix_ms(self.clock.now().unix_ms().saturating_add(from_now_ms))
    }

    #[cfg(test)]
    pub(crate) fn parked(&self) -> usize {
        self.parked.len()
    }
}

/// An object with a state added to its members.
fn with_state(members: &RawObject<'_>, state: &str) -> String {
    let mut json = String::from("{");
    members.write_members(&mut json);
    json.extend([&to_json(member::REQUEST_STATE), ":", &to_json(state), "}"]);
    json
}

/// The answer to a requester whose state was already used; `by` is the id of the call that used it, as JSON.
fn state_spent(by: &str) -> RpcError {
    let call: String = serde_json::from_str(by).unwrap_or_default();
    RpcError::new(code::INVALID_PARAMS, format!("the `requestState` was already used by call {call}"))
        .with_hint(&format!("that call may have changed something: see how it ended with `servanda explain {call}`"))
}

fn notebook_unavailable() -> RpcError {
    RpcError::new(code::INTERNAL_ERROR, "the gateway cannot store conversations at the moment")
        .with_hint("try again later; operators: `servanda doctor` looks at the ledger")
}

/// The answer to a requester whose request is no longer parked.
fn request_gone(first_call: Option<&CallId>) -> RpcError {
    let hint = match first_call {
        Some(call) => format!("see how it ended with `servanda explain {call}` before calling again"),
        None => "make the request anew".to_owned(),
    };
    RpcError::new(code::INVALID_PARAMS, "the request that this `requestState` belongs to is no longer waiting")
        .with_hint(&hint)
}

/// Sleeps until that moment, or for ever if there is none.
async fn sleep_until_or_forever(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
