//! Who makes a request, as doors and as upstreams see them. Whether they may make it is decided elsewhere.

use std::sync::{Arc, LazyLock};

use servanda_authority::AuthenticatedCaller;
use servanda_catalog::Viewer;
use servanda_contract::Caller;
use servanda_mcp::{ClientCapabilities, Era, capabilities::TASKS_EXTENSION};
use servanda_upstream::{RequestUser, UpstreamRequester};

/// Who asks, and what they can be asked in turn.
#[derive(Debug, Clone)]
pub struct Requester {
    /// Who.
    pub caller: Caller,
    /// What their credential covers: that of this request, whatever the session began with.
    pub authority: Arc<AuthenticatedCaller>,
    /// The side of the protocol they speak: a modern requester is asked by the answer, a legacy one on the way.
    pub era: Era,
    /// What they can do for servers.
    pub capabilities: ClientCapabilities,
    /// What holds their requests together: the session, the connection, or the principal where there is neither.
    pub affinity: Arc<str>,
}

impl Requester {
    /// As far as what they are offered depends on them.
    pub(crate) fn viewer(&self) -> Viewer<'_> {
        Viewer { era: self.era, capabilities: &self.capabilities }
    }

    /// The local principal, who cannot be asked anything: for one-off commands.
    pub fn local() -> Self {
        Self {
            caller: Caller::local(),
            authority: local_authority(),
            era: Era::Modern,
            capabilities: ClientCapabilities::none(),
            affinity: Arc::from("local"),
        }
    }

    /// The requester as upstreams see it. What is a task to a legacy requester is the gateway's, so that it promises none.
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

/// The caller of a call on record that is taken up again, as upstreams see it: such a caller cannot be asked anything.
pub(crate) fn for_recorded_caller(caller: &Caller) -> UpstreamRequester {
    UpstreamRequester {
        on_behalf_of: Some(RequestUser::Recorded(Arc::new(caller.clone()))),
        ..UpstreamRequester::gateway()
    }
}
