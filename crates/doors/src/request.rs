//! A request as a transport hands it over: its members, still raw, and whose it is. Deliberately not here: how it is
//! answered.

use std::{borrow::Cow, sync::Arc};

use bytes::Bytes;
use http::StatusCode;
use servanda_engine::Requester;
use servanda_mcp::{Era, Id};

use crate::{
    fault::ProtocolFault,
    in_flight::ClientRequestsInFlight,
    params::{Meta, Params},
    session::LegacyClientSession,
};

/// A request of a known era, its members still raw.
#[derive(Debug)]
pub(crate) struct DoorRequest<'a> {
    pub(crate) id: &'a Id,
    pub(crate) method: Cow<'a, str>,
    pub(crate) params: Params<'a>,
    pub(crate) meta: Meta<'a>,
    pub(crate) era: Era,
    /// The bytes that everything was read from; the arguments share them.
    // INVARIANT: `params` borrows from here.
    pub(crate) source: &'a Bytes,
    /// The transport's own trace context, used if the request has none.
    pub(crate) trace_parent: Option<&'a str>,
    /// The transport's own idempotency key.
    pub(crate) idempotency_key: Option<String>,
}

/// Whose request it is.
#[derive(Debug)]
pub(crate) struct DoorRequestContext {
    pub(crate) requester: Requester,
    /// The session of a legacy client that has completed the handshake.
    pub(crate) session: Option<Arc<LegacyClientSession>>,
    /// Where requests can be cancelled by id: not on modern HTTP, where every request stands alone.
    pub(crate) in_flight: Option<Arc<ClientRequestsInFlight>>,
    pub(crate) disconnect_policy: ClientDisconnectPolicy,
}

/// What it means when a client disconnects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientDisconnectPolicy {
    /// The client no longer wants the answer.
    Cancel,
    /// Nothing: the client may come back for the answer.
    KeepRunning,
}

impl DoorRequestContext {
    /// The session, and the requester with the credential of this request, which may differ from that of the session.
    pub(crate) fn into_session(self) -> Result<(Arc<LegacyClientSession>, Requester), ProtocolFault> {
        let no_session = || ProtocolFault::invalid_request(StatusCode::BAD_REQUEST, "this request needs a session");
        Ok((self.session.ok_or_else(no_session)?, self.requester))
    }
}
