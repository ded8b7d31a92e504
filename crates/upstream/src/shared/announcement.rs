//! What a server says to all clients: read from its notifications and broadcast.
//!
//! While there was no connection or no stream, announcements may have been missed, so everything that could have been announced then is
//! announced afterwards.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use servanda_mcp::fields::method;
use tokio::sync::{broadcast, watch};

use crate::Announcement;

/// How many announcements a slow receiver may lag behind.
const ANNOUNCEMENTS_MAX: usize = 256;

/// Where announcements go.
#[derive(Debug)]
pub(crate) struct AnnouncementBus {
    changes: watch::Sender<u64>,
    announcements: broadcast::Sender<Announcement>,
}

/// The announcement in a notification, if it contains one.
pub(crate) fn read(method: &str, params: Option<&RawValue>) -> Option<Announcement> {
    match method {
        method::TOOLS_LIST_CHANGED => Some(Announcement::ToolsChanged),
        method::PROMPTS_LIST_CHANGED => Some(Announcement::PromptsChanged),
        method::RESOURCES_LIST_CHANGED => Some(Announcement::ResourcesChanged),
        method::RESOURCES_UPDATED => {
            #[derive(Deserialize)]
            struct ResourceUpdatedParams {
                uri: String,
            }
            let ResourceUpdatedParams { uri } = serde_json::from_str(params?.get()).ok()?;
            Some(Announcement::ResourceUpdated { uri, params: Arc::from(params?.to_owned()) })
        }
        method::TASKS_NOTIFICATION | method::TASKS_STATUS => {
            #[derive(Deserialize)]
            struct TaskChangedParams {
                #[serde(rename = "taskId")]
                task_id: String,
            }
            let TaskChangedParams { task_id } = serde_json::from_str(params?.get()).ok()?;
            Some(Announcement::TaskChanged { task_id, params: Arc::from(params?.to_owned()) })
        }
        _ => None,
    }
}

impl Default for AnnouncementBus {
    fn default() -> Self {
        Self { changes: watch::Sender::new(0), announcements: broadcast::Sender::new(ANNOUNCEMENTS_MAX) }
    }
}

impl AnnouncementBus {
    pub(crate) fn announce(&self, announcement: Announcement) {
        if matches!(announcement, Announcement::ToolsChanged) {
            self.changes.send_modify(|changes| *changes = changes.wrapping_add(1));
        }
        let _ = self.announcements.send(announcement);
    }

    /// Announces that every list may have changed.
    pub(crate) fn announce_lists(&self) {
        for announcement in [Announcement::ToolsChanged, Announcement::PromptsChanged, Announcement::ResourcesChanged] {
            self.announce(announcement);
        }
    }

    /// Announces that these resources may have changed.
    pub(crate) fn announce_resources<'a>(&self, uris: impl IntoIterator<Item = &'a String>) {
        for uri in uris {
            if let Ok(params) = to_raw_value(&serde_json::json!({ "uri": uri })) {
                self.announce(Announcement::ResourceUpdated { uri: uri.clone(), params: Arc::from(params) });
            }
        }
    }

    pub(crate) fn announcements(&self) -> broadcast::Receiver<Announcement> {
        self.announcements.subscribe()
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notifications_are_read() {
        let table = [
            ("notifications/tools/list_changed", None, "ToolsChanged"),
            ("notifications/prompts/list_changed", Some("{}"), "PromptsChanged"),
            ("notifications/resources/list_changed", Some("7"), "ResourcesChanged"),
            ("notifications/resources/updated", Some(r#"{"uri":"a://b"}"#), r#"ResourceUpdated { uri: "a://b""#),
            ("notifications/tasks", Some(r#"{"taskId":"t"}"#), r#"TaskChanged { task_id: "t""#),
            ("notifications/tasks/status", Some(r#"{"taskId":"t"}"#), r#"TaskChanged { task_id: "t""#),
            ("notifications/resources/updated", None, "nothing"),
            ("notifications/tasks", Some(r#"{"taskId":7}"#), "nothing"),
            ("notifications/elsewhere", None, "nothing"),
        ];
        for (method, params, expected) in table {
            let params = params.map(|params| RawValue::from_string(params.to_owned()).unwrap());
            let announcement = read(method, params.as_deref());
            let shown = announcement.map_or_else(|| "nothing".to_owned(), |announcement| format!("{announcement:?}"));
            assert!(shown.starts_with(expected), "{method}: {shown}");
        }
    }

    #[test]
    fn only_changes_of_the_tools_are_counted() {
        let news = AnnouncementBus::default();
        let (changes, mut announcements) = (news.changes(), news.announcements());
        news.announce_lists();
        news.announce_resources(&["a://b".to_owned()]);
        assert_eq!(*changes.borrow(), 1);
        let mut said = 0;
        while announcements.try_recv().is_ok() {
            said += 1;
        }
        assert_eq!(said, 4);
    }
}
