//! One server of a world, with what the engine keeps about it: its health, its prompts, and which tools it takes as tasks.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use servanda_catalog::names::ExposedNaming;
use servanda_upstream::{PerformFailure, UpstreamOffer, UpstreamRequester};
use tokio::time::Instant;

use super::{exposure::Exposure, prompt_table::PromptTable, resilience::UpstreamHealth, server::UpstreamServer};

/// One server of a world.
#[derive(Debug)]
pub(crate) struct UpstreamMember {
    pub(crate) id: Arc<str>,
    pub(crate) server: Arc<dyn UpstreamServer>,
    pub(crate) naming: ExposedNaming,
    pub(crate) prompts: PromptTable,
    /// Its recent failures, for the breaker and the retry budget.
    pub(crate) health: UpstreamHealth,
    /// Which tools the server takes as tasks in its legacy era; none until it was asked.
    task_support: Mutex<Option<Arc<ToolTaskSupport>>>,
}

/// The tools that a server takes as tasks.
#[derive(Debug, Default)]
pub(crate) struct ToolTaskSupport {
    /// Tools that it takes only as tasks.
    pub(crate) required: BTreeSet<String>,
    /// Tools that it also takes as tasks.
    pub(crate) optional: BTreeSet<String>,
}

impl UpstreamMember {
    pub(crate) fn new(id: &str, server: Arc<dyn UpstreamServer>, naming: ExposedNaming) -> Self {
        Self {
            id: Arc::from(id),
            server,
            naming,
            prompts: PromptTable::default(),
            health: UpstreamHealth::default(),
            task_support: Mutex::default(),
        }
    }

    /// How its resources are named to requesters.
    pub(crate) fn exposure(&self) -> Exposure<'_> {
        Exposure { naming: self.naming, upstream: &self.id }
    }

    /// The server's offer, if it has this capability.
    pub(crate) async fn offers(
        &self,
        capability: &str,
        deadline: Instant,
    ) -> Result<Option<UpstreamOffer>, PerformFailure> {
        let offer = self.server.offer(deadline).await?;
        let known = has(&offer.capabilities, &[capability]);
        Ok(known.then_some(offer))
    }

    /// The same on the connection of this requester: a server of both eras may offer different things in each.
    pub(crate) async fn offers_to(
        &self,
        upstream_requester: &UpstreamRequester,
        capability: &str,
        deadline: Instant,
    ) -> Result<Option<UpstreamOffer>, PerformFailure> {
        let offer = self.server.offer_to(upstream_requester, deadline).await?;
        let known = has(&offer.capabilities, &[capability]);
        Ok(known.then_some(offer))
    }

    /// Which tools it takes as tasks, if that is known.
    pub(crate) fn task_support(&self) -> Option<Arc<ToolTaskSupport>> {
        self.task_support.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn learn_task_support(&self, support: Arc<ToolTaskSupport>) {
        *self.task_support.lock().unwrap_or_else(PoisonError::into_inner) = Some(support);
    }

    /// Forgets what was known about its tools, because it may have changed.
    pub(crate) fn forget_tools(&self) {
        *self.task_support.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Whether the capabilities have an object at this path.
pub(crate) fn has(capabilities: &str, path: &[&str]) -> bool {
    let mut text = capabilities;
    for name in path {
        let Ok(object) = serde_json::from_str::<servanda_mcp::RawObject<'_>>(text) else { return false };
        let Some(member) = object.get(name) else { return false };
        text = member.get();
    }
    text.starts_with('{')
}
