//! Gate 9, state: the tool is still served, and the preconditions of its contract hold before the call.
//!
//! The contract and the time of the call decide the first part. For the second part read-only tools have to be
//! asked, which other code does: this gate says what to ask and judges the answers. Deliberately not here: the
//! state of a tool (quarantined, withdrawn, unhealthy), which the catalog checks when the name is resolved.

use std::sync::Arc;

use servanda_approval::PolicyApproval;
use servanda_contract::{GateName, Refusal, TaxonomyClass, refusal::EffectKnowledge, taxonomy::NextAction};

use crate::{policy::PolicyApprovedCall, semantics::CanonicalCall};

/// Evidence: the tool is still served. Preconditions are checked when the call is claimed, as late as possible.
#[derive(Debug)]
pub(crate) struct InServiceCall {
    pub(crate) meant: CanonicalCall,
    /// What the policies that permit the call say about approvals.
    pub(crate) approvals: Arc<[PolicyApproval]>,
}

pub(crate) fn gate(sanctioned: PolicyApprovedCall) -> Result<InServiceCall, Box<Refusal>> {
    let PolicyApprovedCall { meant, approvals } = sanctioned;
    let lifecycle = &meant.resolved.contract.contract().identity.lifecycle;
    // A timestamp begins with its date, and dates compare as text. The last day is included.
    let today: String = meant.resolved.proposal.received_at.to_string().chars().take(DATE_CHARS).collect();
    let Some(date) = lifecycle.sunset_date.as_ref().filter(|date| **date < today) else {
        return Ok(InServiceCall { meant, approvals });
    };
    let hint = match &lifecycle.replacement {
        Some(replacement) => format!("use `{replacement}` instead; `tools/list` has all tools"),
        None => "it has no replacement: use another tool from `tools/list`, or tell the user".to_owned(),
    };
    let proposal = &meant.resolved.proposal;
    let message = format!("`{}` is not served any more: its last day was {date}", proposal.tool);
    let mut refusal = Refusal::new(proposal.call_id.clone(), GateName::State, TaxonomyClass::StaleState, message, hint)
        .with_effect(EffectKnowledge::None)
        .with_next_action(NextAction::UseAnotherTool);
    refusal.repairable = false;
    Err(Box::new(refusal))
}

/// The number of characters in `2026-11-15`.
const DATE_CHARS: usize = 10;
