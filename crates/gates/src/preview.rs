//! A call that is judged and not made: what the gates know about it, for a dry run.
//!
//! A [`PreviewedCall`] is a dead end. It has no permit, nothing makes one of it, and every later stage takes a permit. Deliberately not here:
//! asking the queries, looking at tickets and budgets, and the preview that is answered.

use std::ops::Deref;

use serde_json::Value;
use servanda_approval::{ApprovalDemand, TicketKey};
use servanda_contract::{
    Refusal,
    preview::{PredictedChange, PredictedEffects},
};

use crate::{ApprovalTexts, Confirmation, JudgedCall, PreconditionQuery, resources};

/// A call that gates 1 to 10 judged for a dry run. It cannot be cleared, fenced or performed.
#[derive(Debug)]
pub struct PreviewedCall {
    judged: JudgedCall,
    demand: Option<Box<ApprovalDemand>>,
}

impl PreviewedCall {
    pub(crate) fn new(confirmation: Confirmation) -> Self {
        let (judged, demand) = confirmation.for_preview();
        Self { judged, demand }
    }

    /// The approval that the call would need; none if it needs none.
    pub fn demand(&self) -> Option<&ApprovalDemand> {
        self.demand.as_deref()
    }

    /// What the ticket of the call would be looked up by.
    pub fn ticket_key(&self) -> TicketKey {
        TicketKey::new(&self.judged.proposal().caller, &self.judged.payload_digest())
    }

    /// The queries of the contract's preconditions.
    pub fn questions(&self) -> Vec<PreconditionQuery> {
        self.judged.contract().preconditions().questions(&self.argument_values())
    }

    /// Compares the answers to the queries, in their order, with the preconditions: for each, whether it holds. The error is the refusal
    /// that the call would get.
    pub fn judge_preconditions(&self, answers: Vec<Result<Value, String>>) -> Vec<Result<(), Box<Refusal>>> {
        let (call_id, arguments) = (self.judged.call_id(), self.argument_values());
        let preconditions = self.judged.contract().preconditions();
        let answers = answers.into_iter().enumerate();
        answers.map(|(number, answer)| preconditions.judge_one(number, call_id, &arguments, Some(answer))).collect()
    }

    /// What the call would change, by its contract.
    pub fn predicted_effects(&self) -> PredictedEffects {
        let contract = self.judged.contract();
        let written = contract.contract();
        let arguments = self.judged.arguments().bytes();
        let ApprovalTexts { consequence, after, .. } = contract.approval_texts(arguments);
        let effect = written.effect.as_deref();
        let declared = effect.map_or(&[][..], |effect| &effect.manifest);
        let targets = resources::changed(effect, arguments);
        let changes = declared.iter().zip(targets).map(|(change, resource)| PredictedChange {
            resource,
            operation: change.operation,
            scope: change.scope.clone(),
        });
        PredictedEffects {
            side_effect_class: self.judged.side_effect_class(),
            effect_class: self.judged.effect_class(),
            mutation_class: effect.and_then(|effect| effect.mutation_class),
            changes: changes.collect(),
            reads: self.judged.reads(),
            compensation_tool: written.transactional.compensation_tool.clone(),
            consequence,
            expected_after: after,
        }
    }

    fn argument_values(&self) -> Value {
        serde_json::from_slice(self.judged.arguments().bytes()).unwrap_or_default()
    }
}

impl Deref for PreviewedCall {
    type Target = JudgedCall;

    fn deref(&self) -> &JudgedCall {
        &self.judged
    }
}
