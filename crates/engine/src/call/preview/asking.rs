//! What a dry run looks at after gate 9: the operation, the approval, the budgets, and, where the contract names them, what read-only tools
//! and the upstream's own dry run say.

use std::sync::{Arc, PoisonError};

use serde_json::Value;
use servanda_contract::{
    Refusal, TaxonomyClass,
    preview::{PreconditionStanding, PreviewedBudget, PreviewedOperation, PreviewedPrecondition, UpstreamPreview},
};
use servanda_gates::{JudgedCall, PreviewedCall, budget::Rate};
use tokio::time::Instant;

use super::findings::PreviewFindings;
use crate::{
    budgets::{self, BudgetForecast, DrawForecast},
    call::{context::CallContext, revocation, state::CallPipeline},
    internal_call::{self, InternalCall, InternalCallError},
};

/// Bytes of an upstream's preview that are passed on.
const UPSTREAM_PREVIEW_BYTES_MAX: usize = 16 * 1024;

impl CallPipeline<'_> {
    /// Looks at everything that decides about a judged call.
    pub(super) async fn look_ahead(&self, previewed: &PreviewedCall, context: &CallContext) -> PreviewFindings {
        let (operation, over) = self.look_at_operation(previewed).await;
        let mut findings = PreviewFindings {
            was_judged: true,
            effects: Some(previewed.predicted_effects()),
            cost: previewed.contract().price().ok().filter(|price| !price.is_free()).map(ToString::to_string),
            operation,
            ..PreviewFindings::default()
        };
        findings.refusals.extend(over);
        if findings.is_done() {
            return findings;
        }
        let (approval, denied) = self.look_at_approval(previewed).await;
        findings.approval = approval;
        findings.refusals.extend(denied);
        let deadline = self.deadline(previewed);
        self.look_at_budgets(previewed, context, deadline, &mut findings).await;
        self.ask_upstreams(previewed, context, deadline, &mut findings).await;
        findings
    }

    async fn look_at_budgets(
        &self,
        previewed: &PreviewedCall,
        context: &CallContext,
        deadline: Instant,
        findings: &mut PreviewFindings,
    ) {
        let sources = (&*self.snapshot.allowances, &*context.requester.authority);
        let BudgetForecast { draws, refused } =
            budgets::forecast(&self.core.budget_client, previewed, sources, deadline).await;
        findings.budgets = draws.iter().map(budget).collect();
        findings.refusals.extend(
            refused.map(|why| {
                *budgets::refuse(self.record.call_id.clone(), &self.record.tool, &why, self.core.clock.now())
            }),
        );
    }

    /// Asks what the contract wants to know, and the upstream's own dry run.
    async fn ask_upstreams(
        &self,
        previewed: &PreviewedCall,
        context: &CallContext,
        deadline: Instant,
        findings: &mut PreviewFindings,
    ) {
        let dry_run = previewed.dry_run_arguments();
        // An operation that exists already is not asked about.
        let is_new = matches!(
            findings.operation,
            None | Some(PreviewedOperation::NoKey | PreviewedOperation::New | PreviewedOperation::OutcomeUnknown)
        );
        if !is_new || (!previewed.asks_first() && dry_run.is_none()) {
            return;
        }
        if let Err(refusal) = revocation::recheck(self.core, &context.requester.authority, previewed.call_id()).await {
            findings.refusals.insert(0, *refusal);
            return;
        }
        let may_ask = self.may_ask(previewed);
        let (preconditions, refusals) = self.ask_preconditions(previewed, context, &may_ask, deadline).await;
        findings.preconditions = preconditions;
        findings.refusals.extend(refusals);
        let Some(arguments) = dry_run.filter(|_| findings.refusals.is_empty()) else { return };
        let (tool, caller) = (self.record.tool.as_str(), Arc::clone(&previewed.proposal().caller));
        let asked = async {
            let asking = InternalCall { tool, arguments, caller };
            let said = internal_call::ask_dry_run(self.core, self.snapshot, asking, deadline).await;
            said.map_err(InternalCallError::into_words).and_then(bounded_preview)
        };
        let said = unless_given_up(&may_ask, context, asked).await;
        findings.upstream_preview = Some(said.map_or_else(UpstreamPreview::NotAvailable, UpstreamPreview::Said));
    }

    async fn ask_preconditions(
        &self,
        previewed: &PreviewedCall,
        context: &CallContext,
        may_ask: &Result<(), String>,
        deadline: Instant,
    ) -> (Vec<PreviewedPrecondition>, Vec<Refusal>) {
        let questions = previewed.questions();
        let mut answers = Vec::with_capacity(questions.len());
        for question in &questions {
            let caller = Arc::clone(&previewed.proposal().caller);
            let asking = InternalCall { tool: &question.tool, arguments: question.arguments.clone(), caller };
            let asked = async {
                let answer = internal_call::ask(self.core, self.snapshot, asking, deadline).await;
                answer.map_err(InternalCallError::into_words)
            };
            answers.push(unless_given_up(may_ask, context, asked).await);
        }
        let mut refusals = Vec::new();
        let judged = questions.into_iter().zip(previewed.judge_preconditions(answers));
        let preconditions = judged.map(|(question, held)| {
            let (standing, why) = match held {
                Ok(()) => (PreconditionStanding::Holds, None),
                Err(refusal) => {
                    let standing = match refusal.error_code {
                        TaxonomyClass::StaleState => PreconditionStanding::DoesNotHold,
                        _ => PreconditionStanding::NotKnown,
                    };
                    let why = Some(refusal.message.clone());
                    refusals.push(*refusal);
                    (standing, why)
                }
            };
            PreviewedPrecondition { id: question.id, tool: question.tool, standing, why }
        });
        let preconditions = preconditions.collect();
        (preconditions, refusals)
    }

    /// Whether a dry run may ask upstreams now: no more often than the contract lets the tool be called. Calls do not count here, and dry
    /// runs do not count as calls.
    pub(in crate::call) fn may_ask(&self, judged: &JudgedCall) -> Result<(), String> {
        let written = judged.contract().contract();
        let rate = Rate::from_limits(&written.runtime.rate_limits);
        let (tenant, tool) = (&judged.proposal().caller.tenant, &written.identity.name);
        let now_ms = self.core.clock.now().unix_ms();
        let mut rates = self.calls.preview_rates.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = rates.take(tenant, tool, rate, now_ms);
        taken
            .map(drop)
            .map_err(|denied| format!("dry runs of this tool come too often; wait {} ms", denied.retry_after_ms))
    }
}

fn budget(looked: &DrawForecast) -> PreviewedBudget {
    let account = &looked.draw.account;
    PreviewedBudget {
        account: account.to_string(),
        draws: account.in_words(looked.draw.amount),
        left: account.in_words(looked.left),
        has_room: looked.has_room(),
    }
}

/// The answer to a question, if it may be asked and the caller still waits.
pub(in crate::call) async fn unless_given_up(
    may_ask: &Result<(), String>,
    context: &CallContext,
    asked: impl Future<Output = Result<Value, String>>,
) -> Result<Value, String> {
    may_ask.clone()?;
    tokio::select! {
        biased;
        () = context.terms.cancel.cancelled() => Err("the caller gave up".to_owned()),
        answer = asked => answer,
    }
}

/// What an upstream said, if it is short enough to be passed on.
pub(in crate::call) fn bounded_preview(said: Value) -> Result<Value, String> {
    let is_short = said.to_string().len() <= UPSTREAM_PREVIEW_BYTES_MAX;
    if is_short { Ok(said) } else { Err("what the upstream said is too long to be shown".to_owned()) }
}
