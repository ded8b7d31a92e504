//! The gateway's change events as doors receive them, and what legacy clients are told of them.

use serde_json::value::RawValue;
use servanda_contract::Caller;
use servanda_engine::ChangeEvent;
use servanda_mcp::{envelope::to_json, fields::method};
use tokio::sync::broadcast;

/// How much of a server's parameters about a change is passed on; the protocol itself needs only the resource's name.
const UPDATE_BYTES_MAX: usize = 64 * 1024;

/// What was received.
#[derive(Debug, Clone)]
pub(crate) enum Notifications {
    /// One thing changed.
    One(ChangeEvent),
    /// So many events came that some were missed: anything may have changed.
    Anything,
}

/// Waits for the next event; forever once there can be none. Cancel safe.
pub(crate) async fn next(news: &mut broadcast::Receiver<ChangeEvent>) -> Notifications {
    match news.recv().await {
        Ok(one) => Notifications::One(one),
        Err(broadcast::error::RecvError::Lagged(_)) => Notifications::Anything,
        Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
    }
}

impl Notifications {
    /// The part that this caller may know.
    pub(crate) fn visible_to(&self, caller: &Caller) -> Option<Self> {
        match self {
            Self::One(news) => news.visible_to(caller).cloned().map(Self::One),
            Self::Anything => Some(Self::Anything),
        }
    }

    /// The methods of the lists that changed, for a caller that may know all of it.
    pub(crate) fn changed_lists(&self) -> &'static [&'static str] {
        match self {
            Self::One(ChangeEvent::Tools) => &[method::TOOLS_LIST_CHANGED],
            Self::One(ChangeEvent::Prompts) => &[method::PROMPTS_LIST_CHANGED],
            Self::One(ChangeEvent::Resources) => &[method::RESOURCES_LIST_CHANGED],
            Self::One(ChangeEvent::Resource { .. } | ChangeEvent::Task { .. } | ChangeEvent::ForTenants { .. }) => &[],
            Self::Anything => {
                &[method::TOOLS_LIST_CHANGED, method::PROMPTS_LIST_CHANGED, method::RESOURCES_LIST_CHANGED]
            }
        }
    }

    /// Which of the watched resources changed: the parameters of their notifications.
    pub(crate) fn updates<'a>(&self, watched: impl Iterator<Item = &'a str>) -> Vec<Box<RawValue>> {
        match self {
            Self::One(ChangeEvent::Resource { uri, params }) => {
                let mut watched = watched;
                let updated = watched.find(|watched| *watched == &**uri);
                let told = updated.and_then(|uri| match params.get().len() {
                    0..=UPDATE_BYTES_MAX => Some((**params).to_owned()),
                    // The change is reported even if the server's parameters are too large to pass on.
                    _ => resource_params(uri),
                });
                told.into_iter().collect()
            }
            Self::One(_) => Vec::new(),
            Self::Anything => watched.filter_map(resource_params).collect(),
        }
    }
}

fn resource_params(uri: &str) -> Option<Box<RawValue>> {
    RawValue::from_string(format!(r#"{{"uri":{}}}"#, to_json(uri))).ok()
}
