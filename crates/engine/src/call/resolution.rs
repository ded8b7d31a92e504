//! Finds the contract that the exposed name of a tool means to this client.

use std::sync::Arc;

use servanda_catalog::ResolveError;
use servanda_contract::{Proposal, Refusal};
use servanda_gates::{CompiledContract, ContractResolver, ResolvedCall, resolve};
use tokio::time::Instant;

use super::{context::CallContext, state::CallPipeline};
use crate::{
    answers::refusals,
    client::Requester,
    world::{OwnTool, WorldSnapshot},
};

/// The contracts that are offered to one client.
struct OfferedContracts<'a> {
    snapshot: &'a WorldSnapshot,
    requester: &'a Requester,
    own_tool: Option<Arc<CompiledContract>>,
    /// The only upstream where a call with a `requestState` may continue.
    only_upstream: Option<&'a str>,
}

impl ContractResolver for OfferedContracts<'_> {
    fn contract_of(&self, proposal: &Proposal) -> Result<Arc<CompiledContract>, Box<Refusal>> {
        let found = self.own_tool.clone().map_or_else(|| self.find(&proposal.tool), Ok);
        match found {
            // The configuration changed between two rounds: the state of one upstream is not shown to another.
            Ok(contract) if self.only_upstream.is_some_and(|only| only != contract.contract().binding.upstream) => {
                Err(Box::new(refusals::performed_by_another_upstream(proposal.call_id.clone())))
            }
            Ok(contract) => Ok(contract),
            Err(reason) => Err(Box::new(refusals::not_resolved(proposal, reason))),
        }
    }
}

impl OfferedContracts<'_> {
    /// The contract that a name means to the client. The refusal for another tenant's tool has the same words as for a tool that never
    /// existed, and suggests only tools that the client is shown.
    fn find(&self, name: &str) -> Result<Arc<CompiledContract>, ResolveError> {
        let catalog = &self.snapshot.catalog;
        let unknown = || {
            let shown = self.snapshot.visible_listing(catalog.listing(self.requester.viewer()), self.requester);
            ResolveError::Unknown { did_you_mean: catalog.nearest_name(name, &shown) }
        };
        if self.snapshot.is_foreign_tool(name, &self.requester.caller) {
            return Err(unknown());
        }
        match catalog.resolve(name, self.requester.viewer()) {
            Err(ResolveError::Unknown { .. }) => Err(unknown()),
            resolved => resolved,
        }
    }
}

impl CallPipeline<'_> {
    /// Finds the contract of a call, by what its server offers on the present connection.
    pub(super) async fn resolve(
        &mut self,
        proposal: Box<Proposal>,
        context: &CallContext,
    ) -> Result<ResolvedCall, Box<Refusal>> {
        let requester = &context.requester;
        if !self.snapshot.is_foreign_tool(&proposal.tool, &requester.caller) {
            // A client that gives up does not wait for the server's list.
            tokio::select! {
                biased;
                () = self.snapshot.discovery.refresh_for_call(&proposal, requester) => {}
                () = context.terms.cancel.cancelled() => {}
            }
        }
        self.begun = Instant::now();
        let only_upstream = context.state.as_ref().map(|state| state.upstream.as_str());
        let own_tool = self.own_tool(&proposal.tool).map(|(_, contract)| contract);
        resolve(
            proposal,
            &OfferedContracts { snapshot: self.snapshot, requester, own_tool, only_upstream },
            &mut self.trail,
        )
    }

    /// The gateway's own tool of a name and its contract; the one for results only if callers are given handles that it takes.
    pub(super) fn own_tool(&self, name: &str) -> Option<(OwnTool, Arc<CompiledContract>)> {
        let has_handles = self.calls.deferred.long_running.wait_ms_max.is_some();
        let own = self.snapshot.own_tool(name, &self.record.caller);
        own.filter(|(tool, _)| *tool != OwnTool::Result || has_handles)
    }
}
