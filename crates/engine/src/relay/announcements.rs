//! Passes the announcements of upstreams on to requesters, with exposed URIs and our task ids. Each upstream of a world has one follower,
//! and its catalog has another.

use std::{
    collections::BTreeSet,
    sync::{Arc, Weak},
};

use serde_json::value::RawValue;
use servanda_upstream::Announcement;
use tokio::sync::broadcast::error::RecvError;

use super::InquiryRelay;
use crate::{
    client::ChangeEvent,
    deferred::upstream_tasks,
    world::{UpstreamMember, WorldSnapshot},
};

/// Follows a world's changes until the world is replaced and its last call has ended.
pub(crate) fn follow(relay: &Arc<InquiryRelay>, snapshot: &Arc<WorldSnapshot>) {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    runtime.spawn(follow_catalog(Arc::downgrade(relay), snapshot));
    for member in snapshot.members() {
        runtime.spawn(follow_member(Arc::downgrade(relay), snapshot, Arc::clone(member)));
    }
}

fn follow_catalog(relay: Weak<InquiryRelay>, snapshot: &WorldSnapshot) -> impl Future<Output = ()> + Send + 'static {
    let (catalog, mut changes, stop) =
        (Arc::clone(&snapshot.catalog), snapshot.catalog.changes(), snapshot.stop.clone());
    let authorities = Arc::clone(&snapshot.authorities);
    async move {
        let mut heard = *changes.borrow_and_update();
        loop {
            tokio::select! {
                said = changes.changed() => if said.is_err() { return },
                () = stop.cancelled() => return,
            }
            let Some(relay) = relay.upgrade() else { return };
            let now = *changes.borrow_and_update();
            let upstreams = catalog.changed_since(heard);
            heard = now;
            relay
                .core
                .announce(ChangeEvent::Tools.for_tenants(authorities.tenants_of(upstreams.iter().map(String::as_str))));
        }
    }
}

fn follow_member(
    relay: Weak<InquiryRelay>,
    snapshot: &WorldSnapshot,
    member: Arc<UpstreamMember>,
) -> impl Future<Output = ()> + Send + 'static {
    let (mut announcements, stop) = (member.server.announcements(), snapshot.stop.clone());
    let tenants = snapshot.authorities.tenants_of([&*member.id]);
    async move {
        loop {
            let said = tokio::select! {
                said = announcements.recv() => said,
                () = stop.cancelled() => return,
            };
            let Some(relay) = relay.upgrade() else { return };
            match said {
                Ok(announcement) => pass_on(&relay, &member, tenants.as_ref(), announcement).await,
                Err(RecvError::Closed) => return,
                // A missed announcement could have been about anything, so everything counts as changed.
                Err(RecvError::Lagged(_)) => {
                    for announcement in
                        [Announcement::ToolsChanged, Announcement::PromptsChanged, Announcement::ResourcesChanged]
                    {
                        pass_on(&relay, &member, tenants.as_ref(), announcement).await;
                    }
                }
            }
        }
    }
}

/// Passes an announcement on to the requesters of these tenants, because they may know that the upstream exists; to all requesters if
/// there are no tenants.
async fn pass_on(
    relay: &Arc<InquiryRelay>,
    member: &Arc<UpstreamMember>,
    tenants: Option<&Arc<BTreeSet<String>>>,
    announcement: Announcement,
) {
    let announce = |news: ChangeEvent| relay.core.announce(news.for_tenants(tenants.cloned()));
    if !matches!(announcement, Announcement::TaskChanged { .. }) {
        relay.core.cache.invalidate(&member.id, &[]);
    }
    match announcement {
        // The catalog announces which tools changed.
        Announcement::ToolsChanged => member.forget_tools(),
        Announcement::PromptsChanged => {
            member.prompts.outdate();
            announce(ChangeEvent::Prompts);
        }
        Announcement::ResourcesChanged => announce(ChangeEvent::Resources),
        Announcement::ResourceUpdated { uri, params } => {
            let exposure = member.exposure();
            let exposed = exposure.member(&params, "uri").and_then(|json| RawValue::from_string(json).ok());
            let params = exposed.map_or(params, Arc::from);
            announce(ChangeEvent::Resource { uri: Arc::from(exposure.uri(&uri)), params });
        }
        Announcement::TaskChanged { task_id, params } => {
            if let Some(news) = upstream_tasks::change_event(&relay.deferred, member, &task_id, &params).await {
                relay.core.announce(news);
            }
        }
    }
}
