//! Which contract the exposed name of a tool means to this client.

use std::sync::Arc;

use servanda_catalog::NotResolved;
use servanda_contract::{Proposal, Refusal};
use servanda_gates::{CompiledContract, Contracts, Resolved, resolve};
use tokio::time::Instant;

use super::{context::CallContext, state::CallPipeline};
use crate::{answers::refusals, client::Guest, world::Scene};

/// The contracts that are offered to one client.
struct Offered<'a> {
    scene: &'a Scene,
    guest: &'a Guest,
    own_tool: Option<Arc<CompiledContract>>,
    /// The only upstream where a call with a `requestState` may continue.
    only_upstream: Option<&'a str>,
}

impl Contracts for Offered<'_> {
    fn contract_of(&self, proposal: &Proposal) -> Result<Arc<CompiledContract>, Box<Refusal>> {
        let found = self.own_tool.clone().map_or_else(|| self.find(&proposal.tool), Ok);
        match found {
            // The configuration changed between two rounds: the state of one upstream is not shown to another.
            Ok(contract) if self.only_upstream.is_some_and(|only| only != contract.contract().binding.upstream) => {
                Err(Box::new(refusals::moved(proposal.call_id.clone())))
            }
            Ok(contract) => Ok(contract),
            Err(reason) => Err(Box::new(refusals::not_resolved(proposal, reason))),
        }
    }
}

impl Offered<'_> {
    /// The contract that a name means to the client. The refusal for another tenant's tool has the very words for a tool that never was,
    /// and suggests only tools that the client is shown.
    fn find(&self, name: &str) -> Result<Arc<CompiledContract>, NotResolved> {
        let catalog = &self.scene.catalog;
        let unknown = || {
            let shown = self.scene.shown(catalog.listing(self.guest.viewer()), self.guest);
            NotResolved::Unknown { did_you_mean: catalog.near(name, &shown) }
        };
        if self.scene.is_foreign_tool(name, &self.guest.caller) {
            return Err(unknown());
        }
        match catalog.resolve(name, self.guest.viewer()) {
            Err(NotResolved::Unknown { .. }) => Err(unknown()),
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
    ) -> Result<Resolved, Box<Refusal>> {
        let guest = &context.guest;
        if !self.scene.is_foreign_tool(&proposal.tool, &guest.caller) {
            // A client that gives up does not wait for the server's list.
            tokio::select! {
                biased;
                () = self.scene.discovery.acquaint(&proposal, guest) => {}
                () = context.terms.cancel.cancelled() => {}
            }
        }
        self.begun = Instant::now();
        let only_upstream = context.state.as_ref().map(|state| state.upstream.as_str());
        let own_tool = self.own_tool(&proposal.tool);
        resolve(proposal, &Offered { scene: self.scene, guest, own_tool, only_upstream }, &mut self.trail)
    }

    /// The contract of the gateway's own tool, where callers are given handles that it takes.
    pub(super) fn own_tool(&self, name: &str) -> Option<Arc<CompiledContract>> {
        self.scene
            .own_tool(name, &self.record.caller)
            .filter(|_| self.calls.deferred.long_running.wait_ms_max.is_some())
    }
}
