//! The fields of the form that makes a grant: what a person may make narrower, and what they asked for.

use std::collections::BTreeMap;

use servanda_approval::{ApprovalGrant, ArgumentBound, BoundRule, CostCeiling, Ticket, TicketId};
use servanda_contract::{Digest, digest::DigestDomain, legibility};
use servanda_engine::approvals::{GRANT_USES_USUAL, WantedBound, WantedGrant, grant_policy};

use super::plan_fields;
use crate::{fault::PageFault, form::Form, pages::decide};

/// For how many days a grant holds if the person does not say otherwise.
const DAYS_USUAL: u32 = 7;

/// One argument in the form.
pub(super) struct BoundField {
    pub(super) pointer: String,
    /// The bound in words.
    pub(super) words: String,
    /// The name and the present value of the field that makes it narrower; none if only the approved value is narrower, or nothing is.
    pub(super) text: Option<(String, String, &'static str)>,
    /// The name of the field that says "exactly as approved"; none if it says so already.
    pub(super) exactly: Option<String>,
    pub(super) is_exact: bool,
}

/// What the form says before a person changes it.
pub(super) fn usual(ticket: &Ticket, days_max: u32) -> WantedGrant {
    WantedGrant {
        ticket: ticket.id.clone(),
        payload: ticket.subject.payload,
        narrowed: BTreeMap::new(),
        further: Vec::new(),
        uses_max: GRANT_USES_USUAL,
        cost_max: None,
        days: DAYS_USUAL.min(days_max),
    }
}

/// What a form asks for.
pub(super) fn wanted(form: &Form<'_>, ticket: &Ticket, id: &str) -> Result<WantedGrant, PageFault> {
    let number = |name: &str| form.field(name).and_then(|text| text.trim().parse().ok());
    let bad = PageFault::BadForm("The form does not say how many calls and days. Nothing was done.");
    let (Some(uses_max), Some(days)) = (number("uses"), number("days")) else { return Err(bad) };
    let mut narrowed = BTreeMap::new();
    // Arguments that cannot be bounded are refused by the engine, with the reason.
    for bound in ticket.proposed_bounds().unwrap_or_default() {
        let (exactly, text) = (exactly_name(&bound), text_name(&bound));
        if form.field(&exactly) == Some("yes") {
            narrowed.insert(bound.pointer.clone(), WantedBound::Exactly);
        } else if let Some(text) = form.field(&text).map(str::trim)
            && !text.is_empty()
            && Some(text) != limit(&bound.rule)
        {
            narrowed.insert(bound.pointer.clone(), WantedBound::Text(text.to_owned()));
        }
    }
    let payload = decide::payload(form.field("payload"))?;
    let further = plan_fields::wanted(form)?;
    let cost_max = match form.field("cost_max").map(str::trim) {
        None | Some("") => None,
        Some(text) => Some(CostCeiling::read(text).map_err(|_| {
            PageFault::BadForm("The form does not say a sum of money, like 12.50 EUR. Nothing was done.")
        })?),
    };
    Ok(WantedGrant { ticket: TicketId::from(id.to_owned()), payload, narrowed, further, uses_max, cost_max, days })
}

/// The fields for the bounds of a draft.
pub(super) fn fields(ticket: &Ticket, draft: &ApprovalGrant, wanted: &WantedGrant) -> Vec<BoundField> {
    let proposed = ticket.proposed_bounds().unwrap_or_default();
    let field = |bound: &ArgumentBound| {
        let proposed = proposed.iter().find(|proposed| proposed.pointer == bound.pointer);
        let can_narrow = proposed.is_some_and(|proposed| !matches!(proposed.rule, BoundRule::Equal(_)));
        let present = limit(&bound.rule).or_else(|| proposed.and_then(|proposed| limit(&proposed.rule)));
        let text = proposed.and_then(|proposed| match &proposed.rule {
            BoundRule::AtMost(_) => Some((text_name(proposed), present?.to_owned(), "Not beyond")),
            BoundRule::Below(_) => Some((text_name(proposed), present?.to_owned(), "Below the folder")),
            BoundRule::Equal(_) | BoundRule::Origin(_) => None,
        });
        BoundField {
            pointer: legibility::reveal(&bound.pointer).into_owned(),
            words: legibility::one_line(&bound.describe()),
            text,
            exactly: can_narrow.then(|| exactly_name(bound)),
            is_exact: wanted.narrowed.get(&bound.pointer) == Some(&WantedBound::Exactly),
        }
    };
    draft.calls.first().map(|call| call.bounds.iter().map(field).collect()).unwrap_or_default()
}

/// What a person was shown: the policy, how many calls, how much money and how many days. A form that comes back with another one is shown
/// again first.
pub(super) fn digest_of_shown(draft: &ApprovalGrant, wanted: &WantedGrant) -> Digest {
    let (policy, days) = (grant_policy(draft), wanted.days.to_be_bytes());
    let uses: Vec<u8> = draft.calls.iter().flat_map(|call| call.uses_max.to_be_bytes()).collect();
    let money = draft.cost_max.as_ref().map(CostCeiling::describe).unwrap_or_default();
    Digest::compute(DigestDomain::Grant, &[b"shown", policy.as_bytes(), &uses, money.as_bytes(), &days])
}

fn limit(rule: &BoundRule) -> Option<&str> {
    match rule {
        BoundRule::AtMost(limit) | BoundRule::Below(limit) => Some(limit),
        BoundRule::Equal(_) | BoundRule::Origin(_) => None,
    }
}

fn text_name(bound: &ArgumentBound) -> String {
    format!("bound:{}", bound.pointer)
}

fn exactly_name(bound: &ArgumentBound) -> String {
    format!("exactly:{}", bound.pointer)
}
