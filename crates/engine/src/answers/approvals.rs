//! What an agent is told about a call that needs a person's approval. "Denied by a person" and "nobody answered" are different words, because
//! an agent must not take silence for a no.

use serde_json::{json, value::RawValue};
use servanda_approval::{Ticket, TicketId, TicketReply, TicketState, WarrantFault};
use servanda_contract::{
    CallId, GateName, Refusal, TaxonomyClass, Timestamp, legibility, refusal::EffectKnowledge, taxonomy::NextAction,
};
use servanda_effects::JournalError;

use crate::approvals::AttestationKeysError;

/// When an agent that cannot wait may look again.
const LOOK_AGAIN_MS: u64 = 15_000;

/// People have not decided yet. `plan_tool`: the tool by which the agent may ask about several calls at once.
pub(crate) fn pending(
    call_id: &CallId,
    tool: &str,
    ticket: &Ticket,
    (console_url, plan_tool): (Option<&str>, Option<&str>),
) -> Box<Refusal> {
    let until = Timestamp::from_unix_ms(ticket.decide_by.clock_ms);
    let place = console_url.map_or_else(String::new, |url| format!(" at {}", page(ticket, url)));
    let plan = plan_tool.map_or_else(String::new, |tool| format!(". `{tool}` asks about several calls at once"));
    let mut refusal = refusal(
        call_id,
        format!("`{tool}` waits for approval by {} until {until}; nothing was sent", ticket.demand.describe()),
        format!("tell the user that a person decides{place}; then make the same call again{plan}"),
    );
    refusal.retryable = true;
    refusal.retry_after_ms = Some(LOOK_AGAIN_MS);
    refusal.next_action = NextAction::RetryAfterDelay;
    refusal.handle = Some(ticket.id.to_string());
    let operators = format!("`servanda approvals show {}` shows what is to be approved", ticket.id);
    Box::new(refusal.for_operators(operators))
}

/// The question that sends a client's person to the page of a ticket. The answer decides nothing.
pub(crate) fn page_question(tool: &str, ticket: &Ticket, console_url: &str) -> Option<Box<RawValue>> {
    let params = json!({
        "mode": "url",
        "message": format!(
            "`{tool}` waits for approval by {}. People decide on this page after signing in; an answer given here decides nothing.",
            ticket.demand.describe()
        ),
        "url": page(ticket, console_url),
    });
    RawValue::from_string(params.to_string()).ok()
}

/// The first status of a task whose call waits for people.
pub(crate) fn held_as_task(tool: &str, ticket: &TicketId) -> String {
    format!("`{tool}` waits for approval: ticket {ticket}; nothing was sent")
}

/// The status of a task while its call waits.
pub(crate) fn waiting_status(tool: &str, ticket: &Ticket, console_url: Option<&str>) -> String {
    let id = &ticket.id;
    if ticket.state != TicketState::Pending {
        return format!(
            "the time of people to decide about `{tool}` is over (ticket {id}); the gateway goes on with the call as long as the \
             credential of its client is good"
        );
    }
    let until = Timestamp::from_unix_ms(ticket.decide_by.clock_ms);
    let place = console_url.map_or_else(String::new, |url| format!("; a person decides at {}", page(ticket, url)));
    let by = ticket.demand.describe();
    format!("`{tool}` waits for approval by {by} until {until}: ticket {id}{place}; nothing was sent")
}

/// The ticket ended, or the run was stopped.
pub(crate) fn ended(call_id: &CallId, tool: &str, ticket: &Ticket, reply: &TicketReply) -> Box<Refusal> {
    let mut refusal = match reply {
        TicketReply::Denied { until_ms } => denied(call_id, tool, ticket, *until_ms),
        TicketReply::NobodyDecided => may_ask_again(refusal(
            call_id,
            format!("nobody decided about `{tool}` in time, so it was not approved; it was not denied either"),
            "you may ask again: the same call opens a new ticket".to_owned(),
        )),
        TicketReply::Lapsed => may_ask_again(refusal(
            call_id,
            format!("`{tool}` was approved, but the approval was not used in time and has lapsed"),
            "you may ask again: the same call opens a new ticket".to_owned(),
        )),
        TicketReply::RunStopped { .. } => *run_stopped(call_id, reply),
        TicketReply::NotNow => used_by_another(call_id, tool, ticket),
        _ => *unreachable(call_id),
    };
    if refusal.handle.is_none() {
        refusal.handle = Some(ticket.id.to_string());
    }
    Box::new(refusal)
}

/// People denied so much of this run that no further calls of it are asked about.
pub(crate) fn run_stopped(call_id: &CallId, reply: &TicketReply) -> Box<Refusal> {
    let until = match reply {
        TicketReply::RunStopped { until_ms } => format!(" before {}", Timestamp::from_unix_ms(*until_ms)),
        _ => String::new(),
    };
    Box::new(refusal(
        call_id,
        format!("people denied several calls of this run, so no further call of it is asked about{until}"),
        "stop, and ask the user what they want; do not try another way".to_owned(),
    ))
}

/// A person denied it.
fn denied(call_id: &CallId, tool: &str, ticket: &Ticket, until_ms: u64) -> Refusal {
    let reason = ticket.denial().and_then(|signed| signed.decision.reason.as_deref());
    let reason = reason.map_or_else(
        || "no reason was given".to_owned(),
        |reason| format!("the reason given: {}", legibility::one_line(reason)),
    );
    refusal(
        call_id,
        format!("a person denied `{tool}`; {reason}"),
        format!(
            "do not try another way, and do not ask for the same again before {}; tell the user",
            Timestamp::from_unix_ms(until_ms)
        ),
    )
}

/// The approval is not for this call, or cannot be trusted.
pub(crate) fn not_accepted(call_id: &CallId, fault: WarrantFault) -> Box<Refusal> {
    let refusal = refusal(
        call_id,
        format!("the approval was not accepted, so nothing was sent: {fault}"),
        "tell the user; an operator has to look at it".to_owned(),
    );
    Box::new(
        refusal
            .for_operators("the stored ticket is not what people decided: `servanda ledger verify` checks the ledger"),
    )
}

/// The approval was used by another call, or its time ended, at the moment of dispatch; or the grant that covered the call ended.
pub(crate) fn not_consumed(call_id: &CallId, reply: &TicketReply) -> Box<Refusal> {
    let why = match reply {
        TicketReply::Lapsed => "its time was over",
        TicketReply::OtherPayload => "it is for other arguments",
        TicketReply::NotFound => "there is no such ticket",
        TicketReply::GrantEnded(end) => end.describe(),
        _ => "it was used already or is no longer valid",
    };
    Box::new(may_ask_again(refusal(
        call_id,
        format!("the approval could not be used, so nothing was sent: {why}"),
        "make the same call again: it opens a new ticket".to_owned(),
    )))
}

/// Another call with the same arguments used the approval of a task.
fn used_by_another(call_id: &CallId, tool: &str, ticket: &Ticket) -> Refusal {
    let other = ticket.consumed.as_ref().map_or_else(String::new, |used| format!(" ({})", used.call_id));
    may_ask_again(refusal(
        call_id,
        format!("another call of `{tool}` with the same arguments{other} used the approval, so this one was not made"),
        "if that call was yours, it is done; make the call again only if it is to be done twice".to_owned(),
    ))
}

/// The client cancelled the task of the call.
pub(crate) fn withdrawn(call_id: &CallId, tool: &str) -> Refusal {
    let message = format!("`{tool}` was cancelled before people approved it; nothing was sent");
    may_ask_again(refusal(call_id, message, "make the call again if it is still wanted".to_owned()))
}

/// The answer of a task is too long to be kept.
pub(crate) fn answer_too_long(call_id: &CallId) -> Box<Refusal> {
    let message = "the call was answered, and the answer is too long to be kept with its task".to_owned();
    let hint = "make the call again without a task: its operation is done, and the stored answer is returned";
    Box::new(may_ask_again(refusal(call_id, message, hint.to_owned())))
}

/// The gateway could not make the call of a task again.
pub(crate) fn not_repeated(call_id: &CallId, tool: &str, why: &str) -> Box<Refusal> {
    let message = format!("people decided about `{tool}`, but the call could not go on: {why}");
    Box::new(may_ask_again(refusal(call_id, message, "make the same call again".to_owned())))
}

/// The store of tickets does not answer.
pub(crate) fn store_away(call_id: &CallId, error: &JournalError) -> Box<Refusal> {
    let (gate, class) = (GateName::Confirmation, TaxonomyClass::DependencyUnavailable);
    let message = format!("the call needs approval, and the store of approvals does not answer: {}", error.reason());
    let hint = "make the same call again later; nothing was sent".to_owned();
    let refusal = Refusal::new(call_id.clone(), gate, class, message, hint).with_effect(EffectKnowledge::None);
    Box::new(refusal.for_operators("`servanda doctor` looks at the store"))
}

/// The keys of approvals cannot be read.
pub(crate) fn no_keys(call_id: &CallId, error: &AttestationKeysError) -> Box<Refusal> {
    let (gate, class) = (GateName::Confirmation, TaxonomyClass::DependencyUnavailable);
    let hint = "tell the user: an operator has to look at it; nothing was sent".to_owned();
    Box::new(Refusal::new(call_id.clone(), gate, class, error.to_string(), hint).with_effect(EffectKnowledge::None))
}

/// A state that the rules exclude; refused all the same.
pub(crate) fn unreachable(call_id: &CallId) -> Box<Refusal> {
    let message = "the approval of this call cannot be decided, so nothing was sent".to_owned();
    Box::new(refusal(call_id, message, "tell the user; an operator has to look at it".to_owned()))
}

fn refusal(call_id: &CallId, message: String, hint: String) -> Refusal {
    let (gate, class) = (GateName::Confirmation, TaxonomyClass::ConfirmationMissing);
    Refusal::new(call_id.clone(), gate, class, message, hint).with_effect(EffectKnowledge::None)
}

/// The address of a ticket's page. It carries no right.
fn page(ticket: &Ticket, console_url: &str) -> String {
    format!("{console_url}/approvals/{}", ticket.id)
}

fn may_ask_again(mut refusal: Refusal) -> Refusal {
    refusal.retryable = true;
    refusal.fail_closed = false;
    refusal.next_action = NextAction::RetryAfterDelay;
    refusal
}
