//! A request as a transport hands it over: the request itself, its members still raw, and whose it is. What it is answered is not
//! known here.

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
    /// The bytes all of it was read from, which arguments share.
    // INVARIANT: `params` borrows from here.
    pub(crate) source: &'a Bytes,
    /// The transport's own trace context, for a request without one.
    pub(crate) trace_parent: Option<&'a str>,
    /// The transport's own word about which operation it is.
    pub(crate) idempotency_key: Option<String>,
}

/// Whose request it is.
#[derive(Debug)]
pub(crate) struct DoorRequestContext {
    pub(crate) requester: Requester,
    /// Of a legacy client that has shaken hands.
    pub(crate) session: Option<Arc<LegacyClientSession>>,
    /// Where ids can be cancelled: not on modern HTTP, where every request stands alone.
    pub(crate) in_flight: Option<Arc<ClientRequestsInFlight>>,
    pub(crate) disconnect_policy: ClientDisconnectPolicy,
}

/// What a client means by going away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientDisconnectPolicy {
    /// That it does not want the answer any more.
    Cancel,
    /// Nothing: it may come back for it.
    KeepRunning,
}

impl DoorRequestContext {
    /// The session, and who asks there: with the credential of this request, which need not be that of the session.
    pub(crate) fn into_session(self) -> Result<(Arc<LegacyClientSession>, Requester), ProtocolFault> {
        let no_session = || ProtocolFault::invalid_request(StatusCode::BAD_REQUEST, "there is no session");
        Ok((self.session.ok_or_else(no_session)?, self.requester))
    }
}
