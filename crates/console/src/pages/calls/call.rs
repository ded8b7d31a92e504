//! The page of one call: every stage with its verdict and time, what was refused and how to repair it, and the call as a command.

use askama::Template;
use http::StatusCode;
use servanda_approval::{Ticket, TicketId};
use servanda_contract::{
    CallRecord, Refusal, Timestamp, legibility,
    record::{Outcome, Texts},
};
use servanda_doors::http::PageRequest;

use super::{
    copy::{self, CopiedCall, PLACEHOLDER},
    line::{outcome_words, took_in_words},
    waterfall::{self, StageRow},
};
use crate::{
    context::{ConsoleContext, ConsoleViewer},
    fault::PageFault,
    pages::words::{StateWords, quoted},
    reply::ConsoleReply,
    routing::{call_path, effect_path, grant_path, ticket_path},
    view::{Moment, PageFrame},
};

#[derive(Template)]
#[template(path = "call.html")]
struct CallDocument {
    frame: PageFrame,
    tool: String,
    ended: StateWords,
    class: Option<&'static str>,
    took: Option<String>,
    at: Moment,
    /// What the record does not say yet, and what to do.
    open: Option<&'static str>,
    stages: Vec<StageRow>,
    refusal: Option<RefusalView>,
    facts: Vec<CallFact>,
    ids: Vec<CallFact>,
    copied: Option<CopiedCall>,
    placeholder: &'static str,
}

/// Something that is known about a call.
struct CallFact {
    name: &'static str,
    value: String,
    href: Option<String>,
    hint: Option<String>,
    is_code: bool,
}

/// Why a call was refused, and what to do.
struct RefusalView {
    message: String,
    hint: String,
    operator_hint: Option<String>,
    errors: Vec<RefusedField>,
    attempt: Option<String>,
}

struct RefusedField {
    pointer: String,
    expected: String,
    actual: String,
    did_you_mean: Option<String>,
}

/// Shows a call.
pub(crate) async fn page(context: &ConsoleContext, request: &PageRequest, id: &str) -> Result<ConsoleReply, PageFault> {
    let viewer = context.viewer(&request.headers).await?;
    let record = find(context, &viewer, id).await?;
    let ticket = ticket(context, &viewer, &record).await;
    let now = context.now();
    let tool = legibility::one_line(&record.tool);
    let known = ticket.as_ref().filter(|ticket| is_of(ticket, &record) && viewer.sees_all_values(ticket));
    let page = CallDocument {
        frame: PageFrame::of(format!("Call of {tool}"), &viewer.signed_in),
        tool,
        ended: outcome_words(&record),
        class: record.class.map(servanda_contract::TaxonomyClass::name).filter(|class| *class != "SUCCESS"),
        took: took(&record),
        at: Moment::new(record.received_at.unix_ms(), now),
        open: open_words(&record),
        stages: waterfall::rows(&record),
        refusal: record.refusal.as_ref().map(RefusalView::new),
        facts: facts(&record, ticket.as_ref()),
        ids: ids(&record),
        copied: copy::command(&record, known.map(|ticket| &ticket.subject.arguments[..])),
        placeholder: PLACEHOLDER,
    };
    Ok(ConsoleReply::page(StatusCode::OK, &page))
}

/// A call that the person sees: with a role every call of the tenant, and else those made for them.
async fn find(context: &ConsoleContext, viewer: &ConsoleViewer, id: &str) -> Result<CallRecord, PageFault> {
    let found = context.history.find_call(viewer.tenant().to_owned(), id.to_owned()).await?;
    let is_seen = |record: &CallRecord| {
        record.caller.tenant == viewer.tenant()
            && (viewer.has_role() || record.caller.principal == viewer.signed_in.person.principal)
    };
    found.filter(is_seen).ok_or(PageFault::NotFound)
}

/// The ticket of the approval that the call needed or used, if the person sees it. The page is complete without it.
async fn ticket(context: &ConsoleContext, viewer: &ConsoleViewer, record: &CallRecord) -> Option<Ticket> {
    let id = TicketId::from(record.ticket_id.clone()?);
    let ticket = context.approvals().visible_ticket(&viewer.signed_in.person, &id).await.ok()?;
    viewer.sees_ticket(&ticket).then_some(ticket)
}

/// Whether the arguments of a ticket are those of the call.
fn is_of(ticket: &Ticket, record: &CallRecord) -> bool {
    ticket.subject.tool == record.tool && record.proposal_digest == Some(ticket.subject.payload)
}

fn took(record: &CallRecord) -> Option<String> {
    let finished_at = record.finished_at?;
    Some(match record.dispatched_at.filter(|_| record.is_late_answer()) {
        Some(sent_at) => format!("{} after the call was sent", took_in_words(finished_at.since_ms(sent_at))),
        None => took_in_words(finished_at.since_ms(record.received_at)),
    })
}

const fn open_words(record: &CallRecord) -> Option<&'static str> {
    match record.outcome {
        Outcome::Dispatching => Some(
            "The call is under way, or its gateway ended before it learned how the call ended: it may have happened. Look at the target \
             with a tool that only reads before you repeat it.",
        ),
        Outcome::Unknown => Some(
            "The call was sent, and it is not known whether it was performed. Look at the target with a tool that only reads before you \
             repeat it; the effect says how it stands now.",
        ),
        Outcome::InputRequired if record.refusal.is_none() => {
            Some("The upstream asked for input first. A later call that continues this one says how it went on.")
        }
        Outcome::TaskCreated if record.dispatched_at.is_none() => Some(
            "It waited for people as a task, and nothing was sent for this call. A later call that continues this one says how it went on.",
        ),
        Outcome::TaskCreated => Some("The upstream works on it as a task. How the task ended is not known yet."),
        Outcome::Quarantined => Some(
            "The answer broke the contract and was kept back. The operator reads it with `servanda explain --quarantined`.",
        ),
        _ => None,
    }
}

fn fact(name: &'static str, value: &str) -> CallFact {
    CallFact { name, value: legibility::one_line(value), href: None, hint: None, is_code: false }
}

fn code(name: &'static str, value: &str) -> CallFact {
    CallFact { is_code: true, ..fact(name, value) }
}

fn facts(record: &CallRecord, ticket: Option<&Ticket>) -> Vec<CallFact> {
    let caller = &record.caller;
    let mut facts = vec![fact("Called for", &format!("{}/{}", caller.tenant, caller.principal))];
    for actor in &caller.actors {
        let hint = if actor.proven { "the name is proven" } else { "the name is only claimed" };
        facts.push(CallFact { hint: Some(hint.to_owned()), ..fact("Agent", &actor.name) });
    }
    facts.extend(caller.credential.as_ref().map(|credential| match credential.strip_prefix("operator:") {
        Some(key) => {
            CallFact { hint: Some("the operator, for the holder of this key".to_owned()), ..code("Credential", key) }
        }
        None => code("Credential", credential),
    }));
    facts.extend(caller.client.as_ref().map(|client| fact("Client (its own word)", client)));
    if let Some(contract) = &record.contract {
        facts.push(fact("Contract", &format!("{} {}", contract.name, contract.version)));
        let reached = record.dispatched_at.is_some() && record.outcome != Outcome::NotExecuted;
        let name = if reached { "Performed by" } else { "Bound to" };
        facts.push(fact(name, &format!("{} as {}", contract.upstream, contract.upstream_tool)));
    }
    facts.extend(record.price.iter().map(|price| fact("Costs at most", &price.to_string())));
    facts.extend(record.attempts.map(|attempts| fact("Sent", &format!("{attempts} times"))));
    if let Some(policy) = &record.policy {
        facts.extend((!policy.by.is_empty()).then(|| fact("Policies", &named(&policy.by))));
        let shadow = policy.shadow.as_ref();
        facts.extend(shadow.map(|shadow| fact("Shadow policies", &format!("would have {}", shadow.would_have.word()))));
    }
    for question in &record.questions {
        let kind = question.kind.map_or("a kind that is not known", servanda_contract::tool::QuestionKind::word);
        let hint = question.refused.as_ref().map(|why| format!("not passed on: {}", legibility::one_line(why)));
        facts.push(CallFact { hint, ..fact("The upstream asked", kind) });
    }
    facts.extend(ticket.and_then(|ticket| grant_fact(record, ticket)));
    facts.extend(record.ticket_id.as_ref().map(|id| CallFact {
        href: ticket.map(|ticket| ticket_path(ticket.id.as_str())),
        hint: ticket.map(|ticket| ticket.state.describe().to_owned()),
        ..code("Approval", id)
    }));
    facts.extend(record.effect_id.as_ref().map(|id| CallFact { href: Some(effect_path(id)), ..code("Effect", id) }));
    facts.extend(record.continues.as_ref().map(|first| CallFact {
        href: Some(call_path(first.as_str())),
        hint: record.is_late_answer().then(|| "this is its answer, which came after its deadline".to_owned()),
        ..code("Continues", first.as_str())
    }));
    facts
}

/// Which use of which grant the call was, if a grant covered it.
fn grant_fact(record: &CallRecord, ticket: &Ticket) -> Option<CallFact> {
    let standing = ticket.grant.as_ref()?;
    let ((number, uses_max), grant) = (standing.use_of(&record.call_id)?, &standing.signed.grant);
    let value = format!("use {number} of {uses_max}, allowed by {}", grant.approver);
    let hint = Some(format!("made from the ticket {}", ticket.id));
    Some(CallFact { href: Some(grant_path(ticket.id.as_str())), hint, ..fact("Grant", &value) })
}

fn ids(record: &CallRecord) -> Vec<CallFact> {
    let mut ids = vec![code("Call", record.call_id.as_str()), code("Trace", &record.trace_id)];
    ids.extend(record.task_id.as_ref().map(|task| code("Task", task)));
    ids.extend(record.caller.session.as_ref().map(|session| code("Session", session)));
    ids.push(code("Arguments, as a digest", &record.arguments_digest.to_string()));
    ids.extend(record.contract.as_ref().map(|contract| code("Contract, as a digest", &contract.digest.to_string())));
    ids.push(code("Received", &exactly(record.received_at)));
    ids.extend(record.dispatched_at.map(|at| code("Sent", &exactly(at))));
    ids.extend(record.finished_at.map(|at| code("Ended", &exactly(at))));
    ids
}

fn exactly(at: Timestamp) -> String {
    at.to_string()
}

fn named(texts: &Texts) -> String {
    texts.as_slice().join(", ")
}

impl RefusalView {
    fn new(refusal: &Refusal) -> Self {
        let line = |text: &str| quoted(&legibility::one_line(text));
        let plain = |text: &str| legibility::one_line(text);
        let error = |error: &servanda_contract::refusal::FieldError| RefusedField {
            pointer: if error.pointer.is_empty() { "(the whole)".to_owned() } else { plain(&error.pointer) },
            expected: plain(&error.expected),
            actual: plain(&error.actual),
            did_you_mean: error.did_you_mean.as_deref().map(plain),
        };
        Self {
            message: line(&refusal.message),
            hint: line(&refusal.hint),
            operator_hint: refusal.operator_hint.as_deref().map(line),
            errors: refusal.field_errors.iter().map(error).collect(),
            attempt: refusal
                .repair
                .as_ref()
                .map(|repair| format!("attempt {} of {}", repair.attempt, repair.attempts_max)),
        }
    }
}
