//! Gates 1 to 10: checks a call against its contract, its caller's credential, the policies, and what is expected of its tool.

use std::sync::Arc;

use servanda_authority::AuthenticatedCaller;
use servanda_contract::{GateName, Refusal};
use servanda_gates::{
    CompiledContract, Confirmation, ResolvedCall, ToolExpectation, budget::Cleared, pass_all, pass_question,
};
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    task::block_in_place,
};

use super::{context::CallContext, destinations, evidence::CallExit, expectations, state::CallPipeline};
use crate::{answers::refusals, client::JUDGED_AT_ONCE_BYTES_MAX};

impl CallPipeline<'_> {
    /// Takes a call through gates 1 to 10, and resolves the hosts of the URLs among its arguments.
    pub(super) async fn judge(
        &mut self,
        resolved: ResolvedCall,
        context: &CallContext,
    ) -> Result<Confirmation, CallExit> {
        let (resolved, expected) = self.with_expectations(resolved).await;
        let (contract, chain) = (Arc::clone(resolved.contract()), resolved.proposal().chain.clone());
        let judged = self.pass_gates(resolved, &context.requester.authority);
        self.record.policy = self.trail.take_policy();
        let judged = match judged {
            // Boxed, because few calls have URLs among their arguments.
            Ok(judged) if judged.has_destinations() => Box::pin(destinations::look_up(judged)).await,
            judged => judged,
        };
        let judged = self.note_judgement(judged, &chain).map_err(|mut refusal| {
            expectations::name_fitting(&mut refusal, self.snapshot, &context.requester, &expected, &contract);
            CallExit::refused(refusal)
        })?;
        self.record.proposal_digest = Some(judged.proposal_digest());
        Ok(judged)
    }

    /// Takes a call of one of the gateway's own tools through the gates that ask for no rights. No budget is drawn and nothing is fenced: the
    /// engine answers it.
    pub(super) async fn judge_own_tool(
        &mut self,
        resolved: ResolvedCall,
        own: &CompiledContract,
        context: &CallContext,
    ) -> Result<Cleared, Box<Refusal>> {
        let (resolved, expected) = self.with_expectations(resolved).await;
        let chain = resolved.proposal().chain.clone();
        let judged = pass_question(resolved, self.core.gate_limits, &mut self.trail);
        let cleared = self.note_judgement(judged, &chain).map_err(|mut refusal| {
            expectations::name_fitting(&mut refusal, self.snapshot, &context.requester, &expected, own);
            refusal
        })?;
        self.record.proposal_digest = Some(cleared.permit().proposal_digest());
        self.trail.skip(GateName::Budget);
        self.trail.skip(GateName::Fence);
        Ok(cleared)
    }

    /// The call with what its task, its intent and the operator's rules expect of its tool.
    pub(super) async fn with_expectations(&self, resolved: ResolvedCall) -> (ResolvedCall, Vec<ToolExpectation>) {
        let expected =
            expectations::expected_of_call(self.core, self.snapshot, resolved.proposal(), resolved.contract()).await;
        (resolved.expecting(expected.clone()), expected)
    }

    /// Notes what the gates said in the chain of repairs that the call belongs to.
    pub(super) fn note_judgement<T>(&self, judged: Result<T, Box<Refusal>>, chain: &str) -> Result<T, Box<Refusal>> {
        match judged {
            Ok(passed) => {
                self.calls.repairs.passed(&self.record, chain);
                Ok(passed)
            }
            Err(mut refusal) => {
                self.calls.repairs.refused(&self.record, chain, &mut refusal);
                Err(refusal)
            }
        }
    }

    fn pass_gates(
        &mut self,
        resolved: ResolvedCall,
        authority: &AuthenticatedCaller,
    ) -> Result<Confirmation, Box<Refusal>> {
        let is_large = resolved.proposal().arguments.len() > JUDGED_AT_ONCE_BYTES_MAX;
        let is_shared = Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread;
        if is_large && is_shared {
            return block_in_place(|| self.pass_gates_here(resolved, authority));
        }
        self.pass_gates_here(resolved, authority)
    }

    /// Judges a call under its caller's credential and the policies in force.
    fn pass_gates_here(
        &mut self,
        resolved: ResolvedCall,
        authority: &AuthenticatedCaller,
    ) -> Result<Confirmation, Box<Refusal>> {
        let authorities = &self.snapshot.authorities;
        let principal = authorities.principal(authority);
        let principal = principal.map_err(|error| refusals::no_principal(self.record.call_id.clone(), &error))?;
        pass_all(resolved, &authorities.mandate(authority, &principal), self.core.gate_limits, &mut self.trail)
    }
}
