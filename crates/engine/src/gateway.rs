//! What a door may ask of the engine. Doors are written against this trait, so that every door gives the same answers.

use std::sync::Arc;

use servanda_catalog::Listing;
use servanda_effects::{Notebook, PortFuture};
use servanda_mcp::RpcError;
use tokio::sync::{broadcast, mpsc, watch};

use crate::client::{
    CallAnswer, CallRequest, ChangeEvent, ClientMessage, Inquiry, InquiryAnswer, Requester, ResourceWatchGuard,
};

/// The engine as doors see it.
///
/// Its futures are boxed, so that they are compiled with the gateway, once. The code of an `async fn` is compiled by each crate that awaits
/// it, as that crate is optimised; a call would be compiled with the binary, and for size.
pub trait Gateway: Send + Sync + 'static {
    /// The tools on offer to that requester now, always in the same order: those that some call of theirs could be allowed for. Requesters
    /// with the same capabilities and rights see the same list.
    fn listing<'a>(&'a self, requester: &'a Requester) -> PortFuture<'a, Arc<Listing>>;

    /// The same list as far as it is known, without asking a server and without waiting.
    fn known_listing(&self, requester: &Requester) -> Arc<Listing>;

    /// What [`Gateway::known_listing`] chooses from: the tools that are known for requesters of such capabilities, including those that
    /// this requester is not shown. It is the very same list until it changes, so that it need be read only once.
    fn whole_listing(&self, requester: &Requester) -> Arc<Listing>;

    /// Bumped whenever [`Gateway::listing`] may return another list.
    fn changes(&self) -> watch::Receiver<u64>;

    /// Takes a call through to its answer. A door never drops it before its end: a dispatched call is read to its end and recorded, whether
    /// or not the caller is still there. A caller that goes away cancels the token.
    fn call(&self, request: CallRequest) -> PortFuture<'_, CallAnswer>;

    /// Answers everything else that upstreams answer: resources, prompts, completions, tasks.
    fn inquire(&self, inquiry: Inquiry) -> PortFuture<'_, Result<InquiryAnswer, RpcError>>;

    /// Announces changes. A receiver that lags should assume that everything changed.
    fn change_events(&self) -> broadcast::Receiver<ChangeEvent>;

    /// Announces a resource's changes through [`Gateway::change_events`] until the watch is dropped. `uri` is an exposed one.
    fn watch<'a>(
        &'a self,
        requester: &'a Requester,
        uri: &'a str,
    ) -> PortFuture<'a, Result<ResourceWatchGuard, RpcError>>;

    /// Those of the tasks that the requester may ask about. A requester is not told about tasks that it may not ask about.
    fn known_tasks<'a>(&'a self, requester: &'a Requester, task_ids: Vec<String>) -> PortFuture<'a, Vec<String>>;

    /// Legacy: how much of the servers' logs a session wants.
    fn set_log_level<'a>(&'a self, requester: &'a Requester, level: &'a str) -> PortFuture<'a, Result<(), RpcError>>;

    /// Legacy: the requester's roots changed.
    fn roots_changed(&self, requester: &Requester);

    /// Begins to receive what servers say to that requester outside of any request, for requesters with a session that can receive it. Ends
    /// with [`Gateway::end_session`].
    fn subscribe_session(&self, affinity: &str) -> mpsc::Receiver<ClientMessage>;

    /// Ends a session: everything that is kept for it is dropped.
    fn end_session(&self, affinity: &str);

    /// The store of what outlives the process.
    fn notebook(&self) -> Arc<dyn Notebook>;
}
