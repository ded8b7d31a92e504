//! Gate 9, state: the tool is still in its time, and the world is as the contract wants it before a call.
//!
//! The first half is told from the contract and the time at which the call came. The second has to be asked of read-only
//! tools, which is somebody else's business: this gate says what to ask and judges what comes back. How a tool stands
//! (quarantined, withdrawn, ill) is the catalog's to say and was looked at when the name was resolved.

use servanda_contract::{GateName, Refusal, TaxonomyClass, refusal::EffectKnowledge, taxonomy::NextAction};

use crate::{policy::PolicyApprovedCall, semantics::CanonicalCall};

/// Evidence: the tool is in its time. What has to be asked is asked when the call is claimed, as late as can be.
#[derive(Debug)]
pub(crate) struct InServiceCall {
    pub(crate) meant: CanonicalCall,
}

pub(crate) fn gate(sanctioned: PolicyApprovedCall) -> Result<InServiceCall, Box<Refusal>> {
    let PolicyApprovedCall { meant } = sanctioned;
    let lifecycle = &meant.resolved.contract.contract().identity.lifecycle;
    // A timestamp begins with its date, and dates compare as text. The last day is a day.
    let today: String = meant.resolved.proposal.received_at.to_string().chars().take(DATE_CHARS).collect();
    let Some(date) = lifecycle.sunset_date.as_ref().filter(|date| **date < today) else {
        return Ok(InServiceCall { meant });
    };
    let hint = match &lifecycle.replacement {
        Some(replacement) => format!("use `{replacement}` instead; `tools/list` has every tool there is"),
        None => "nothing takes its place: use another tool that `tools/list` has, or tell the user".to_owned(),
    };
    let proposal = &meant.resolved.proposal;
    let message = format!("`{}` is not served any more: its last day was {date}", proposal.tool);
    let mut refusal = Refusal::new(proposal.call_id.clone(), GateName::State, TaxonomyClass::StaleState, message, hint)
        .with_effect(EffectKnowledge::None)
        .with_next_action(NextAction::UseAnotherTool);
    refusal.repairable = false;
    Err(Box::new(refusal))
}

/// As many characters as `2026-11-15` has.
const DATE_CHARS: usize = 10;
