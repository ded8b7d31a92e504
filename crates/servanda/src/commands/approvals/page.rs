//! Tickets as text and as JSON.

use serde::Serialize;
use servanda_approval::{ApprovalPacket, PacketPlan, RenderedArguments, Ticket, TicketState};
use servanda_contract::{Timestamp, legibility};

use super::ID_CHARS_MIN;
use crate::screen::{TextStyle, distinct_chars, lines, paint, table};

/// The longest canonical arguments that are printed.
const CANONICAL_BYTES_MAX: usize = 16 * 1024;
/// Characters that a line of a packet cannot have, spelled out like the hidden ones.
const BLANK: &str = "<U+0020>";
const LINE_FEED: &str = "<U+000A>";
const TAB: &str = "<U+0009>";

/// A ticket in a list, for `--json`.
#[derive(Serialize)]
pub(super) struct TicketReport<'a> {
    ticket: &'a str,
    state: &'static str,
    tool: &'a str,
    tenant: &'a str,
    principal: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<&'a str>,
    class: &'static str,
    approvers: String,
    approvals: usize,
    payload_hash: String,
    created_at: String,
    decide_by: String,
    call_id: String,
    is_overdue: bool,
}

pub(super) fn report(ticket: &Ticket, now_ms: u64) -> TicketReport<'_> {
    let subject = &ticket.subject;
    TicketReport {
        ticket: ticket.id.as_str(),
        state: ticket.state.name(),
        tool: &subject.contract,
        tenant: &subject.tenant,
        principal: &subject.principal,
        agent: subject.actors.first().map(|actor| actor.name.as_str()),
        class: ticket.demand.class.word(),
        approvers: ticket.demand.describe(),
        approvals: ticket.approvals(),
        payload_hash: subject.payload.to_string(),
        created_at: time(ticket.created_ms),
        decide_by: time(ticket.decide_by.clock_ms),
        call_id: subject.call_id.to_string(),
        is_overdue: ticket.state == TicketState::Pending && now_ms >= ticket.decide_by.clock_ms,
    }
}

/// One line a ticket.
pub(super) fn list(tickets: &[Ticket], now_ms: u64) -> String {
    let mut rows = table(&["ticket", "state", "tool", "for", "needs", "decide by"]).with_prose(4);
    let chars = distinct_chars(tickets.iter().map(|ticket| ticket.id.as_str()), ID_CHARS_MIN);
    for ticket in tickets {
        let subject = &ticket.subject;
        let id: String = ticket.id.as_str().chars().take(chars).collect();
        let is_overdue = ticket.state == TicketState::Pending && now_ms >= ticket.decide_by.clock_ms;
        let state = if is_overdue { "overdue" } else { ticket.state.name() };
        let whom = match subject.actors.first() {
            Some(actor) => format!("{}/{} by {}", subject.tenant, subject.principal, actor.name),
            None => format!("{}/{}", subject.tenant, subject.principal),
        };
        let decided =
            if ticket.demand.quorum > 1 { format!(" ({} so far)", ticket.approvals()) } else { String::new() };
        rows.add_row([
            id,
            paint(state, style(ticket.state)),
            legibility::one_line(&subject.contract),
            legibility::one_line(&whom),
            format!("{}{decided}", ticket.demand.describe()),
            time(ticket.decide_by.clock_ms),
        ]);
    }
    lines(&rows)
}

/// Everything that a person sees before deciding.
pub(super) fn packet(packet: &ApprovalPacket) -> String {
    let mut text = vec![format!("{}  {}", paint(&packet.id, TextStyle::Strong), packet.state)];
    let mut line = |name: &str, value: &str| text.push(format!("  {name:<14}{value}"));
    line("action", &packet.action);
    if let Some(consequence) = &packet.consequence {
        line("consequence", consequence);
    }
    line("requested by", &packet.requester);
    line("risk", &format!("{}: {}", packet.risk_class, packet.causes.join("; ")));
    line("decided by", &packet.approvers);
    if !packet.responsible.is_empty() {
        line("groups now", &packet.responsible.join(", "));
    }
    line("decide by", &packet.decide_by);
    match (&packet.use_by, &packet.plan) {
        (Some(use_by), _) => line("use by", use_by),
        (None, Some(plan)) => line("holds for", &format!("{} days after the approval", plan.days)),
        (None, None) => line("use within", &format!("{} s after the approval", packet.use_within_ms / 1000)),
    }
    if let Some(after) = &packet.after {
        line("after it", after);
    }
    line("undone by", &packet.compensation);
    if let Some(price) = &packet.price {
        line("costs", price);
    }
    line("fingerprint", &packet.fingerprint);
    line("call", &packet.call_id);
    line("trace", &packet.trace_id);
    line("payload", &packet.payload_hash.to_string());
    line("if denied", packet.if_denied);
    if let Some(allowed) = &packet.plan {
        plan(allowed, &mut text);
    }
    text.push("  arguments".to_owned());
    arguments(&packet.arguments, &mut text);
    match &packet.arguments.canonical {
        Some(canonical) if canonical.len() <= CANONICAL_BYTES_MAX => text.push(format!("  exact bytes   {canonical}")),
        Some(canonical) => text.push(format!("  exact bytes   {} of them; --json shows them", canonical.len())),
        None => {}
    }
    if let Some(before) = &packet.before {
        text.push(format!("  before it, by {}", before.source));
        match &before.fault {
            Some(fault) => text.push(format!("    could not be read: {fault}")),
            None => arguments(&before.fields, &mut text),
        }
    }
    if let Some(said) = &packet.upstream_preview {
        text.push(format!("  by its own dry run, by {}", said.source));
        match &said.fault {
            Some(fault) => text.push(format!("    it could not say: {fault}")),
            None => arguments(&said.fields, &mut text),
        }
        text.extend(said.digest.map(|digest| format!("    digest  {digest}")));
    }
    for flag in &packet.flags {
        text.push(format!("  {}  {}", paint("look twice", TextStyle::Bad), flag.describe()));
    }
    for decision in &packet.decisions {
        text.push(format!("  decision      {decision}"));
    }
    if packet.decisions.is_empty() {
        text.push("  no decision so far".to_owned());
    }
    text.join("\n")
}

/// What the approval of a plan allows. The purpose is among the arguments, as data.
fn plan(plan: &PacketPlan, text: &mut Vec<String>) {
    text.push("  would allow, without asking".to_owned());
    for call in &plan.calls {
        let times = if call.times == 1 { "once".to_owned() } else { format!("at most {} times", call.times) };
        text.push(format!("    {}, {times}", call.action));
        match &call.bounds {
            Some(bounds) => text
                .extend(bounds.iter().map(|(pointer, words)| format!("      {} {words}", pointer.replace(' ', BLANK)))),
            None => text.push("      with bounds that are masked for you".to_owned()),
        }
    }
    text.extend(plan.cost_max.as_ref().map(|money| format!("    all together for no more than {money}")));
}

fn arguments(rendered: &RenderedArguments, text: &mut Vec<String>) {
    for leaf in &rendered.leaves {
        // A pointer without a blank ends at the first one, whatever the value is.
        let pointer = if leaf.pointer.is_empty() { "(whole)" } else { &leaf.pointer.replace(' ', BLANK) };
        let cut = if leaf.cut > 0 { format!(", and {} more characters", leaf.cut) } else { String::new() };
        let masked = if leaf.masked { ", masked for you" } else { "" };
        // One line a value: an argument cannot begin a line that looks like another one.
        let value = leaf.value.replace('\n', LINE_FEED).replace('\t', TAB);
        text.push(format!("    {pointer} = {value}  ({}{masked}{cut})", leaf.kind));
        text.extend(
            leaf.warnings.iter().map(|warning| format!("      {}: {warning}", paint("warning", TextStyle::Bad))),
        );
    }
    if rendered.left_out > 0 {
        text.push(format!("    and {} more values", rendered.left_out));
    }
}

fn style(state: TicketState) -> TextStyle {
    match state {
        TicketState::Pending => TextStyle::Strong,
        TicketState::Approved | TicketState::Consumed => TextStyle::Good,
        TicketState::Denied | TicketState::AutoDenied | TicketState::Superseded | TicketState::Lapsed => TextStyle::Bad,
    }
}

fn time(ms: u64) -> String {
    Timestamp::from_unix_ms(ms).to_string()
}

#[cfg(test)]
mod tests;
