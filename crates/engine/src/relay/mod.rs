//! All requests of requesters to upstreams except calls: resources, prompts, completions, tasks; and the announcements of upstreams.
//! Names and URIs are translated into the upstream's terms on the way there and into the requester's on the way back; the rest passes
//! byte for byte.
//!
//! No contract decides about these requests and none is recorded: they only read, and what they read belongs to the server.

pub(crate) mod announcements;
mod cursor;
mod errors;
mod inquiry_context;
mod items;
mod lists;
mod prompts;
pub(crate) mod subscriptions;
mod tasks;
mod visible_items;

use std::sync::Arc;

use serde_json::value::RawValue;
use servanda_mcp::RpcError;

use self::{
    errors::{from_failure, from_read_failure, no_resource},
    inquiry_context::InquiryContext,
    subscriptions::ResourceWatchCounts,
};
use crate::{
    answers::refusals::invalid_params,
    bridge::{Bridge, ClientSessions},
    client::{Inquiry, InquiryAnswer, InquirySubject, Requester},
    core::Core,
    deferred::DeferredContext,
};

/// What inquiries share: the parts of the engine that they need, and the counts of watched resources.
#[derive(Debug)]
pub(crate) struct InquiryRelay {
    core: Arc<Core>,
    deferred: Arc<DeferredContext>,
    bridge: Arc<Bridge>,
    sessions: Arc<ClientSessions>,
    watches: ResourceWatchCounts,
}

impl InquiryRelay {
    pub(crate) fn new(deferred: Arc<DeferredContext>, bridge: Arc<Bridge>, sessions: Arc<ClientSessions>) -> Self {
        Self { core: Arc::clone(&deferred.core), deferred, bridge, sessions, watches: ResourceWatchCounts::default() }
    }
}

/// How long an inquiry may take, unless its requester waits less.
pub(crate) const INQUIRY_MS_MAX: u64 = 60_000;

/// Answers an inquiry.
pub(crate) async fn inquire(relay: &Arc<InquiryRelay>, inquiry: Inquiry) -> Result<InquiryAnswer, RpcError> {
    match inquiry.subject {
        InquirySubject::Resource => require_covered(&inquiry.requester, &text(&inquiry.params, "uri")?)?,
        InquirySubject::Prompt => require_unlimited(&inquiry.requester)?,
        _ => {}
    }
    match inquiry.subject {
        InquirySubject::Resources | InquirySubject::ResourceTemplates | InquirySubject::Prompts => {
            Box::pin(lists::page(relay, inquiry)).await.map(InquiryAnswer::Complete)
        }
        InquirySubject::Resource | InquirySubject::Prompt => items::read(relay, inquiry).await,
        InquirySubject::Completion => Box::pin(items::complete(relay, inquiry)).await.map(InquiryAnswer::Complete),
        InquirySubject::Task
        | InquirySubject::TaskUpdate
        | InquirySubject::TaskCancel
        | InquirySubject::TaskResult
        | InquirySubject::Tasks => Box::pin(tasks::inquire(relay, inquiry)).await.map(InquiryAnswer::Complete),
    }
}

/// Refuses a resource that the requester's credential does not cover, so that a limit on resources holds for every method. Which servers
/// the requester may ask is decided by the snapshot.
pub(crate) fn require_covered(requester: &Requester, uri: &str) -> Result<(), RpcError> {
    if requester.authority.rights().resources.covers(uri) {
        return Ok(());
    }
    Err(invalid_params("the credential does not cover this resource")
        .with_hint("ask its issuer for a credential that covers the resource's URI"))
}

/// Refuses prompts to a requester whose credential is limited to some resources: a prompt does not say which resources it shows, so it
/// may show any.
fn require_unlimited(requester: &Requester) -> Result<(), RpcError> {
    if requester.authority.rights().resources.is_all() {
        return Ok(());
    }
    Err(invalid_params("the credential is limited to certain resources, and a prompt may show any resource")
        .with_hint("ask its issuer for a credential that is not limited to resources"))
}

/// A member of `params` that must be a string.
pub(crate) fn text(params: &[(String, Box<RawValue>)], name: &str) -> Result<String, RpcError> {
    let raw = params.iter().find(|(member, _)| member == name).map(|(_, raw)| raw);
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok())
        .ok_or_else(|| invalid_params(format!("`{name}` must be a string")))
}

/// The same parameters with another string for one of them.
pub(crate) fn with_text(params: &[(String, Box<RawValue>)], name: &str, text: &str) -> Vec<(String, Box<RawValue>)> {
    let other = serde_json::value::to_raw_value(text).ok();
    let change = |(member, raw): &(String, Box<RawValue>)| {
        let raw = other.as_ref().filter(|_| member == name).unwrap_or(raw).clone();
        (member.clone(), raw)
    };
    params.iter().map(change).collect()
}
