//! `subscriptions/listen`: what a client asks for, what it is granted, and the messages of its subscription. Each door
//! decides how the messages travel, and until when.

use std::{collections::BTreeMap, sync::Arc};

use serde::Deserialize;
use serde_json::{json, value::RawValue};
use servanda_contract::Caller;
use servanda_engine::{ChangeEvent, Gateway, Requester, ResourceWatchGuard};
use servanda_mcp::{
    Id,
    capabilities::TASKS_EXTENSION,
    envelope::{self, to_json},
    fields::{meta, method},
    task,
};

use crate::{
    fault::ProtocolFault,
    limits::DispatchLimits,
    notifications::Notifications,
    params::{Params, require_short},
    splice,
};

/// The changes that a client wants to be told of.
#[derive(Debug)]
pub(crate) struct ListenRequest {
    id: Id,
    filter: ListenFilter,
    requester: Requester,
}

/// A granted subscription.
#[derive(Debug)]
pub(crate) struct ListenSubscription {
    id: Id,
    /// The request's id in JSON, which tags every message.
    tag: String,
    /// The lists and tasks that the client wants.
    filter: ListenFilter,
    /// The resources that are watched for as long as this subscription exists.
    watches: BTreeMap<String, ResourceWatchGuard>,
    /// The caller whose tasks the subscription reports.
    caller: Arc<Caller>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListenFilter {
    tools_list_changed: bool,
    prompts_list_changed: bool,
    resources_list_changed: bool,
    resource_subscriptions: Vec<String>,
    /// From the tasks extension.
    task_ids: Option<Vec<String>>,
}

impl ListenRequest {
    /// Reads the filter. It limits how many resources and tasks may be named, and how long their names may be.
    pub(crate) fn parse(
        id: &Id,
        params: &Params<'_>,
        requester: Requester,
        limits: &DispatchLimits,
    ) -> Result<Self, ProtocolFault> {
        let filter = params.notifications.filter(|raw| raw.get().starts_with('{'));
        let filter: ListenFilter = filter.and_then(|raw| serde_json::from_str(raw.get()).ok()).ok_or_else(|| {
            ProtocolFault::invalid_params("`notifications` must be an object that names the kinds you want")
        })?;
        let named_max = limits.watches_max;
        let tasks = filter.task_ids.as_ref().map_or(0, Vec::len);
        if filter.resource_subscriptions.len() > named_max || tasks > named_max {
            return Err(ProtocolFault::invalid_params(format!(
                "`notifications` names more than {named_max} of one kind"
            ))
            .hint("ask for fewer, or in several subscriptions"));
        }
        for uri in &filter.resource_subscriptions {
            require_short(uri, "resourceSubscriptions", limits.uri_bytes_max)?;
        }
        for task_id in filter.task_ids.iter().flatten() {
            require_short(task_id, "taskIds", limits.uri_bytes_max)?;
        }
        if filter.task_ids.is_some() && !requester.capabilities.has_extension(TASKS_EXTENSION) {
            return Err(missing_tasks_extension());
        }
        Ok(Self { id: id.clone(), filter, requester })
    }

    /// Sets up what can be granted. Must not be dropped halfway if the client is to be told, because the watches would
    /// be dropped too.
    pub(crate) async fn grant<G: Gateway>(self, gateway: &G) -> ListenSubscription {
        let Self { id, mut filter, requester } = self;
        let mut watches = BTreeMap::new();
        for uri in &filter.resource_subscriptions {
            match gateway.watch(&requester, uri).await {
                Ok(watch) => drop(watches.insert(uri.clone(), watch)),
                Err(error) => {
                    tracing::debug!(code = error.code, message = error.message, "a resource cannot be watched");
                }
            }
        }
        let task_ids = filter.task_ids.take().unwrap_or_default();
        if !task_ids.is_empty() {
            filter.task_ids = Some(gateway.known_tasks(&requester, task_ids).await).filter(|known| !known.is_empty());
        }
        ListenSubscription { tag: to_json(&id), id, filter, watches, caller: requester.caller }
    }
}

impl ListenSubscription {
    pub(crate) fn id(&self) -> &Id {
        &self.id
    }

    /// The first message: which of the wanted kinds will be reported.
    pub(crate) fn acknowledgement(&self) -> Vec<u8> {
        let mut granted = serde_json::Map::new();
        for (wanted, name) in [
            (self.filter.tools_list_changed, "toolsListChanged"),
            (self.filter.prompts_list_changed, "promptsListChanged"),
            (self.filter.resources_list_changed, "resourcesListChanged"),
        ] {
            if wanted {
                granted.insert(name.to_owned(), true.into());
            }
        }
        if !self.watches.is_empty() {
            let uris: Vec<&String> = self.watches.keys().collect();
            granted.insert("resourceSubscriptions".to_owned(), json!(uris));
        }
        if let Some(task_ids) = &self.filter.task_ids {
            granted.insert("taskIds".to_owned(), json!(task_ids));
        }
        let params = RawValue::from_string(format!(r#"{{"notifications":{}}}"#, to_json(&granted)));
        self.notification(method::SUBSCRIPTIONS_ACKNOWLEDGED, params.ok().as_deref())
    }

    /// The messages that report a change.
    pub(crate) fn announcements(&self, notifications: &Notifications) -> Vec<Vec<u8>> {
        let Some(notifications) = &notifications.visible_to(&self.caller) else { return Vec::new() };
        let lists = notifications.changed_lists().iter().filter(|method| self.wants(method));
        let mut messages: Vec<Vec<u8>> = lists.map(|method| self.notification(method, None)).collect();
        for params in notifications.updates(self.watches.keys().map(String::as_str)) {
            messages.push(self.notification(method::RESOURCES_UPDATED, Some(&params)));
        }
        if let Notifications::One(ChangeEvent::Task { owner, task_id, params }) = notifications
            && self.caller.may_see_calls_of(owner)
            && self.filter.task_ids.as_ref().is_some_and(|wanted| wanted.iter().any(|id| **id == **task_id))
            && task::is_modern(params)
        {
            messages.push(self.notification(method::TASKS_NOTIFICATION, Some(params)));
        }
        messages
    }

    /// The last message, if the gateway ends the subscription: the answer to the request.
    pub(crate) fn closing_response(&self, meta_member: &str) -> Vec<u8> {
        let name = to_json(meta::SUBSCRIPTION_ID);
        let result = format!(r#"{{"resultType":"complete","_meta":{{{name}:{},{meta_member}}}}}"#, self.tag);
        envelope::response(&self.id, &result)
    }

    fn wants(&self, method: &str) -> bool {
        match method {
            method::TOOLS_LIST_CHANGED => self.filter.tools_list_changed,
            method::PROMPTS_LIST_CHANGED => self.filter.prompts_list_changed,
            method::RESOURCES_LIST_CHANGED => self.filter.resources_list_changed,
            _ => false,
        }
    }

    fn notification(&self, method: &str, params: Option<&RawValue>) -> Vec<u8> {
        // Parameters of a server that are no object are left out; the change itself is still reported.
        let tagged = splice::tagged(params, meta::SUBSCRIPTION_ID, &self.tag)
            .or_else(|| splice::tagged(None, meta::SUBSCRIPTION_ID, &self.tag));
        let params = tagged.and_then(|text| RawValue::from_string(text).ok());
        envelope::notification(method, params.as_deref().map(RawValue::get))
    }
}

/// A client must declare the tasks extension before it asks about a task.
pub(crate) fn missing_tasks_extension() -> ProtocolFault {
    ProtocolFault::missing_capability(&json!({"extensions": {TASKS_EXTENSION: {}}}))
}
