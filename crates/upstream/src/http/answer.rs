//! Reads the answer from an HTTP response, bounded: a JSON body, or the event of a stream that has our id. Reading stops there. A legacy
//! stream that ends before the answer is resumed if the server allows it.

mod refusal;

use bytes::Bytes;
use hyper::{StatusCode, header::WWW_AUTHENTICATE};
use servanda_mcp::{Era, Id, Message, lines::grow};

use self::refusal::{ProtocolAgreement, ends_agreement, failure_from_response, retry_after_ms};
use super::{
    address::HttpAddress,
    content_type::{ContentType, content_type},
    resume::{self, ResumeOutcome},
    sse::EventReader,
};
use crate::{
    CredentialRejection, PerformFailure,
    conversation::{
        Conversations,
        loss::{ConnectionLoss, LossReason},
        server_error::failure_from_rpc_error,
    },
    http_client::{HttpError, UpstreamResponse},
    request::ExchangeEnd,
    shared::SharedContext,
};

/// How much of a `WWW-Authenticate` challenge is kept.
const CHALLENGE_CHARS_MAX: usize = 8 * 1024;
/// How much memory is reserved at once for an answer whose length the server declares. A longer one gets the rest as it arrives.
const BODY_BYTES_RESERVED_MAX: usize = 4 * 1024 * 1024;
/// How much of an error's body is read.
const ERROR_BYTES_MAX: usize = 64 * 1024;

/// The request that the answer is read for, and its connection.
pub(super) struct AnswerReader<'a> {
    pub(super) id: i64,
    pub(super) context: &'a SharedContext,
    pub(super) address: &'a HttpAddress,
    pub(super) conversations: &'a Conversations,
    pub(super) loss: &'a ConnectionLoss,
    /// The era that was agreed on; none during the handshake.
    pub(super) agreed: Option<Era>,
}

/// How reading one segment of a stream ended.
enum StreamSegmentEnd {
    /// With the answer.
    Answered(Result<Bytes, PerformFailure>),
    /// Before it.
    Ended {
        /// How.
        why: String,
    },
}

impl AnswerReader<'_> {
    /// Reads the response and returns how the request ended.
    pub(super) async fn read(&self, response: UpstreamResponse) -> ExchangeEnd {
        let status = response.status();
        if !status.is_success() {
            // Boxed, here and below, because it is rare and would make the future of every request larger.
            return Box::pin(self.read_refusal(response)).await;
        }
        let outcome = match content_type(&response) {
            ContentType::EventStream => self.read_events(response).await,
            ContentType::Json => self.read_json(response).await,
            ContentType::Other => {
                Err(PerformFailure::malformed(format!("HTTP status {} with neither JSON nor events", status.as_u16())))
            }
        };
        outcome.map_or_else(ExchangeEnd::Failed, ExchangeEnd::Answered)
    }

    async fn read_refusal(&self, response: UpstreamResponse) -> ExchangeEnd {
        let status = response.status();
        let retry_after_ms = retry_after_ms(status, response.headers());
        let rejection = self.rejection(&response);
        let body = self.context.redaction.clean(&read_beginning(response).await.into());
        let failure =
            failure_from_response(status, retry_after_ms, &body, self.id, self.era(), &self.context.redaction);
        if let Some(rejection) = rejection {
            return ExchangeEnd::NotLetIn { failure, rejection };
        }
        let in_session = self.address.in_session();
        let agreement = self.agreed.map(|era| ProtocolAgreement { era, in_session });
        let disowned = agreement.is_some_and(|agreement| ends_agreement(agreement, status, &failure));
        if disowned { ExchangeEnd::Disowned(failure) } else { ExchangeEnd::Failed(failure) }
    }

    /// How the server rejected the credentials, if it was shown any.
    fn rejection(&self, response: &UpstreamResponse) -> Option<CredentialRejection> {
        let status = response.status();
        let refused = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        if !refused || self.context.credentials.is_none() {
            return None;
        }
        let fields = response.headers().get_all(WWW_AUTHENTICATE).into_iter();
        let fields: Vec<&str> = fields.filter_map(|field| field.to_str().ok()).collect();
        let joined = self.context.redaction.remove(&fields.join(", "));
        let www_authenticate = (!joined.is_empty()).then(|| joined.chars().take(CHALLENGE_CHARS_MAX).collect());
        Some(CredentialRejection { status: status.as_u16(), www_authenticate, rejected_before: 0 })
    }

    fn era(&self) -> Era {
        self.agreed.unwrap_or(Era::Legacy)
    }

    async fn read_json(&self, response: UpstreamResponse) -> Result<Bytes, PerformFailure> {
        let body = self.read_body(response).await?;
        match self.recognise(&body) {
            Some(outcome) => outcome,
            None => Err(PerformFailure::malformed("the body is not an answer to the request")),
        }
    }

    async fn read_body(&self, mut response: UpstreamResponse) -> Result<Bytes, PerformFailure> {
        let bytes_max = self.context.spec.limits.message_bytes_max;
        let too_large = || PerformFailure::TooLarge { bytes_max };
        let announced = response.content_length().and_then(|length| usize::try_from(length).ok());
        if announced.is_some_and(|length| length > bytes_max) {
            return Err(too_large());
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await {
            let chunk = chunk.map_err(|error| self.lost(&error))?;
            if body.is_empty() {
                if Some(chunk.len()) == announced {
                    return Ok(chunk);
                }
                body.reserve_exact(announced.unwrap_or_default().min(BODY_BYTES_RESERVED_MAX));
            }
            let length = body.len() + chunk.len();
            if length > bytes_max {
                return Err(too_large());
            }
            grow(&mut body, length, bytes_max);
            body.extend_from_slice(&chunk);
        }
        Ok(body.into())
    }

    async fn read_events(&self, response: UpstreamResponse) -> Result<Bytes, PerformFailure> {
        let mut events = EventReader::new(self.context.spec.limits.message_bytes_max);
        let mut stretch = response;
        let mut fruitless = 0;
        loop {
            let before = events.last_id().map(ToOwned::to_owned);
            match self.read_segment(stretch, &mut events).await {
                StreamSegmentEnd::Answered(outcome) => return outcome,
                StreamSegmentEnd::Ended { why } => {
                    let came_on = events.last_id() != before.as_deref();
                    fruitless = if came_on { 0 } else { resume::attempts_after_empty_stream(fruitless) };
                    stretch = Box::pin(self.resume(&mut events, &mut fruitless, why)).await?;
                }
            }
        }
    }

    async fn read_segment(&self, mut response: UpstreamResponse, events: &mut EventReader) -> StreamSegmentEnd {
        let bytes_max = self.context.spec.limits.message_bytes_max;
        while let Some(chunk) = response.chunk().await {
            let chunk = match chunk {
                Ok(chunk) => chunk,
                Err(error) => return StreamSegmentEnd::Ended { why: self.context.redaction.quote(&error.to_string()) },
            };
            let mut found = None;
            let read = events.read(&chunk, |event| {
                // Servers begin with an event that has an id and no data, so that there is a position to resume at.
                if !event.data.is_empty() {
                    found = self.recognise(&event.data);
                }
                found.is_none()
            });
            if let Some(outcome) = found {
                response.let_end();
                return StreamSegmentEnd::Answered(outcome);
            }
            if read.is_err() {
                return StreamSegmentEnd::Answered(Err(PerformFailure::TooLarge { bytes_max }));
            }
        }
        StreamSegmentEnd::Ended { why: "the stream ended before the answer".to_owned() }
    }

    /// The rest of the stream, for as long as the request is awaited; or the failure if the stream cannot be resumed.
    async fn resume(
        &self,
        events: &mut EventReader,
        fruitless: &mut u32,
        why: String,
    ) -> Result<UpstreamResponse, PerformFailure> {
        if self.agreed != Some(Era::Legacy) || events.last_id().is_none() {
            return Err(PerformFailure::Died { why });
        }
        loop {
            tokio::time::sleep(resume::pause(events, *fruitless)).await;
            match resume::open(self.address, events).await {
                ResumeOutcome::Stream(response) => {
                    events.resume();
                    return Ok(response);
                }
                ResumeOutcome::NotNow => *fruitless += 1,
                ResumeOutcome::Disowned => {
                    self.loss.report(LossReason::Disowned);
                    return Err(PerformFailure::Died { why: format!("{why}, and the session is gone") });
                }
                ResumeOutcome::Refused { why: refusal } => {
                    return Err(PerformFailure::Died { why: format!("{why}, and resuming it failed: {refusal}") });
                }
            }
        }
    }

    /// The outcome, if the message is the answer. Other messages are passed on or skipped.
    fn recognise(&self, bytes: &Bytes) -> Option<Result<Bytes, PerformFailure>> {
        let ours = |id: &Id| *id == Id::Number(self.id);
        let bytes = &self.context.sanitize(bytes);
        match Message::parse(bytes) {
            Ok(Message::Response { id, result }) if ours(&id) => Some(Ok(bytes.slice_ref(result.get().as_bytes()))),
            Ok(Message::Failure { id, error }) if id.as_ref().is_none_or(ours) => {
                Some(Err(failure_from_rpc_error(error, self.era(), &self.context.redaction)))
            }
            Ok(Message::Notification { method, params }) => {
                self.conversations.on_notification(&method, params, Some(self.id));
                None
            }
            Ok(Message::Request { id, method, params }) => {
                self.conversations.on_request(&id, &method, params, Some(self.id));
                None
            }
            Ok(Message::Response { .. } | Message::Failure { .. }) => None,
            Err(servanda_mcp::EnvelopeError::NotAMessage { id: Some(id), reason }) if ours(&id) => {
                Some(Err(PerformFailure::malformed(reason)))
            }
            Err(error) => {
                tracing::debug!(upstream = %self.context.spec.id, %error, "the server wrote something that is not an MCP message");
                None
            }
        }
    }

    fn lost(&self, error: &HttpError) -> PerformFailure {
        PerformFailure::Died { why: self.context.redaction.quote(&error.to_string()) }
    }
}

async fn read_beginning(mut response: UpstreamResponse) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(Ok(chunk)) = response.chunk().await {
        let room = ERROR_BYTES_MAX - body.len();
        body.extend_from_slice(chunk.get(..room).unwrap_or(&chunk));
        if body.len() >= ERROR_BYTES_MAX {
            break;
        }
    }
    body
}
