//! What an agent is told about a plan that it proposes: in words, and as structured content, call by call.

use std::sync::Arc;

use serde::Serialize;
use serde_json::json;
use servanda_approval::{CostCeiling, PlanFault, Ticket};
use servanda_contract::{
    CallId, CallRecord, Feedback, GateName, Refusal, TaxonomyClass, Timestamp, legibility, refusal::EffectKnowledge,
};
use servanda_mcp::{envelope::to_json, fields::meta};

use super::tool_result::text_blocks;
use crate::client::ToolResult;

/// What a proposal came to.
#[derive(Debug)]
pub(crate) struct PlanAnswer {
    pub(crate) standing: PlanStanding,
    /// The exposed names of the calls' tools.
    pub(crate) tools: Vec<String>,
    /// What was found about each call, in the same order.
    pub(crate) entries: Vec<JudgedEntry>,
    /// The ticket, if people were asked.
    pub(crate) ticket: Option<Arc<Ticket>>,
}

/// How a plan stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlanStanding {
    /// A call of it cannot be a part of a plan, so people are not asked.
    Refused,
    /// No call of it needs an approval.
    NeedsNone,
    /// A person decides.
    Pending,
    /// A person approved it.
    Approved,
}

/// What was found about one call of a plan.
#[derive(Debug)]
pub(crate) enum JudgedEntry {
    /// It needs an approval.
    NeedsApproval,
    /// It needs none.
    NeedsNone,
    /// It would be refused, or cannot be a part of a plan.
    Refused(Box<Refusal>),
}

/// The structured content of an answer.
#[derive(Serialize)]
struct PlanReport<'a> {
    standing: &'static str,
    calls: Vec<CallReport<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ticket: Option<&'a str>,
    /// Until when people decide, or the plan holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    money_spent: Option<String>,
    /// The address of the ticket's page.
    #[serde(skip_serializing_if = "Option::is_none")]
    decided_at: Option<&'a str>,
}

/// One call of it.
#[derive(Serialize)]
struct CallReport<'a> {
    tool: &'a str,
    standing: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    refusal: Option<Feedback>,
    #[serde(skip_serializing_if = "Option::is_none")]
    times: Option<u32>,
    /// How many more times, if the plan is approved.
    #[serde(skip_serializing_if = "Option::is_none")]
    left: Option<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    bounds: Vec<BoundReport>,
}

/// What one argument may be.
#[derive(Serialize)]
struct BoundReport {
    argument: String,
    allowed: String,
}

impl PlanAnswer {
    /// The first reason why people were not asked.
    pub(crate) fn first_refusal(&self) -> Option<&Refusal> {
        self.entries.iter().find_map(|entry| match entry {
            JudgedEntry::Refused(refusal) => Some(&**refusal),
            JudgedEntry::NeedsApproval | JudgedEntry::NeedsNone => None,
        })
    }
}

/// The tool result of a proposal.
pub(crate) fn answer(answer: &PlanAnswer, record: &CallRecord, console_url: Option<&str>, now_ms: u64) -> ToolResult {
    let is_error = answer.standing == PlanStanding::Refused;
    let place = answer.ticket.as_ref().zip(console_url).map(|(ticket, url)| format!("{url}/approvals/{}", ticket.id));
    let ticket = answer.ticket.as_deref();
    let whole = to_json(&PlanReport {
        standing: answer.standing.word(),
        calls: calls(answer),
        ticket: ticket.map(|ticket| ticket.id.as_str()),
        until: ticket.map(|ticket| Timestamp::from_unix_ms(until_ms(ticket))),
        money_spent: ticket.and_then(|ticket| ticket.grant.as_ref()?.money_in_words()),
        decided_at: place.as_deref(),
    });
    let call = json!({ "id": record.call_id, "class": record.class });
    let json = format!(
        r#"{{"content":{},"structuredContent":{whole},"isError":{is_error},"_meta":{{"{}":{call}}}}}"#,
        text_blocks(vec![summary(answer, place.as_deref(), now_ms), whole.clone()]),
        meta::CALL,
    );
    ToolResult::plain(json, is_error)
}

/// The proposal names more days than the operator allows, or says too much.
pub(crate) fn out_of_bounds(call_id: &CallId, days_max: u32) -> Box<Refusal> {
    let message = format!("a plan is for 1 to {days_max} days, and its purpose has at most 500 characters");
    refusal(call_id, (GateName::Bounds, TaxonomyClass::OutOfBounds), message, "propose it for fewer days")
}

/// People cannot be asked about it as it is.
pub(crate) fn not_taken(call_id: &CallId, fault: PlanFault) -> Box<Refusal> {
    let class = TaxonomyClass::ConfirmationMissing;
    let message = format!("people are not asked about this plan: {fault}");
    refusal(call_id, (GateName::Confirmation, class), message, "divide the plan, and propose the parts")
}

/// A call's cost is not counted in the currency of the plan.
pub(crate) fn other_currency(call_id: &CallId, tool: &str, ceiling: &CostCeiling) -> Box<Refusal> {
    let message = format!("what `{tool}` costs is not counted in the currency of {}", ceiling.describe());
    let hint = "name the limit of money in the tool's currency, or leave it out";
    refusal(call_id, (GateName::Confirmation, TaxonomyClass::SemanticInvalidity), message, hint)
}

/// The time of an approved plan is over.
pub(crate) fn over(call_id: &CallId, ticket: &Ticket) -> Box<Refusal> {
    let message = "the plan was approved, and its time is over".to_owned();
    let hint = "you may propose it again: that opens a new ticket";
    let refusal = refusal(call_id, (GateName::Confirmation, TaxonomyClass::ConfirmationMissing), message, hint);
    Box::new(refusal.with_handle(ticket.id.as_str()))
}

impl PlanStanding {
    const fn word(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::NeedsNone => "needs_no_approval",
            Self::Pending => "pending",
            Self::Approved => "approved",
        }
    }
}

fn summary(answer: &PlanAnswer, place: Option<&str>, now_ms: u64) -> String {
    let Some(ticket) = &answer.ticket else {
        return match answer.standing {
            PlanStanding::NeedsNone => {
                "no call of this plan needs an approval: make the calls; nobody was asked, and nothing was sent"
                    .to_owned()
            }
            _ => "people were not asked about this plan, because not all of its calls can be a part of it: correct or \
                  leave out those that say why, and propose the plan again; nothing was sent"
                .to_owned(),
        };
    };
    let until = Timestamp::from_unix_ms(until_ms(ticket));
    let left_out = if answer.entries.iter().any(|entry| matches!(entry, JudgedEntry::NeedsNone)) {
        "; calls that need no approval are not a part of it: make them at any time"
    } else {
        ""
    };
    if answer.standing == PlanStanding::Approved {
        let hours = until_ms(ticket).saturating_sub(now_ms) / 3_600_000;
        return format!(
            "the plan is approved until {until} (ticket {}, {hours} whole hours): make the calls, within the bounds and as often as is left{left_out}",
            ticket.id
        );
    }
    let place = place.map_or_else(String::new, |place| format!(" at {place}"));
    format!(
        "the plan waits for approval by {} until {until} (ticket {}); nothing was sent. Tell the user that a person decides{place}; then \
         propose the same plan again{left_out}",
        ticket.demand.describe(),
        ticket.id
    )
}

/// Until when people decide, or the plan holds.
fn until_ms(ticket: &Ticket) -> u64 {
    ticket.grant.as_ref().map_or(ticket.decide_by.clock_ms, |standing| standing.until.clock_ms)
}

/// The calls, each with what was found about it. Those that need an approval are in the order of the plan's own.
fn calls(answer: &PlanAnswer) -> Vec<CallReport<'_>> {
    let terms = answer.ticket.as_ref().and_then(|ticket| ticket.plan());
    let mut planned = terms.iter().flat_map(|terms| terms.calls.iter().enumerate());
    let standing = answer.ticket.as_ref().and_then(|ticket| ticket.grant.as_deref());
    let entry = |(tool, judged)| {
        let report =
            |standing| CallReport { tool, standing, refusal: None, times: None, left: None, bounds: Vec::new() };
        match judged {
            &JudgedEntry::NeedsNone => report("needs_no_approval"),
            JudgedEntry::Refused(refusal) => {
                CallReport { refusal: Some(Feedback::from_refusal(refusal)), ..report("refused") }
            }
            JudgedEntry::NeedsApproval => {
                let Some((number, call)) = planned.next() else { return report("needs_approval") };
                let left = standing.map(|standing| call.uses_max.saturating_sub(standing.uses(number)));
                let bounds = call.bounds.iter().map(|bound| BoundReport {
                    argument: bound.pointer.clone(),
                    allowed: legibility::one_line(&bound.describe()),
                });
                CallReport { times: Some(call.uses_max), left, bounds: bounds.collect(), ..report("needs_approval") }
            }
        }
    };
    answer.tools.iter().map(String::as_str).zip(&answer.entries).map(entry).collect()
}

fn refusal(call_id: &CallId, (gate, class): (GateName, TaxonomyClass), message: String, hint: &str) -> Box<Refusal> {
    let refusal = Refusal::new(call_id.clone(), gate, class, message, hint.to_owned());
    Box::new(refusal.with_effect(EffectKnowledge::None))
}
