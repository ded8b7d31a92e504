//! Who makes a request, as doors and as upstreams see them. Whether they may make it is decided elsewhere.

use std::sync::{Arc, LazyLock};

use servanda_authority::AuthenticatedCaller;
use servanda_catalog::Viewer;
use servanda_contract::Caller;
use servanda_mcp::{ClientCapabilities, Era, capabilities::TASKS_EXTENSION};
use servanda_upstream::{RequestUser, UpstreamRequester};

/// Who makes a request, and what they can be asked in turn.
#[derive(Debug, Clone)]
pub struct Requester {
    /// The caller.
    pub caller: Arc<Caller>,
    /// What the credential of this request covers, whatever the session began with.
    pub authority: Arc<AuthenticatedCaller>,
    /// The era of their protocol: a modern requester is asked with the answer, a legacy one while its request runs.
    pub era: Era,
    /// What they can do for servers.
    pub capabilities: ClientCapabilities,
    /// What ties their requests together: the session, the connection, or the principal if there is neither.
    pub affinity: Arc<str>,
}

impl Requester {
    /// The requester as far as the offered tools depend on it.
    pub(crate) fn viewer(&self) -> Viewer<'_> {
        Viewer { era: self.era, capabilities: &self.capabilities }
    }

    /// The local principal, who cannot be asked anything: for one-off commands.
    pub fn local() -> Self {
        Self {
            caller: Arc::new(Caller::local()),
            authority: local_authority(),
            era: Era::Modern,
            capabilities: ClientCapabilities::none(),
            affinity: Arc::from("local"),
        }
    }

    /// The requester as upstreams see it. Tasks of a legacy requester are the gateway's own, so upstreams are promised none.
    pub(crate) fn upstream_requester(&self) -> UpstreamRequester {
        let capabilities = match self.era {
            Era::Legacy => self.capabilities.without_extension(TASKS_EXTENSION),
            Era::Modern => self.capabilities.clone(),
        };
        UpstreamRequester {
            era: self.era,
            capabilities,
            affinity: Arc::clone(&self.affinity),
            on_behalf_of: Some(RequestUser::Holder(Arc::clone(&self.authority))),
        }
    }
}

/// The rights of local mode, made once.
pub fn local_authority() -> Arc<AuthenticatedCaller> {
    static LOCAL: LazyLock<Arc<AuthenticatedCaller>> = LazyLock::new(|| Arc::new(AuthenticatedCaller::local()));
    Arc::clone(&LOCAL)
}

/// The caller of a recorded call that is resumed, as upstreams see it: such a caller cannot be asked anything.
pub(crate) fn for_recorded_caller(caller: &Caller) -> UpstreamRequester {
    UpstreamRequester {
        on_behalf_of: Some(RequestUser::Recorded(Arc::new(caller.clone()))),
        ..UpstreamRequester::gateway()
    }
}
