//! What changed, for clients that listen, and which of them may know it. `relay` makes these events of what upstreams announce.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::value::RawValue;
use servanda_contract::Caller;

/// What changed. URIs are exposed ones.
#[derive(Debug, Clone)]
pub enum ChangeEvent {
    /// The tools, for some requesters at least.
    Tools,
    /// The prompts.
    Prompts,
    /// The resources.
    Resources,
    /// A resource.
    Resource {
        /// Its exposed URI.
        uri: Arc<str>,
        /// The raw `params` of the notification, with that URI.
        params: Arc<RawValue>,
    },
    /// A task.
    Task {
        /// The caller who owns it.
        owner: Arc<Caller>,
        /// The gateway's id for it.
        task_id: Arc<str>,
        /// The raw `params` of the notification, with that id.
        params: Arc<RawValue>,
    },
    /// A change that only some tenants may know of, because the upstream is theirs.
    ForTenants {
        /// The tenants that may know.
        tenants: Arc<BTreeSet<String>>,
        /// What changed.
        news: Arc<ChangeEvent>,
    },
}

impl ChangeEvent {
    /// The event as that caller may know it; none if it may not.
    pub fn visible_to(&self, caller: &Caller) -> Option<&Self> {
        match self {
            Self::ForTenants { tenants, news } => tenants.contains(&caller.tenant).then_some(&**news),
            everybodys => Some(everybodys),
        }
    }

    /// The event for these tenants only; for all tenants if none are named.
    pub(crate) fn for_tenants(self, tenants: Option<Arc<BTreeSet<String>>>) -> Self {
        match tenants {
            Some(tenants) => Self::ForTenants { tenants, news: Arc::new(self) },
            None => self,
        }
    }
}
