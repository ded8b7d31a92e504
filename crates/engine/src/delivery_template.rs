//! What all deliveries of one request to its upstream have in common, however often it is made, and what each one adds.

pub(crate) mod param_headers;

use std::sync::Arc;

use serde_json::value::RawValue;
use servanda_contract::tool::{KeyPlacement, ToolContract};
use servanda_gates::Fenced;
use servanda_mcp::{envelope::to_json, fields::meta};
use servanda_upstream::{
    CallRequirements, Continuation, DispatchLease, RequestOptions, ServerMessageSender, UpstreamRequester,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// What every delivery of one request says.
#[derive(Debug, Clone)]
pub(crate) struct DeliveryTemplate {
    pub(crate) cancel: CancellationToken,
    pub(crate) upstream_requester: UpstreamRequester,
    pub(crate) wants_progress: bool,
    pub(crate) log_level: Option<String>,
    pub(crate) trace_parent: Option<String>,
    pub(crate) meta: Vec<(String, Box<RawValue>)>,
    pub(crate) key_header: Option<(String, String)>,
    pub(crate) entrusted: Option<Arc<CallRequirements>>,
    /// The lease under which its bytes may leave; none if the call is not an effect.
    pub(crate) lease: Option<DispatchLease>,
}

/// What one delivery of a request adds.
#[derive(Debug, Clone)]
pub(crate) struct DeliveryAttempt {
    pub(crate) deadline: Instant,
    pub(crate) messages: Option<ServerMessageSender>,
    pub(crate) continuation: Continuation,
}

impl DeliveryTemplate {
    /// Puts the key of an effect where the upstream takes it, and the operation id beside it. A key that the upstream takes as an argument
    /// is already there.
    pub(crate) fn set_key(&mut self, contract: &ToolContract, fenced: Option<&Fenced>, operation_id: Option<&str>) {
        let Some((fenced, key)) = fenced.and_then(|fenced| Some((fenced, fenced.upstream_key()?))) else { return };
        if !fenced.effect_class().takes_key() {
            return;
        }
        match contract.effect.as_ref().and_then(|effect| effect.key.as_ref()) {
            Some(KeyPlacement::Header(name)) => self.key_header = Some((name.clone(), key.to_owned())),
            Some(KeyPlacement::Meta(name)) => self.set_meta(name, key),
            Some(KeyPlacement::Argument(_)) | None => {}
        }
        if let Some(operation_id) = operation_id {
            self.set_meta(meta::OPERATION_ID, operation_id);
        }
    }

    /// Sets a text in `_meta`, in place of what the caller put there.
    fn set_meta(&mut self, name: &str, text: &str) {
        self.meta.retain(|(other, _)| other != name);
        self.meta.extend(RawValue::from_string(to_json(text)).ok().map(|raw| (name.to_owned(), raw)));
    }

    /// The options of one delivery.
    pub(crate) fn delivery(&self, attempt: DeliveryAttempt) -> RequestOptions {
        let is_first = attempt.continuation.input_responses.is_none() && attempt.continuation.request_state.is_none();
        RequestOptions {
            cancel: self.cancel.clone(),
            requester: self.upstream_requester.clone(),
            server_messages: attempt.messages,
            wants_progress: self.wants_progress,
            log_level: self.log_level.clone(),
            trace_parent: self.trace_parent.clone(),
            meta: self.meta.clone(),
            key_header: self.key_header.clone(),
            continuation: attempt.continuation,
            requirements: self.entrusted.clone(),
            lease: self.lease.clone().map(|lease| if is_first { lease } else { lease.extended() }),
            ..RequestOptions::for_gateway(attempt.deadline)
        }
    }
}
