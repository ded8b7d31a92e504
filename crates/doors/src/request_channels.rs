//! Reads the terms of a request from its `_meta`, and sets up the channels on which the messages before its answer
//! reach the client.

use std::sync::Arc;

use servanda_engine::{ClientMessage, RequestTerms};
use servanda_mcp::Era;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::{
    client_messages::{ClientLogFilter, ClientMessageAudience, ClientMessageRelay},
    fault::ProtocolFault,
    params,
    request::DoorRequest,
    session::LegacyClientSession,
};

/// Messages that a slow reader may be behind; further ones are dropped, which the protocol allows.
const CLIENT_MESSAGES_MAX: usize = 64;

/// Both ends of a request's message channel.
#[derive(Debug)]
pub(crate) struct RequestChannels {
    /// For the engine.
    pub(crate) terms: RequestTerms,
    /// For the door.
    pub(crate) client_messages: Option<mpsc::Receiver<ClientMessage>>,
    pub(crate) relay: ClientMessageRelay,
    pub(crate) session: Option<Arc<LegacyClientSession>>,
}

impl RequestChannels {
    /// Takes the session, if there is one.
    pub(crate) fn for_request(
        request: &DoorRequest<'_>,
        session: &mut Option<Arc<LegacyClientSession>>,
    ) -> Result<Self, ProtocolFault> {
        let DoorRequest { meta, params, era, .. } = request;
        let token = meta.progress_token()?;
        let (log_level, input_responses, request_state) = match era {
            Era::Legacy => (None, None, None),
            Era::Modern => (meta.log_level()?, params.input_responses()?, params.request_state()?),
        };
        let (log, hears_anyway) = match (era, log_level) {
            // A legacy session gets its servers' log without asking, and may be asked questions.
            (Era::Legacy, _) => (ClientLogFilter::OfSession, true),
            (Era::Modern, Some(level)) => (ClientLogFilter::From(level), true),
            (Era::Modern, None) => (ClientLogFilter::None, false),
        };
        let (sender, client_messages) =
            (hears_anyway || token.is_some()).then(|| mpsc::channel(CLIENT_MESSAGES_MAX)).unzip();
        let terms = RequestTerms {
            caller_wait_ms: meta.caller_wait_ms()?,
            trace_parent: meta.trace_parent().or_else(|| request.trace_parent.and_then(params::trace_parent)),
            meta: meta.others(),
            wants_progress: token.is_some(),
            log_level: log_level.map(|level| level.as_str().to_owned()),
            messages: sender,
            input_responses,
            request_state,
            cancel: CancellationToken::new(),
            detail: meta.detail()?,
            dry_run: meta.dry_run()?,
        };
        let session = session.take();
        let audience =
            ClientMessageAudience { progress_token: token.map(str::to_owned), log, session: session.clone() };
        Ok(Self { terms, client_messages, relay: ClientMessageRelay::new(audience), session })
    }
}
