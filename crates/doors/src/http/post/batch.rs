//! Several messages in one POST, which only 2025-03-26 allows: handled one after the other, answered together.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use serde_json::value::RawValue;
use servanda_authority::AuthenticatedCaller;
use servanda_engine::Gateway;
use servanda_mcp::{
    EnvelopeError, Era, Message, envelope,
    fields::{header, method},
};

use super::{
    super::{
        AuthenticatedRequest, DoorResponse, HttpDoor, deliver::AnswerStream, empty, json, leased_session,
        sessions::HttpSessionLease, stream,
    },
    apply_notification, await_deferred,
};
use crate::{
    dispatch::DispatchReply, fault::ProtocolFault, params::Params, request::DoorRequest,
    running_request::RunningRequest,
};

/// The answers to a batch's messages.
struct HttpBatchAnswers {
    authority: Arc<AuthenticatedCaller>,
    answers: Vec<Vec<u8>>,
    #[expect(clippy::vec_box, reason = "they come boxed and go on boxed")]
    running: Vec<Box<RunningRequest>>,
}

/// Whether a body is a batch, well-formed or not.
pub(super) fn is_batch(bytes: &[u8]) -> bool {
    bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[')
}

/// Answers a batch. Only sessions of the one revision that has batches may send one.
pub(super) async fn post<G: Gateway>(
    door: &HttpDoor<G>,
    http_request: &AuthenticatedRequest,
    bytes: &Bytes,
) -> Result<DoorResponse, ProtocolFault> {
    let lease = match leased_session(door, http_request).await {
        Ok(lease) if lease.session().session.takes_batches() => lease,
        Ok(_) | Err(_) => return Err(not_a_message(bytes)),
    };
    if http_request.headers.contains_key(header::IDEMPOTENCY_KEY) {
        let message = "the header `Idempotency-Key` is for a single call, and a batch may have several";
        return Err(ProtocolFault::invalid_request(StatusCode::BAD_REQUEST, message)
            .hint("give each call its own key in `_meta[\"servanda/idempotency-key\"]`"));
    }
    let messages: Vec<&RawValue> = serde_json::from_slice(bytes).map_err(|_| not_a_message(bytes))?;
    if messages.is_empty() || messages.len() > door.batch_messages_max {
        let max = door.batch_messages_max;
        return Err(ProtocolFault::invalid_request(
            StatusCode::BAD_REQUEST,
            format!("a batch must have 1 to {max} messages"),
        ));
    }
    let mut gathered = HttpBatchAnswers::new(Arc::clone(&http_request.authority));
    for message in messages {
        // Upholds: `message` borrows from `bytes`.
        gathered.take(door, &lease, &bytes.slice_ref(message.get().as_bytes())).await;
    }
    Ok(gathered.deliver(door, http_request, lease))
}

impl HttpBatchAnswers {
    fn new(authority: Arc<AuthenticatedCaller>) -> Self {
        Self { authority, answers: Vec::new(), running: Vec::new() }
    }

    async fn take<G: Gateway>(&mut self, door: &HttpDoor<G>, lease: &HttpSessionLease, message: &Bytes) {
        match Message::parse(message) {
            Ok(Message::Request { id, method, params }) => {
                let answer = match self.answer(door, lease, (&id, &method, params), message).await {
                    Ok(Some(result)) => envelope::response(&id, &result),
                    Ok(None) => return,
                    Err(fault) => fault.message(Some(&id)),
                };
                self.answers.push(answer);
            }
            Ok(Message::Notification { method, params }) => {
                if let Ok(params) = Params::parse(params) {
                    apply_notification(door, lease.session(), &method, &params);
                }
            }
            Ok(Message::Response { id, result }) => {
                lease.session().session.questions.answer(&id, Ok(result.to_owned()));
            }
            Ok(Message::Failure { id: Some(id), error }) => lease.session().session.questions.answer(&id, Err(error)),
            Ok(Message::Failure { id: None, .. }) => {}
            Err(error) => {
                let id = match &error {
                    EnvelopeError::NotAMessage { id, .. } => id.clone(),
                    EnvelopeError::NotJson(_) => None,
                };
                self.answers.push(ProtocolFault::from_envelope_error(&error).message(id.as_ref()));
            }
        }
    }

    /// The result, if it is there at once.
    async fn answer<G: Gateway>(
        &mut self,
        door: &HttpDoor<G>,
        lease: &HttpSessionLease,
        (id, method, params): (&servanda_mcp::Id, &str, Option<&RawValue>),
        source: &Bytes,
    ) -> Result<Option<String>, ProtocolFault> {
        if method == method::INITIALIZE {
            return Err(ProtocolFault::invalid_request(
                StatusCode::BAD_REQUEST,
                "`initialize` must not be part of a batch",
            ));
        }
        let params = Params::parse(params)?;
        let meta = params.meta()?;
        let era = Era::Legacy;
        let request = DoorRequest {
            id,
            method: method.into(),
            params,
            meta,
            era,
            source,
            trace_parent: None,
            idempotency_key: None,
        };
        match door.dispatcher.answer(&request, lease.session().request_context(&self.authority))? {
            DispatchReply::Result(result) => Ok(Some(result)),
            DispatchReply::Deferred(deferred) => await_deferred(door, lease.session(), deferred).await.map(Some),
            DispatchReply::Running(running) => {
                self.running.push(running);
                Ok(None)
            }
            DispatchReply::Initialize(_) | DispatchReply::Listen(_) => {
                Err(ProtocolFault::method_not_found(era, method))
            }
        }
    }

    fn deliver<G>(
        self,
        door: &HttpDoor<G>,
        http_request: &AuthenticatedRequest,
        lease: HttpSessionLease,
    ) -> DoorResponse {
        if self.running.is_empty() {
            return match self.answers.as_slice() {
                [] => empty(StatusCode::ACCEPTED),
                answers => json(envelope::batch(answers)),
            };
        }
        let draining = Arc::clone(&http_request.draining);
        let (number, connected) = lease.session().replay_buffer.open_answer();
        for answer in self.answers {
            lease.session().replay_buffer.send(number, answer);
        }
        let answers = AnswerStream::new(lease.clone_lease(), number);
        for running in self.running {
            tokio::spawn(std::sync::Arc::clone(&answers).carry(running, draining.give_up.clone()));
        }
        stream::session(connected, lease, draining, door.keep_alive)
    }
}

/// The error for a batch outside a session of that revision.
fn not_a_message(bytes: &[u8]) -> ProtocolFault {
    match Message::parse(bytes) {
        Err(error) => ProtocolFault::from_envelope_error(&error),
        Ok(_) => ProtocolFault::internal("a batch is not a single message"),
    }
}
