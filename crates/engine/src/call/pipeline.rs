//! The life of one call, top to bottom: [`CallPipeline::run`] and [`CallPipeline::send`] list its stages in order.
//!
//! Each stage takes the evidence of the one before it. A stage that ends the call before anything is sent returns an [`Exit`], which
//! `exits` answers; `ending` answers a call that was sent. Every refusal of a call passes through one of these two files. Deliberately not
//! here: what surrounds a call (questions to the client, long work), which is in `call`.

use std::sync::Arc;

use servanda_authority::Authenticated;
use servanda_contract::{CallRecord, Proposal, Refusal};
use servanda_effects::effect::EffectKey;
use servanda_gates::{Expected, Permit, Resolved, Trail, pass_all};
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    task::block_in_place,
    time::Instant,
};

use super::{
    admission::{Admitted, given_key},
    context::CallContext,
    dispatch::Performed,
    exits::Exit,
};
use crate::{
    budgets::Bill,
    clock::CallStopwatch,
    core::Core,
    destinations, expectations,
    gateway::{CallAnswer, JUDGED_AT_ONCE_BYTES_MAX},
    refusals,
    scene::Scene,
    works::Work,
};

/// One call on its way, and what its record says so far.
pub(super) struct CallPipeline<'a> {
    pub(super) core: &'a Arc<Core>,
    pub(super) scene: &'a Scene,
    pub(super) stopwatch: &'a CallStopwatch,
    pub(super) trail: Trail<'a>,
    pub(super) record: CallRecord,
    /// The key under which an earlier call may have done something, until the store is asked about it. A refusal must not claim that
    /// nothing happened before that.
    pub(super) unread_key: Option<EffectKey>,
    /// The nonce of the `requestState` that this call used up. It is given back if nothing is sent.
    pub(super) spent_nonce: Option<String>,
    /// What the call draws from budgets, until it is known how it ended.
    pub(super) charge: Bill,
    /// The long work that the call is, by its contract.
    pub(super) work: Option<Arc<Work>>,
    pub(super) started: Instant,
    /// When the server was there to be called: the contract's time does not include starting it.
    pub(super) begun: Instant,
}

impl CallPipeline<'_> {
    /// Takes a call through to its answer.
    pub(super) async fn take(core: &Arc<Core>, admitted: Box<Admitted>) -> CallAnswer {
        let Admitted { scene, proposal, mut record, context } = *admitted;
        let stopwatch = CallStopwatch::start();
        record.continues.clone_from(&context.continues);
        // Boxed, because its ends hand it from one to the next.
        let pipeline = Box::new(CallPipeline {
            core,
            scene: &scene,
            stopwatch: &stopwatch,
            trail: Trail::new(&stopwatch),
            record,
            unread_key: given_key(&scene, &proposal),
            spent_nonce: None,
            charge: Bill::new(&core.till),
            work: context.work.clone(),
            started: context.started,
            begun: context.started,
        });
        Box::pin(pipeline.run(proposal, context)).await
    }

    async fn run(mut self: Box<Self>, proposal: Proposal, context: CallContext) -> CallAnswer {
        let resolved = match self.resolve(proposal, &context).await {
            Ok(resolved) => resolved,
            Err(refusal) => return self.refuse_unresolved(refusal).await,
        };
        let contract = Arc::clone(resolved.contract());
        self.record.contract = Some(contract.reference());
        if self.own_tool(&self.record.tool).is_some() {
            return Box::pin(self.fetch(resolved, &contract, &context)).await;
        }
        // Boxed, because sending is by far the largest part of a call, and a call that ends early never uses the ends below.
        match Box::pin(self.send(resolved, context)).await {
            Ok(performed) => Box::pin(self.settle(performed)).await,
            Err(exit) => Box::pin(self.leave(&contract, exit)).await,
        }
    }

    /// Every stage from the contract to the upstream's answer. Each `?` ends the call with nothing sent.
    async fn send(&mut self, resolved: Resolved, mut context: CallContext) -> Result<Box<Performed>, Exit> {
        // Gates 1 to 10.
        let permit = self.judge(resolved, &context).await?;
        // Which operation it is: its key, and the state it continues from.
        let operation = self.identify(&permit, &mut context).await?;
        // A read whose answer is in the cache ends here.
        let to_cache = self.look_in_cache(&permit, &operation, &context)?;
        let plan = self.plan(&permit, &context)?;
        // Gate 11, budget.
        let cleared = self.clear(permit, &operation, &plan, &context).await?;
        // Calls that change the same resource wait for each other.
        let dispatch = self.queue(cleared.permit(), &operation, &plan, &context).await?;
        // The contract's probes, before anything is sent.
        let around = self.look_before(cleared.permit(), &plan, &context).await?;
        // The effect is on record before a byte leaves.
        let sendable = self.fence(cleared, dispatch, &operation, &plan, &context).await?;
        self.perform(sendable, around, plan, to_cache, context).await
    }

    /// Takes a call through gates 1 to 10, and looks up where the URLs among its arguments lead.
    async fn judge(&mut self, resolved: Resolved, context: &CallContext) -> Result<Permit, Exit> {
        let (resolved, expected) = self.expecting(resolved).await;
        let (contract, chain) = (Arc::clone(resolved.contract()), resolved.proposal().chain.clone());
        let judged = self.pass_gates(resolved, &context.guest.authority);
        self.record.policy = self.trail.take_policy();
        let judged = destinations::look_up(judged).await;
        let permit = self.judged(judged, &chain).map_err(|mut refusal| {
            expectations::name_fitting(&mut refusal, self.scene, &context.guest, &expected, &contract);
            Exit::refused(refusal)
        })?;
        self.record.proposal_digest = Some(permit.proposal_digest());
        Ok(permit)
    }

    /// The call with what its task, its intent and the operator's rules expect of its tool.
    pub(super) async fn expecting(&self, resolved: Resolved) -> (Resolved, Vec<Expected>) {
        let expected = expectations::of(self.core, self.scene, resolved.proposal(), resolved.contract()).await;
        (resolved.expecting(expected.clone()), expected)
    }

    /// Notes what the gates said in the chain of repairs that the call belongs to.
    pub(super) fn judged<T>(&self, judged: Result<T, Box<Refusal>>, chain: &str) -> Result<T, Box<Refusal>> {
        match judged {
            Ok(passed) => {
                self.core.repairs.passed(&self.record, chain);
                Ok(passed)
            }
            Err(mut refusal) => {
                self.core.repairs.refused(&self.record, chain, &mut refusal);
                Err(refusal)
            }
        }
    }

    fn pass_gates(&mut self, resolved: Resolved, authority: &Authenticated) -> Result<Permit, Box<Refusal>> {
        let is_large = resolved.proposal().arguments.len() > JUDGED_AT_ONCE_BYTES_MAX;
        let is_shared = Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread;
        if is_large && is_shared {
            return block_in_place(|| self.pass_gates_here(resolved, authority));
        }
        self.pass_gates_here(resolved, authority)
    }

    /// Judges a call under its caller's credential and the policies in force.
    fn pass_gates_here(&mut self, resolved: Resolved, authority: &Authenticated) -> Result<Permit, Box<Refusal>> {
        let authorities = &self.scene.authorities;
        let principal = authorities.principal(authority);
        let principal = principal.map_err(|error| refusals::no_principal(self.record.call_id.clone(), &error))?;
        pass_all(resolved, &authorities.mandate(authority, &principal), self.core.gate_limits, &mut self.trail)
    }
}
