//! Reads the answer out of an HTTP response, bounded: a JSON body, or the one event of a stream that has our id. Reading
//! stops there.

mod refusal;

use bytes::Bytes;
use futures_util::StreamExt as _;
use reqwest::{Response, header::CONTENT_TYPE};
use servanda_mcp::{Era, Id, Message, fields::method};

use self::refusal::{Agreement, disowns, refused};
use crate::{
    PerformFailure, RemarkSink,
    connect::Setting,
    delivery::pass_on,
    frame::grow,
    http::describe,
    link::{Ended, progress_token, rejected},
    sse::EventReader,
};

/// How much of an error's body is read.
const ERROR_BYTES_MAX: usize = 64 * 1024;

/// What is read for.
pub(super) struct Reading<'a> {
    pub(super) id: i64,
    pub(super) progress: Option<&'a RemarkSink>,
    pub(super) setting: &'a Setting,
    /// The era that was agreed on; none while agreeing.
    pub(super) agreed: Option<Era>,
    /// Whether there is a legacy session.
    pub(super) in_session: bool,
    /// What is done about the server's own requests.
    pub(super) on_request: &'a (dyn Fn(&Id, &str) + Sync),
}

impl Reading<'_> {
    /// How the request ended.
    pub(super) async fn read(&self, response: Response) -> Ended {
        let status = response.status();
        if !status.is_success() {
            let body = read_beginning(response).await;
            let failure = refused(status, &body, self.id, &self.setting.redaction);
            let agreement = self.agreed.map(|era| Agreement { era, in_session: self.in_session });
            let disowned = agreement.is_some_and(|agreement| disowns(agreement, status, &failure));
            return if disowned { Ended::Disowned(failure) } else { Ended::Failed(failure) };
        }
        let outcome = match content_type(&response) {
            ContentType::EventStream => self.read_events(response).await,
            ContentType::Json => self.read_json(response).await,
            ContentType::Other => {
                Err(PerformFailure::malformed(format!("HTTP status {} with neither JSON nor events", status.as_u16())))
            }
        };
        outcome.map_or_else(Ended::Failed, Ended::Answered)
    }

    async fn read_json(&self, response: Response) -> Result<Bytes, PerformFailure> {
        let body = self.read_body(response).await?;
        match self.recognise(&body) {
            Some(outcome) => outcome,
            None => Err(PerformFailure::malformed("the body is not an answer to the request")),
        }
    }

    async fn read_body(&self, response: Response) -> Result<Bytes, PerformFailure> {
        let bytes_max = self.setting.spec.limits.message_bytes_max;
        let too_large = || PerformFailure::TooLarge { bytes_max };
        let announced = response.content_length().and_then(|length| usize::try_from(length).ok());
        if announced.is_some_and(|length| length > bytes_max) {
            return Err(too_large());
        }
        let mut chunks = response.bytes_stream();
        let mut body = Vec::new();
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|error| self.lost(&error))?;
            if body.is_empty() && Some(chunk.len()) == announced {
                return Ok(chunk);
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

    async fn read_events(&self, response: Response) -> Result<Bytes, PerformFailure> {
        let bytes_max = self.setting.spec.limits.message_bytes_max;
        let mut events = EventReader::new(bytes_max);
        let mut chunks = response.bytes_stream();
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|error| self.lost(&error))?;
            let mut found = None;
            let read = events.read(&chunk, |event| {
                found = self.recognise(&Bytes::from(event));
                found.is_none()
            });
            if let Some(outcome) = found {
                return outcome;
            }
            read.map_err(|_| PerformFailure::TooLarge { bytes_max })?;
        }
        Err(PerformFailure::Died { why: "the stream ended before the answer".to_owned() })
    }

    /// The outcome, if the message is the answer. Everything else is passed on or skipped.
    fn recognise(&self, bytes: &Bytes) -> Option<Result<Bytes, PerformFailure>> {
        let ours = |id: &Id| *id == Id::Number(self.id);
        match Message::parse(bytes) {
            Ok(Message::Response { id, result }) if ours(&id) => Some(Ok(bytes.slice_ref(result.get().as_bytes()))),
            Ok(Message::Failure { id, error }) if id.as_ref().is_none_or(ours) => {
                Some(Err(rejected(error, &self.setting.redaction)))
            }
            Ok(Message::Notification { method, params: Some(params) }) if method == method::PROGRESS => {
                if let Some(sink) = self.progress
                    && progress_token(params) == Some(self.id)
                {
                    pass_on(sink, params);
                }
                None
            }
            Ok(Message::Notification { method, .. }) => {
                if method == method::TOOLS_LIST_CHANGED {
                    self.setting.announce_change();
                }
                None
            }
            Ok(Message::Request { id, method, .. }) => {
                (self.on_request)(&id, &method);
                None
            }
            Ok(Message::Response { .. } | Message::Failure { .. }) => None,
            Err(servanda_mcp::EnvelopeError::NotAMessage { id: Some(id), reason }) if ours(&id) => {
                Some(Err(PerformFailure::malformed(reason)))
            }
            Err(error) => {
                tracing::debug!(upstream = %self.setting.spec.id, %error, "the server wrote what is not an MCP message");
                None
            }
        }
    }

    fn lost(&self, error: &reqwest::Error) -> PerformFailure {
        PerformFailure::Died { why: self.setting.redaction.quote(&describe(error)) }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum ContentType {
    Json,
    EventStream,
    Other,
}

pub(super) fn content_type(response: &Response) -> ContentType {
    let value = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match essence.as_str() {
        "application/json" => ContentType::Json,
        "text/event-stream" => ContentType::EventStream,
        _ => ContentType::Other,
    }
}

async fn read_beginning(response: Response) -> Vec<u8> {
    let mut chunks = response.bytes_stream();
    let mut body = Vec::new();
    while let Some(Ok(chunk)) = chunks.next().await {
        let room = ERROR_BYTES_MAX - body.len();
        body.extend_from_slice(chunk.get(..room).unwrap_or(&chunk));
        if body.len() >= ERROR_BYTES_MAX {
            break;
        }
    }
    body
}
