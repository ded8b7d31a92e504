//! A dry run: what a call would do, computed by the gates and the gateway's own state, and answered as a preview. The call is not made.
//!
//! A dry run has a way of its own, and the way ends here: its evidence is a [`PreviewedCall`], which no later stage of a call takes. It opens
//! no ticket, claims no key, reserves nothing and uses nothing up. It asks upstreams only what reads: the contract's preconditions, and the
//! upstream's own dry run where the contract names one. It leaves a record. Deliberately not here: what a preview looks like, which is in
//! `servanda_contract`, and how one reads, which is in `answers`.

mod approval;
mod asking;
mod entry;
mod findings;
mod operation;

use std::sync::Arc;

use servanda_contract::{
    CallPreview, Refusal, TaxonomyClass,
    preview::{PreviewKind, PreviewVerdict, PreviewedContract, PreviewedGate},
    record::Outcome,
    taxonomy::EnvelopeCode,
};
use servanda_gates::{CompiledContract, PreviewedCall, ResolvedCall, Stopwatch as _, Trail, pass_preview};
use servanda_mcp::{RpcError, envelope::code};
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    task::block_in_place,
};

use self::findings::PreviewFindings;
pub(super) use self::{
    approval::{counts_now, denial_held_until_ms},
    asking::{bounded_preview, unless_given_up},
};
use super::{
    Calls,
    admission::{AdmittedCall, CallAdmission, admit},
    context::CallContext,
    destinations, expectations,
    state::CallPipeline,
};
use crate::{
    answers::{preview as words, refusals},
    budgets::CallCharge,
    client::{CallAnswer, CallRequest, JUDGED_AT_ONCE_BYTES_MAX},
    clock::CallStopwatch,
    records,
};

/// Answers a dry run.
pub(super) async fn preview(calls: &Arc<Calls>, request: CallRequest) -> CallAnswer {
    let terms = &request.terms;
    if terms.request_state.is_some() || terms.input_responses.is_some() || request.task.is_some() {
        return CallAnswer::Failed(nothing_to_continue());
    }
    let _in_flight = calls.core.in_flight.token();
    match admit(calls, request).await {
        Ok(CallAdmission::Call(admitted)) => run(calls, *admitted).await,
        Ok(CallAdmission::Return { .. }) => CallAnswer::Failed(nothing_to_continue()),
        Err(answer) => answer,
    }
}

async fn run(calls: &Arc<Calls>, admitted: AdmittedCall) -> CallAnswer {
    let AdmittedCall { snapshot, proposal, record, context } = admitted;
    let stopwatch = CallStopwatch::start();
    let mut pipeline = CallPipeline {
        core: &calls.core,
        calls,
        snapshot: &snapshot,
        stopwatch: &stopwatch,
        trail: Trail::new(&stopwatch),
        record,
        unread_key: None,
        spent_nonce: None,
        // Draws nothing.
        charge: CallCharge::new(&calls.core.budget_client),
        work: None,
        started: context.started,
        begun: context.started,
    };
    let resolved = match pipeline.resolve(proposal, &context).await {
        Ok(resolved) => resolved,
        Err(refusal) if refusal.envelope_code == EnvelopeCode::ToolNotFound => {
            pipeline.end_preview(refusal.error_code, Some(*refusal.clone())).await;
            return CallAnswer::UnknownTool(refusal);
        }
        Err(refusal) => return pipeline.answer_preview(None, PreviewFindings::refused(*refusal)).await,
    };
    let contract = Arc::clone(resolved.contract());
    pipeline.record.contract = Some(contract.reference());
    let findings = match pipeline.judge_preview(resolved, &context).await {
        Ok(previewed) => pipeline.look_ahead(&previewed, &context).await,
        Err(refusal) => PreviewFindings::refused(*refusal),
    };
    pipeline.answer_preview(Some(&contract), findings).await
}

impl CallPipeline<'_> {
    /// Takes a call that is not made through gates 1 to 10.
    async fn judge_preview(
        &mut self,
        resolved: ResolvedCall,
        context: &CallContext,
    ) -> Result<PreviewedCall, Box<Refusal>> {
        let (resolved, expected) = self.with_expectations(resolved).await;
        let contract = Arc::clone(resolved.contract());
        let is_large = resolved.proposal().arguments.len() > JUDGED_AT_ONCE_BYTES_MAX;
        let is_shared = Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread;
        let judged = if is_large && is_shared {
            block_in_place(|| self.pass_preview_gates(resolved, context))
        } else {
            self.pass_preview_gates(resolved, context)
        };
        self.record.policy = self.trail.take_policy();
        let judged = match judged {
            Ok(judged) if judged.has_destinations() => destinations::look_up(judged).await,
            judged => judged,
        };
        let judged = judged.map_err(|mut refusal| {
            expectations::name_fitting(&mut refusal, self.snapshot, &context.requester, &expected, &contract);
            refusal
        })?;
        self.record.proposal_digest = Some(judged.proposal_digest());
        Ok(judged)
    }

    fn pass_preview_gates(
        &mut self,
        resolved: ResolvedCall,
        context: &CallContext,
    ) -> Result<PreviewedCall, Box<Refusal>> {
        let (authorities, authority) = (&self.snapshot.authorities, &context.requester.authority);
        let principal = authorities.principal(authority);
        let principal = principal.map_err(|error| refusals::no_principal(self.record.call_id.clone(), &error))?;
        let mandate = authorities.mandate(authority, &principal);
        pass_preview(resolved, &mandate, self.core.gate_limits, &mut self.trail)
    }

    /// Records the dry run and answers with its preview.
    async fn answer_preview(
        mut self,
        contract: Option<&Arc<CompiledContract>>,
        findings: PreviewFindings,
    ) -> CallAnswer {
        for (gate, passed) in findings.late_verdicts() {
            let started_us = self.stopwatch.elapsed_us();
            self.trail.note(gate, passed, started_us);
        }
        let verdict = findings.verdict();
        let mut gates = PreviewedGate::from_verdicts(self.trail.verdicts());
        findings.correct(&mut gates);
        let first = findings.refusals.first().cloned().filter(|_| verdict == PreviewVerdict::WouldBeRefused);
        let class = match (&first, verdict) {
            (Some(refusal), _) => refusal.error_code,
            (None, PreviewVerdict::WouldWaitForApproval) => TaxonomyClass::ConfirmationMissing,
            (None, _) => TaxonomyClass::Success,
        };
        let has_output_schema = contract.is_some_and(|contract| contract.output().is_some());
        let contract = contract.map(|contract| {
            let identity = &contract.contract().identity;
            PreviewedContract { name: identity.name.clone(), version: identity.version.clone() }
        });
        let frame = CallPreview {
            kind: PreviewKind::Preview,
            call_id: self.record.call_id.clone(),
            tool: self.record.tool.clone(),
            contract,
            verdict,
            summary: words::summary(&self.record.tool, verdict, &findings.refusals, findings.approval.as_ref()),
            gates,
            refusals: Vec::new(),
            effects: None,
            preconditions: Vec::new(),
            approval: None,
            cost: None,
            budgets: Vec::new(),
            operation: None,
            upstream_preview: None,
        };
        let preview = findings.fill(frame);
        self.record.ticket_id = preview.approval.as_ref().and_then(|approval| approval.ticket.clone());
        self.end_preview(class, first).await;
        CallAnswer::Result(words::answer(&preview, class, has_output_schema))
    }

    /// Puts the dry run on record.
    async fn end_preview(&mut self, class: TaxonomyClass, refusal: Option<Refusal>) {
        self.finish(Outcome::Previewed, class, refusal.as_ref());
        records::write_record(self.core, self.record.clone(), false, None).await;
    }
}

fn nothing_to_continue() -> RpcError {
    RpcError::new(code::INVALID_PARAMS, "a dry run is answered at once: it continues no call and becomes no task")
        .with_hint("leave out `requestState`, `inputResponses` and `task`")
}
