//! The gateway's own tool for plans: an agent proposes calls, each is judged like a dry run, and people are asked about all of them on one
//! ticket. Nothing is sent. If one call would be refused, or people decide about each such call, no ticket is opened, and the agent is told
//! why. The same proposal made again is answered with how far the plan has come; nobody waits here.
//!
//! Deliberately not here: what people allow by approving it (`servanda_approval`'s `plan`), and the calls of an approved plan, which are made
//! and judged like all others.

use std::sync::Arc;

use bytes::Bytes;
use servanda_approval::{
    ApprovalDemand, CostCeiling, GrantObstacle, PLAN_PURPOSE_CHARS_MAX, PlanFault, ProposedCall, ProposedPlan, Ticket,
    TicketEvent, TicketId, TicketKey, TicketReply, TicketRequest, TicketState, TicketSubject,
};
use servanda_contract::{
    CallId, Digest, GateName, OperationKeys, Proposal, Refusal, TaxonomyClass, digest::DigestDomain,
    json::CanonicalBytes, record::Outcome,
};
use servanda_effects::ticket_store::TicketTarget;
use servanda_gates::{CompiledContract, JudgedCall, PreviewedCall, ResolvedCall};

use super::{
    context::CallContext,
    evidence::{CallExit, Dispatch},
    state::CallPipeline,
    ticket_subject::ticket_subject,
};
use crate::{
    answers::{
        approvals as words,
        plans::{self, JudgedEntry, PlanAnswer},
    },
    approval_notices,
    approvals::is_maker_still_eligible,
    client::CallAnswer,
    records,
    world::{PlanToolArgs, PlannedToolCall, plan_tool_args},
};

/// The step that a call of a plan is judged under where its contract wants to know the operation: each call that is made brings its own.
const JUDGED_AS_STEP: &str = "plan";

impl CallPipeline<'_> {
    /// Answers a proposal.
    pub(super) async fn propose(
        mut self: Box<Self>,
        resolved: ResolvedCall,
        own: &CompiledContract,
        context: &CallContext,
    ) -> CallAnswer {
        // As for results: every call of the plan is judged under its caller's credential and the policies.
        let cleared = match self.judge_own_tool(resolved, own, context).await {
            Ok(cleared) => cleared,
            Err(refusal) => return self.answer_exit(own, CallExit::refused(refusal)).await,
        };
        let permit = cleared.permit();
        let answered = match plan_tool_args(permit) {
            Some(args) => self.answer_proposal(permit, &args, context).await,
            None => Err(words::unreachable(permit.call_id())),
        };
        match answered {
            Ok(answer) => self.answer_plan(answer).await,
            Err(refusal) => {
                let refused = self.refuse(own.contract(), *refusal, Outcome::Refused, None, Dispatch::default());
                CallAnswer::Result(refused.await)
            }
        }
    }

    async fn answer_proposal(
        &mut self,
        permit: &JudgedCall,
        args: &PlanToolArgs,
        context: &CallContext,
    ) -> Result<PlanAnswer, Box<Refusal>> {
        let days_max = self.snapshot.authorities.approvals().grant_days_max;
        if args.days > days_max || args.purpose.chars().nth(PLAN_PURPOSE_CHARS_MAX).is_some() {
            return Err(plans::out_of_bounds(permit.call_id(), days_max));
        }
        let mut entries = Vec::with_capacity(args.calls.len());
        let mut calls = Vec::new();
        for call in &args.calls {
            let judged = self.judge_entry(permit.proposal(), call, args, context).await;
            entries.push(match judged {
                Ok(None) => JudgedEntry::NeedsNone,
                Ok(Some(proposed)) => {
                    calls.push(proposed);
                    JudgedEntry::NeedsApproval
                }
                Err(refusal) => JudgedEntry::Refused(refusal),
            });
        }
        let tools: Vec<String> = args.calls.iter().map(|call| call.tool.clone()).collect();
        let answer = |standing| PlanAnswer { standing, tools: tools.clone(), entries: Vec::new(), ticket: None };
        if entries.iter().any(|entry| matches!(entry, JudgedEntry::Refused(_))) {
            return Ok(PlanAnswer { entries, ..answer(plans::PlanStanding::Refused) });
        }
        if calls.is_empty() {
            return Ok(PlanAnswer { entries, ..answer(plans::PlanStanding::NeedsNone) });
        }
        let plan =
            ProposedPlan { purpose: args.purpose.clone(), calls, days: args.days, cost_max: args.cost_max.clone() };
        let not_taken = |fault: PlanFault| plans::not_taken(permit.call_id(), fault);
        let (demand, document) = (plan.demand().map_err(not_taken)?, plan.document().map_err(not_taken)?);
        let request = plan_request(permit, &plan, (demand, document), context);
        let (reply, ticket) = self.ask_about_plan(permit.call_id(), request).await?;
        self.record.ticket_id = Some(ticket.id.to_string());
        let standing = match reply {
            TicketReply::Pending => plans::PlanStanding::Pending,
            TicketReply::Approved => plans::PlanStanding::Approved,
            TicketReply::Lapsed => return Err(plans::over(permit.call_id(), &ticket)),
            reply => return Err(words::ended(permit.call_id(), &self.record.tool, &ticket, &reply)),
        };
        Ok(PlanAnswer { entries, ticket: Some(ticket), ..answer(standing) })
    }

    /// What a call of the plan needs; none if it needs no approval. The error is why it cannot be a part of a plan.
    async fn judge_entry(
        &self,
        outer: &Proposal,
        call: &PlannedToolCall,
        args: &PlanToolArgs,
        context: &CallContext,
    ) -> Result<Option<ProposedCall>, Box<Refusal>> {
        let proposal = Box::new(Proposal {
            tool: call.tool.clone(),
            arguments: call.arguments(),
            keys: OperationKeys { step_id: Some(JUDGED_AS_STEP.to_owned()), ..OperationKeys::default() },
            ..outer.clone()
        });
        let previewed = Box::pin(self.judge_like_dry_run(proposal, context)).await?;
        let Some(demand) = previewed.demand().cloned() else { return Ok(None) };
        let proposed = proposed_call(&previewed, demand, call.times);
        if let Some(obstacle) = proposed.obstacle() {
            return Err(cannot_be_planned(&outer.call_id, &call.tool, &obstacle));
        }
        if let Some(ceiling) = &args.cost_max
            && !ceiling.counts(previewed.contract().price().ok())
        {
            return Err(plans::other_currency(&outer.call_id, &call.tool, ceiling));
        }
        Ok(Some(proposed))
    }

    /// Opens the ticket of a plan or joins the open one. An approval by a person who may no longer give it counts for nothing: people are asked
    /// again.
    async fn ask_about_plan(
        &self,
        call_id: &CallId,
        request: TicketRequest,
    ) -> Result<(TicketReply, Arc<Ticket>), Box<Refusal>> {
        let approvals = &self.core.approvals;
        let mut was_superseded = false;
        loop {
            let asked = TicketRequest { id: TicketId::new(), ..request.clone() };
            let opened = asked.id.clone();
            let applied = approvals.request(asked).await.map_err(|error| words::store_away(call_id, &error))?;
            let Some(ticket) = applied.ticket else { return Err(words::run_stopped(call_id, &applied.reply)) };
            if ticket.id == opened {
                tracing::info!(ticket = %ticket.id, %call_id, "a plan waits for approval");
                approval_notices::tell_opened(self.core, &ticket).await;
            }
            let settings = self.snapshot.authorities.approvals();
            let is_good = ticket.state != TicketState::Approved || is_maker_still_eligible(&ticket, settings);
            if is_good || was_superseded {
                return Ok((applied.reply, ticket));
            }
            was_superseded = true;
            let reason = "the person who approved it may no longer decide".to_owned();
            let target = TicketTarget::Id(ticket.id.clone());
            let superseded = approvals.apply(target, TicketEvent::Supersede { reason }).await;
            superseded.map_err(|error| words::store_away(call_id, &error))?;
        }
    }

    /// Puts the proposal on record and answers it.
    async fn answer_plan(mut self: Box<Self>, answer: PlanAnswer) -> CallAnswer {
        let (outcome, class, refusal) = match answer.first_refusal() {
            Some(refusal) => (Outcome::Refused, refusal.error_code, Some(refusal.clone())),
            None => (Outcome::Completed, TaxonomyClass::Success, None),
        };
        self.finish(outcome, class, refusal.as_ref());
        let now_ms = self.core.clock.now().unix_ms();
        let console_url = self.snapshot.authorities.approvals().console_url.as_deref();
        let answered = plans::answer(&answer, &self.record, console_url, now_ms);
        // A proposal costs its caller nothing, so it counts like a refused call, which a refused one does when it is written.
        if outcome == Outcome::Completed {
            self.core.refused_calls.count(&self.record.caller);
        }
        records::write_record(self.core, self.record, false, None).await;
        CallAnswer::Result(answered)
    }
}

fn plan_request(
    permit: &JudgedCall,
    plan: &ProposedPlan,
    (demand, document): (ApprovalDemand, CanonicalBytes),
    context: &CallContext,
) -> TicketRequest {
    let (contract, proposal) = (permit.contract(), permit.proposal());
    let (name, caller) = (&contract.contract().identity.name, &proposal.caller);
    let contract_digest = contract.digest();
    let parts: [&[u8]; 4] = [caller.tenant.as_bytes(), name.as_bytes(), contract_digest.as_bytes(), document.bytes()];
    let payload = Digest::compute(DigestDomain::Proposal, &parts);
    let arguments = Bytes::copy_from_slice(document.bytes());
    TicketRequest {
        id: TicketId::new(),
        // What the agent proposed, so that the same proposal under a newer contract finds this ticket.
        key: TicketKey::new(caller, &permit.payload_digest()),
        demand,
        subject: TicketSubject {
            consequence: Some(plan.describe()),
            price: plan.cost_max.as_ref().map(CostCeiling::describe),
            sensitive: plan.sensitive(),
            plan: plan.calls.iter().map(|call| call.demand.clone()).collect(),
            ..ticket_subject(proposal, contract, context, (payload, arguments))
        },
    }
}

fn proposed_call(previewed: &PreviewedCall, demand: ApprovalDemand, times: u32) -> ProposedCall {
    let (contract, arguments) = (previewed.contract(), previewed.arguments().bytes());
    let identity = &contract.contract().identity;
    ProposedCall {
        tool_name: identity.name.clone(),
        tool_version: identity.version.clone(),
        contract_digest: contract.digest(),
        arguments: arguments.clone(),
        demand,
        times,
        sensitive: contract.approval_texts(arguments).sensitive,
    }
}

fn cannot_be_planned(call_id: &CallId, tool: &str, obstacle: &GrantObstacle) -> Box<Refusal> {
    let message = format!("`{tool}` cannot be a part of a plan: {obstacle}");
    let hint = "leave it out of the plan; make this call by itself, and a person decides about it".to_owned();
    let (gate, class) = (GateName::Confirmation, TaxonomyClass::ConfirmationMissing);
    Box::new(Refusal::new(call_id.clone(), gate, class, message, hint))
}
