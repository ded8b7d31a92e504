//! `subscriptions/listen`: what is granted, and the messages of a subscription. Who carries them, and until when, is the
//! business of each door.

use serde::Deserialize;
use servanda_mcp::{
    Id,
    envelope::to_json,
    fields::{meta, method},
};
use tokio::sync::watch;

use crate::{fault::Fault, params::Params, splice};

/// A granted subscription.
#[derive(Debug, Clone)]
pub(crate) struct Subscription {
    /// The request's id in JSON, which tags every message.
    id: String,
    result: Vec<u8>,
    /// Whether changes of the tool list were asked for: the only thing there is to hear about in this version.
    pub(crate) tools_list_changed: bool,
}

#[derive(Deserialize)]
struct Filter {
    #[serde(default, rename = "toolsListChanged")]
    tools_list_changed: bool,
}

impl Subscription {
    pub(crate) fn grant(id: &Id, params: &Params<'_>, meta_member: &str) -> Result<Self, Fault> {
        let filter = params.notifications.filter(|raw| raw.get().starts_with('{'));
        let filter: Filter = filter
            .and_then(|raw| serde_json::from_str(raw.get()).ok())
            .ok_or_else(|| Fault::invalid_params("`notifications` must be an object of the kinds wanted"))?;
        let tag = format!("{}:{}", to_json(meta::SUBSCRIPTION_ID), to_json(id));
        let result = splice::response(id, &format!(r#"{{"resultType":"complete","_meta":{{{tag},{meta_member}}}}}"#));
        Ok(Self { id: to_json(id), result, tools_list_changed: filter.tools_list_changed })
    }

    /// The first message: which of the wanted kinds will come.
    pub(crate) fn acknowledgement(&self) -> Vec<u8> {
        let granted = if self.tools_list_changed { r#"{"toolsListChanged":true}"# } else { "{}" };
        self.notification(method::SUBSCRIPTIONS_ACKNOWLEDGED, &format!(r#","notifications":{granted}"#))
    }

    /// The tool list changed.
    pub(crate) fn list_changed(&self) -> Vec<u8> {
        self.notification(method::TOOLS_LIST_CHANGED, "")
    }

    /// The last message, when it is us who end it: the answer to the request.
    pub(crate) fn farewell(&self) -> Vec<u8> {
        self.result.clone()
    }

    fn notification(&self, method: &str, members: &str) -> Vec<u8> {
        let tag = to_json(meta::SUBSCRIPTION_ID);
        format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{{"_meta":{{{tag}:{}}}{members}}}}}"#, self.id)
            .into_bytes()
    }
}

/// The tool list changed, as legacy clients hear it.
pub(crate) fn legacy_list_changed() -> Vec<u8> {
    format!(r#"{{"jsonrpc":"2.0","method":"{}"}}"#, method::TOOLS_LIST_CHANGED).into_bytes()
}

/// Waits for a change of the tool list; forever once nobody can make one. Cancel safe.
pub(crate) async fn changed(changes: &mut watch::Receiver<u64>) {
    if changes.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}
