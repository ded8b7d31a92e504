//! `servanda explain`: a recorded call, gate by gate, in words.

mod observed;
mod policy;
mod stages;

use std::path::Path;

use servanda_approval::TicketId;
use servanda_config::ledger_place::LedgerPlace;
use servanda_contract::{
    CallRecord, Caller, GateName, Refusal, legibility,
    record::{LATE_ANSWER_CLIENT, Outcome, QuestionRecord},
    tool::QuestionKind,
};
use servanda_effects::effect::{Effect, EffectId, EffectState, EffectStore as _, EffectTarget};
use servanda_effects::{TicketStore as _, ticket_store::TicketTarget};
use servanda_engine::{NoteKind, probes::ProbeReport};
use servanda_ledger::{CallQuery, LedgerReader};

use super::{calls, effects::page::standing};
use crate::{
    cli::ExplainArgs,
    configuration,
    failure::CommandFailure,
    screen::{Screen, TextStyle, paint},
};

/// For a record that was never finished: why, and what to do.
const UNKNOWN_END: &str = "  why       the gateway ended before it learned how the call ended (or the call is still under way): it may have happened";
const UNKNOWN_NEXT: &str =
    "  next      look at the target with a read-only tool; do not repeat the call before you know";

/// For a record whose end is in a later call or in a task.
const INPUT_NEXT: &str =
    "  why       the upstream asked for input first; a later call that continues this one says how it went on";
const PAGE_NEXT: &str =
    "  why       it waits for approval, and its client was given the address where people decide; nothing was sent";
const HELD_TASK_NEXT: &str = "  why       it waited for approval as a task, and nothing was sent; a later call that continues this one says how it went on";
const TASK_NEXT: &str = "  why       the upstream works on it as a task; how the task ended is not known yet";

pub(crate) async fn run(config: &Path, args: &ExplainArgs, screen: Screen) -> Result<(), CommandFailure> {
    let loaded = configuration::read(config)?;
    let place = configuration::ledger_place(&loaded)?;
    if place.is_missing() {
        return Err(calls::nothing_yet(&place));
    }
    let reader = place.read().await?;
    let call_id = args.call_id.as_deref().map(str::trim).filter(|id| !id.is_empty());
    // Two are read: a second match means that the beginning of the id is ambiguous.
    let (query, limit) = match (call_id, args.last) {
        (Some(id), _) => (CallQuery::Id(id.to_owned()), 2),
        (None, true) => (CallQuery::Latest, 1),
        (None, false) => return calls::latest(&reader, &place, screen).await,
    };
    let mut found = reader.find(&query, limit).await?;
    let record = match (found.pop(), found.is_empty()) {
        (Some(record), true) => record,
        (Some(_), false) => {
            let id = call_id.unwrap_or_default();
            return Err(CommandFailure::bad_input(format!("more than one call begins with `{id}`"))
                .hint("give more of the id; `servanda calls` lists them"));
        }
        (None, _) => {
            let Some(id) = call_id else { return Err(calls::nothing_yet(&place)) };
            return Err(
                CommandFailure::bad_input(format!("there is no call `{id}`")).hint("`servanda calls` lists them")
            );
        }
    };
    if args.quarantined {
        return quarantined(&reader, &record, screen).await;
    }
    let note = reader.note(NoteKind::Observed, record.call_id.as_str()).await?;
    let observed = note.as_ref().and_then(ProbeReport::read);
    let effect = effect_since(&place, &record).await;
    let grant = grant_of(&place, &record).await;
    if screen.json {
        let effect_now = effect.as_ref().map(|effect| effect.state);
        return screen.json(&ExplainedCall { record: &record, effect_now, observed, grant });
    }
    let grant = grant.map(|grant| format!("\n  grant     {grant}"));
    let since = effect.iter().map(|effect| format!("\n  now       {}", standing(effect)));
    let page = [render(&record)].into_iter().chain(grant).chain(since).chain(observed.iter().flat_map(observed::lines));
    screen.page(page.collect::<Vec<_>>().join("\n"))
}

/// The current state of the effect of a call whose record does not say how it ended: a late answer, recovery or a person may have settled
/// it since.
async fn effect_since(place: &LedgerPlace, record: &CallRecord) -> Option<Effect> {
    let id = record.effect_id.as_ref().filter(|_| matches!(record.outcome, Outcome::Unknown | Outcome::Dispatching))?;
    let effects = place.open().await.ok()?;
    effects.find(EffectTarget::Id(EffectId::from(id.clone()))).await.ok()?
}

/// Which use of which grant the call was, if a grant covered it.
async fn grant_of(place: &LedgerPlace, record: &CallRecord) -> Option<String> {
    let id = TicketId::from(record.ticket_id.clone()?);
    let tickets = place.open().await.ok()?;
    let ticket = tickets.find_ticket(TicketTarget::Id(id)).await.ok()??;
    let standing = ticket.grant.as_deref()?;
    let ((number, uses_max), grant) = (standing.use_of(&record.call_id)?, &standing.signed.grant);
    let (person, id) = (legibility::one_line(&grant.approver), &ticket.id);
    Some(format!("use {number} of {uses_max}, allowed by {person}: servanda grants show {id}"))
}

/// A record, the current state of its effect, and what probes saw around its call.
#[derive(serde::Serialize)]
struct ExplainedCall<'a> {
    #[serde(flatten)]
    record: &'a CallRecord,
    #[serde(skip_serializing_if = "Option::is_none")]
    effect_now: Option<EffectState>,
    #[serde(skip_serializing_if = "Option::is_none")]
    observed: Option<ProbeReport>,
    /// Which use of which grant it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    grant: Option<String>,
}

async fn quarantined(reader: &LedgerReader, record: &CallRecord, screen: Screen) -> Result<(), CommandFailure> {
    let kept = reader.quarantined(record.call_id.as_str()).await?.ok_or_else(|| {
        CommandFailure::bad_input("no answer of that call was kept back")
            .hint(format!("servanda explain {}", record.call_id))
    })?;
    if screen.json {
        let answer = String::from_utf8_lossy(&kept.body);
        return screen.json(
            &serde_json::json!({ "call_id": record.call_id, "bytes_total": kept.bytes_total, "answer": answer }),
        );
    }
    if kept.bytes_total > i64::try_from(kept.body.len()).unwrap_or(i64::MAX) {
        screen.say(format_args!("note: the answer had {} bytes; this is the beginning", kept.bytes_total));
    }
    screen.data(String::from_utf8_lossy(&kept.body))
}

/// A record as a page.
pub(crate) fn render(record: &CallRecord) -> String {
    let mut lines = vec![format!("{}  {}", paint(record.call_id.as_str(), TextStyle::Strong), record.tool)];
    let client = record.caller.client.as_deref().map_or_else(String::new, |client| format!(" with {client}"));
    lines.push(format!(
        "  called at {} by {}/{}{client}",
        record.received_at, record.caller.tenant, record.caller.principal
    ));
    lines.extend(authority(&record.caller));
    if let Some(contract) = &record.contract {
        lines.push(format!(
            "  contract  {} {} ({}), effect class {:?}",
            contract.name,
            contract.version,
            contract.digest.short(),
            contract.effect_class
        ));
        if let Some(class) = record.policy.as_ref().and_then(|policy| policy.program_class) {
            lines.push(format!("  class     {}, by the program in this call", class.word()));
        }
        let reached = record.dispatched_at.is_some() && record.outcome != Outcome::NotExecuted;
        let did = if reached { "performed by" } else { "bound to" };
        lines.push(format!("  {did} `{}` as `{}`", contract.upstream, contract.upstream_tool));
    }
    lines.push(format!("  outcome   {}", outcome(record)));
    lines.extend(record.price.iter().map(|price| format!("  costs     at most {price}")));
    lines.extend(record.questions.iter().map(asked));
    lines.push(String::new());
    lines.extend(GateName::ALL.iter().map(|gate| stages::stage(*gate, record)));
    lines.extend(record.policy.iter().flat_map(policy::lines));
    if record.outcome == Outcome::Dispatching {
        lines.extend(["", UNKNOWN_END, UNKNOWN_NEXT].map(str::to_owned));
    }
    lines.extend(conversation(record));
    if let Some(refusal) = &record.refusal {
        lines.extend(why(refusal));
    }
    lines.push(String::new());
    lines.push(format!("  trace {}  arguments digest {}", record.trace_id, record.arguments_digest.short()));
    lines.join("\n")
}

/// A line about a question that the upstream asked.
fn asked(question: &QuestionRecord) -> String {
    let kind = question.kind.map_or("a kind that is not known", QuestionKind::word);
    match &question.refused {
        None => format!("  asked     the caller ({kind})"),
        Some(why) => format!("  asked     not passed on ({kind}): {why}"),
    }
}

/// Which agent acted for the user with which credential, if one did, and whether the agent's name is proven.
fn authority(caller: &Caller) -> Vec<String> {
    let mut lines = Vec::new();
    for (number, actor) in caller.actors.iter().enumerate() {
        let title = if number == 0 { "acting" } else { "" };
        let word = if actor.proven { "proven" } else { "as its holder claims" };
        lines.push(format!("  {title:<9} {} ({word})", actor.name));
    }
    if let Some(credential) = &caller.credential {
        lines.push(match credential.strip_prefix("operator:") {
            Some(key) => format!("  acting    the operator, for the holder of {key}, which was not shown"),
            None => format!("  shown     {credential}"),
        });
    }
    lines
}

/// How the call is related to others: rounds of one conversation, and the task it became.
fn conversation(record: &CallRecord) -> Vec<String> {
    let mut lines = Vec::new();
    match (&record.continues, record.caller.client.as_deref()) {
        (Some(first), Some("servanda recovery")) => {
            lines.push(format!("  recovers  {first}, whose gateway no longer looked after it"));
        }
        (Some(first), Some(LATE_ANSWER_CLIENT)) => {
            lines.push(format!("  settles   {first}: this is its answer, which came after its deadline"));
        }
        (Some(first), _) if record.ticket_id.is_some() => {
            lines.push(format!("  continues {first}: that call waited for people, or for input"));
        }
        (Some(first), _) => lines.push(format!("  continues {first}: the upstream had asked for input there")),
        (None, _) => {}
    }
    if let Some(effect) = &record.effect_id {
        lines.push(format!("  effect    {effect}: servanda effects show {effect}"));
    }
    match (record.outcome, &record.refusal, &record.task_id) {
        (Outcome::InputRequired, None, _) if record.ticket_id.is_some() => lines.push(PAGE_NEXT.to_owned()),
        (Outcome::InputRequired, None, _) => lines.push(INPUT_NEXT.to_owned()),
        (Outcome::TaskCreated, _, Some(task)) => {
            lines.push(format!("  task      {task}"));
            lines.push(if record.dispatched_at.is_some() { TASK_NEXT } else { HELD_TASK_NEXT }.to_owned());
        }
        (_, _, Some(task)) => lines.push(format!("  task      {task}")),
        _ => {}
    }
    if !lines.is_empty() {
        lines.insert(0, String::new());
    }
    lines
}

fn why(refusal: &Refusal) -> Vec<String> {
    let mut lines = vec![String::new(), format!("  why       {}", refusal.message)];
    if refusal.field_errors.is_empty() {
        lines.push("    at (the whole call): no single argument is to blame".to_owned());
    }
    for error in &refusal.field_errors {
        let pointer = if error.pointer.is_empty() { "(the whole)" } else { &error.pointer };
        lines.push(format!("    at {pointer}: expected {}; was {}", error.expected, error.actual));
        if let Some(name) = &error.did_you_mean {
            lines.push(format!("       did you mean `{name}`?"));
        }
    }
    lines.push(format!("  repair    {}", refusal.hint));
    lines.extend(refusal.operator_hint.iter().map(|hint| format!("  operator  {hint}")));
    if let Some(progress) = &refusal.repair {
        lines.push(format!("  attempt   {} of {}", progress.attempt, progress.attempts_max));
    }
    lines
}

fn outcome(record: &CallRecord) -> String {
    let style = match record.outcome {
        Outcome::Completed | Outcome::Replayed => TextStyle::Good,
        Outcome::Refused
        | Outcome::Previewed
        | Outcome::ToolError
        | Outcome::NotExecuted
        | Outcome::InputRequired
        | Outcome::TaskCreated => TextStyle::Careful,
        Outcome::Dispatching | Outcome::Quarantined | Outcome::Unknown => TextStyle::Bad,
    };
    let class = record.class.map_or_else(String::new, |class| format!(" · {}", class.name()));
    let took = match (record.finished_at, record.dispatched_at) {
        (Some(at), Some(sent_at)) if record.is_late_answer() => {
            format!(" · {} ms after the call was sent", at.since_ms(sent_at))
        }
        (Some(at), _) => format!(" · {} ms", at.since_ms(record.received_at)),
        (None, _) => String::new(),
    };
    format!("{}{class}{took}", paint(record.ended(), style))
}
