//! What a door may ask of the engine. Doors are written against this, so that every door gives the same answers.

use std::{future::Future, sync::Arc};

use servanda_catalog::Listing;
use servanda_effects::Notebook;
use servanda_mcp::RpcError;
use tokio::sync::{broadcast, mpsc, watch};

use crate::client::{
    CallAnswer, CallRequest, ChangeEvent, ClientMessage, Inquiry, InquiryAnswer, Requester, ResourceWatchGuard,
};

/// The engine as doors see it.
pub trait Gateway: Send + Sync + 'static {
    /// The tools on offer now to that requester, in their one order: those that some call of theirs could be allowed for. Requesters of
    /// the same capabilities and rights see the same list.
    fn listing(&self, requester: &Requester) -> impl Future<Output = Arc<Listing>> + Send;

    /// The same as far as it is known: nobody is asked, and nothing is waited for.
    fn known_listing(&self, requester: &Requester) -> Arc<Listing>;

    /// What [`Gateway::known_listing`] chooses from: the tools that are known for requesters of such capabilities, also those that this one
    /// is not shown. The very same list until it changes, so that what is read from it need be read once.
    fn whole_listing(&self, requester: &Requester) -> Arc<Listing>;

    /// Bumped whenever [`Gateway::listing`] may return another list.
    fn changes(&self) -> watch::Receiver<u64>;

    /// Takes a call through to its answer. A door never drops it before its end: a dispatched call is read to its end and
    /// recorded, whether or not the caller is still there. A caller that goes away cancels the token.
    fn call(&self, request: CallRequest) -> impl Future<Output = CallAnswer> + Send;

    /// Answers everything else that upstreams answer: resources, prompts, completions, tasks.
    fn inquire(&self, inquiry: Inquiry) -> impl Future<Output = Result<InquiryAnswer, RpcError>> + Send;

    /// What changes, for whoever listens. A receiver that lags should take everything for changed.
    fn change_events(&self) -> broadcast::Receiver<ChangeEvent>;

    /// Hears of a resource's changes through [`Gateway::news`] until the watch is dropped. `uri` is an exposed one.
    fn watch(
        &self,
        requester: &Requester,
        uri: &str,
    ) -> impl Future<Output = Result<ResourceWatchGuard, RpcError>> + Send;

    /// Those of some tasks that the requester may ask about: whoever may not ask is not told unasked either.
    fn known_tasks(&self, requester: &Requester, task_ids: Vec<String>) -> impl Future<Output = Vec<String>> + Send;

    /// Legacy: how much of the servers' logs a session wants.
    fn set_log_level(&self, requester: &Requester, level: &str) -> impl Future<Output = Result<(), RpcError>> + Send;

    /// Legacy: the requester's roots changed.
    fn roots_changed(&self, requester: &Requester);

    /// Begins to hear what servers say to that requester outside any request; for requesters of a session, who have somewhere to
    /// be told. Ends with [`Gateway::leave`].
    fn subscribe_session(&self, affinity: &str) -> mpsc::Receiver<ClientMessage>;

    /// A session is over: everything kept for it is let go.
    fn end_session(&self, affinity: &str);

    /// What outlives the process.
    fn notebook(&self) -> Arc<dyn Notebook>;
}
