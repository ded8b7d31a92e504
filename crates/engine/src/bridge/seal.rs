//! The seal on what a modern client carries for the gateway between two rounds of a conversation (`requestState`).
//!
//! A client may read what it carries. It cannot change it, lend it to another principal or to another of its agents, keep it for long, or
//! use it with another request. Deliberately not here: that a state is used only once, which `Bridge::spend` ensures.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{Hmac, Mac as _};
use serde::{Deserialize, Serialize};
use servanda_contract::{CallId, Caller, CallerActor, Digest, Timestamp};
use servanda_effects::{JournalError, Notebook, effect::ClientKey};
use servanda_mcp::{RpcError, envelope::code};
use sha2::Sha256;

use crate::secrets::NotebookSecret;

/// The version of the sealed payload.
const VERSION: u32 = 1;
/// Separates this use of the key from any other.
const DOMAIN: &[u8] = b"servanda/request-state/v1\0";
/// The name of the note that holds the key.
const KEY_NOTE: &str = "request-state";
/// The longest state that is read: an upstream's own state is inside, and that is no longer than one of its messages.
const STATE_BYTES_MAX: usize = 32 << 20;

/// The key. Every process that shares the notebook has the same.
pub(crate) struct Seal {
    key: NotebookSecret,
}

/// What a client carries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RequestStatePayload {
    version: u32,
    tenant: String,
    principal: String,
    /// Who acted for the principal, the last actor first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    actors: Vec<CallerActor>,
    expires_at: Timestamp,
    request: Digest,
    /// The first call of the conversation, if it is a conversation of calls.
    pub(crate) first_call: Option<CallId>,
    /// What the state is for.
    pub(crate) purpose: StatePurpose,
}

/// What a carried state is for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StatePurpose {
    /// A round of a modern upstream.
    Round {
        /// The upstream's id.
        upstream: String,
        /// Identifies this state, so that it can be used up.
        nonce: String,
        /// The upstream's own state, if it had any.
        state: Option<String>,
        /// The operation that the state belongs to, if it is a tool's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<ClientKey>,
    },
    /// A call whose client shows the page of its ticket. It carries no right: the ticket says what people decided.
    ApprovalPage {
        /// The ticket, for people who read the state.
        ticket: String,
    },
    /// A parked request at a legacy upstream.
    Parked {
        /// The id of the parked request.
        id: String,
    },
}

/// Who may use a state, with which request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StateAudience<'a> {
    pub(crate) caller: &'a Caller,
    pub(crate) request: Digest,
}

/// A state that is not accepted. It does not say what is wrong, so that a forger does not learn how far they came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InvalidRequestState(());

impl RequestStatePayload {
    pub(crate) fn new(
        bearer: StateAudience<'_>,
        expires_at: Timestamp,
        first_call: Option<CallId>,
        purpose: StatePurpose,
    ) -> Self {
        Self {
            version: VERSION,
            tenant: bearer.caller.tenant.clone(),
            principal: bearer.caller.principal.clone(),
            actors: bearer.caller.actors.clone(),
            expires_at,
            request: bearer.request,
            first_call,
            purpose,
        }
    }

    fn caller(&self) -> Caller {
        Caller { actors: self.actors.clone(), ..Caller::named(&self.tenant, &self.principal) }
    }

    fn is_for(&self, bearer: StateAudience<'_>, now: Timestamp) -> bool {
        self.version == VERSION
            && self.caller().is_same_party(bearer.caller)
            && self.request == bearer.request
            && now < self.expires_at
    }
}

impl Seal {
    /// The key from the notebook, made if there is none yet. If two processes make one at once, one of them wins.
    pub(crate) async fn load(notebook: &dyn Notebook) -> Result<Self, JournalError> {
        NotebookSecret::load(notebook, KEY_NOTE).await.map(|key| Self { key })
    }

    /// The text that the client carries.
    pub(crate) fn sign(&self, carried: &RequestStatePayload) -> String {
        let payload = URL_SAFE_NO_PAD.encode(serde_json::to_vec(carried).unwrap_or_default());
        let code = URL_SAFE_NO_PAD.encode(self.mac(&payload).finalize().into_bytes());
        format!("{payload}.{code}")
    }

    /// What the client carried, if this gateway sealed it and it is still valid for this bearer.
    pub(crate) fn verify(
        &self,
        text: &str,
        bearer: StateAudience<'_>,
        now: Timestamp,
    ) -> Result<RequestStatePayload, InvalidRequestState> {
        let not_taken = InvalidRequestState(());
        let (payload, code) = Some(text)
            .filter(|text| text.len() <= STATE_BYTES_MAX)
            .and_then(|text| text.split_once('.'))
            .ok_or(not_taken)?;
        let code = URL_SAFE_NO_PAD.decode(code).map_err(|_| not_taken)?;
        // Checked in constant time, and before anything else is read.
        self.mac(payload).verify_slice(&code).map_err(|_| not_taken)?;
        let payload = URL_SAFE_NO_PAD.decode(payload).map_err(|_| not_taken)?;
        let carried: RequestStatePayload = serde_json::from_slice(&payload).map_err(|_| not_taken)?;
        if carried.is_for(bearer, now) { Ok(carried) } else { Err(not_taken) }
    }

    fn mac(&self, payload: &str) -> Hmac<Sha256> {
        self.key.hmac().chain_update(DOMAIN).chain_update(payload)
    }
}

impl From<InvalidRequestState> for RpcError {
    fn from(_: InvalidRequestState) -> Self {
        Self::new(code::INVALID_PARAMS, "the `requestState` is not valid for this request, or it has expired").with_hint(
            "send it back exactly as it came, with the same request and before it expires; otherwise make the request anew",
        )
    }
}

impl fmt::Debug for Seal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Seal")
    }
}

#[cfg(test)]
mod tests;
