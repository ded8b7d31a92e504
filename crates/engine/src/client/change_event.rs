//! What changed, for clients that listen, and which of them may know it. `relay` makes news of what upstreams announce.

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
        /// Which.
        uri: Arc<str>,
        /// The raw `params` of the notification, with that URI.
        params: Arc<RawValue>,
    },
    /// A task.
    Task {
        /// Whose it is.
        owner: Arc<Caller>,
        /// The id we gave it.
        task_id: Arc<str>,
        /// The raw `params` of the notification, with that id.
        params: Arc<RawValue>,
    },
    /// What is news to some tenants only, because the upstream is theirs.
    ForTenants {
        /// Who may know.
        tenants: Arc<BTreeSet<String>>,
        /// What changed.
        news: Arc<ChangeEvent>,
    },
}

impl ChangeEvent {
    /// What that caller may know of it.
    pub fn visible_to(&self, caller: &Caller) -> Option<&Self> {
        match self {
            Self::ForTenants { tenants, news } => tenants.contains(&caller.tenant).then_some(&**news),
            everybodys => Some(everybodys),
        }
    }

    /// The same, for these tenants; for everybody if none are named.
    pub(crate) fn for_tenants(self, tenants: Option<Arc<BTreeSet<String>>>) -> Self {
        match tenants {
            Some(tenants) => Self::ForTenants { tenants, news: Arc::new(self) },
            None => self,
        }
    }
}
