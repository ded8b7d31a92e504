//! The messages about tickets: the signed JSON of any webhook, and the shapes of Slack and Teams. Golden files fix them.
//!
//! A message has a link and no right: opening it asks for a sign-in. What agents wrote is plain text in it, without markup, and a text into
//! which arguments are filled is left out where an argument is sensitive. Deliberately not here: who gets a message.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use servanda_approval::{ApprovalPacket, ApprovalVerdict, Ticket, TicketNotice, TicketNoticeKind, TicketState};
use servanda_contract::{Timestamp, legibility};

use super::event::CallbackEvent;

/// The longest line of a message, in characters. Slack refuses messages with longer ones.
const LINE_CHARS_MAX: usize = 1_000;
/// The longest title, in characters.
const TITLE_CHARS_MAX: usize = 140;

/// What messages about tickets look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WebhookFormat {
    /// The gateway's own event.
    #[default]
    Standard,
    /// A message of an incoming webhook of Slack.
    Slack,
    /// A card for a workflow of Teams.
    Teams,
}

/// A message for people, whatever its shape.
struct PeoplesMessage {
    title: String,
    lines: Vec<(&'static str, String)>,
    url: Option<String>,
}

/// The event that tells of a ticket.
pub(super) fn event(
    format: WebhookFormat,
    ticket: &Ticket,
    notice: TicketNotice,
    console_url: Option<&str>,
    now: Timestamp,
) -> CallbackEvent {
    let packet = ApprovalPacket::new(ticket, |_| false, now.unix_ms());
    let url = console_url.map(|console| format!("{console}/approvals/{}", ticket.id));
    let body = match format {
        WebhookFormat::Standard => standard(ticket, &packet, notice.kind, url.as_deref(), now),
        WebhookFormat::Slack => slack(&PeoplesMessage::new(ticket, packet, notice.kind, url)),
        WebhookFormat::Teams => teams(&PeoplesMessage::new(ticket, packet, notice.kind, url)),
    };
    CallbackEvent {
        id: format!("msg_{}_{}_{}", ticket.id, notice.kind.word(), notice.number),
        kind: event_type(notice.kind),
        at: now,
        body: body.to_string(),
    }
}

/// The body of a message that only says that it is a test.
pub(super) fn test_body(format: WebhookFormat, now: Timestamp) -> String {
    let message = PeoplesMessage {
        title: "This is a test of Servanda".to_owned(),
        lines: vec![("What follows", "Messages about calls that wait for a person arrive here.".to_owned())],
        url: None,
    };
    match format {
        WebhookFormat::Standard => super::event::test_body(now),
        WebhookFormat::Slack => slack(&message).to_string(),
        WebhookFormat::Teams => teams(&message).to_string(),
    }
}

const fn event_type(kind: TicketNoticeKind) -> &'static str {
    match kind {
        TicketNoticeKind::Opened => "approval.opened",
        TicketNoticeKind::Escalated => "approval.escalated",
        TicketNoticeKind::Reminder => "approval.reminder",
        TicketNoticeKind::Outcome => "approval.outcome",
    }
}

/// What happens, unless that shows an argument which is sensitive.
fn consequence<'a>(ticket: &Ticket, packet: &'a ApprovalPacket) -> Option<&'a str> {
    packet.consequence.as_deref().filter(|_| ticket.subject.sensitive.is_empty())
}

fn standard(
    ticket: &Ticket,
    packet: &ApprovalPacket,
    kind: TicketNoticeKind,
    url: Option<&str>,
    now: Timestamp,
) -> Value {
    let (subject, demand) = (&ticket.subject, &ticket.demand);
    json!({
        "type": event_type(kind),
        "timestamp": now.to_string(),
        "data": {
            "ticket": packet.id,
            "state": ticket.state.name(),
            "url": url,
            "tenant": subject.tenant,
            "requester": packet.requester,
            "tool": subject.tool,
            "contract": { "name": subject.contract, "version": subject.contract_version },
            "class": packet.risk_class,
            "consequence": consequence(ticket, packet),
            "because": packet.causes,
            "pattern": demand.pattern,
            "groups": packet.responsible,
            "missing": if ticket.state == TicketState::Pending { packet.missing } else { 0 },
            "decided_by": deciders(ticket),
            "decide_by": packet.decide_by,
            "payload_hash": packet.payload_hash,
            "call_id": packet.call_id,
        },
    })
}

/// The people who decided. Their reasons are for the agent and the console.
fn deciders(ticket: &Ticket) -> Vec<Value> {
    let decisions = ticket.decisions.iter().map(|signed| &signed.decision);
    decisions.map(|decision| json!({ "person": decision.approver, "verdict": decision.verdict })).collect()
}

impl PeoplesMessage {
    fn new(ticket: &Ticket, packet: ApprovalPacket, kind: TicketNoticeKind, url: Option<String>) -> Self {
        let what = match kind {
            TicketNoticeKind::Opened => "waits for approval".to_owned(),
            TicketNoticeKind::Escalated => "still waits for approval, and more groups may decide now".to_owned(),
            TicketNoticeKind::Reminder => "still waits for approval, and its time is nearly over".to_owned(),
            TicketNoticeKind::Outcome => outcome(ticket),
        };
        let mut lines = Vec::new();
        if let Some(consequence) = consequence(ticket, &packet) {
            lines.push(("What happens", consequence.to_owned()));
        }
        lines.push(("Asked by", packet.requester));
        if kind != TicketNoticeKind::Outcome {
            lines.push(("Why it waits", packet.causes.join("; ")));
            lines.push(("Who decides", packet.approvers));
            lines.push(("Until", packet.decide_by));
        }
        let title = format!("{} {what}", packet.action);
        Self { title: shortened(&title, TITLE_CHARS_MAX), lines, url }
    }
}

fn outcome(ticket: &Ticket) -> String {
    let by: Vec<String> = ticket
        .decisions
        .iter()
        .map(|signed| &signed.decision)
        .filter(|decision| (decision.verdict == ApprovalVerdict::Deny) == (ticket.state == TicketState::Denied))
        .map(|decision| legibility::one_line(&decision.approver))
        .collect();
    match ticket.state {
        TicketState::Denied => format!("was denied by {}", by.join(" and ")),
        TicketState::Approved | TicketState::Consumed | TicketState::Lapsed => {
            format!("was approved by {}", by.join(" and "))
        }
        state => format!("is over: {}", state.describe()),
    }
}

/// A message with plain texts only: nothing in them is markup, a link or a mention.
fn slack(message: &PeoplesMessage) -> Value {
    let plain = |text: &str| json!({ "type": "plain_text", "text": text, "emoji": false });
    let fields: Vec<Value> = message
        .lines
        .iter()
        .map(|(name, text)| plain(&shortened(&format!("{name}: {text}"), LINE_CHARS_MAX)))
        .collect();
    let mut blocks = vec![
        json!({ "type": "header", "text": plain(&message.title) }),
        json!({ "type": "section", "fields": fields }),
    ];
    if let Some(url) = &message.url {
        let button = json!({ "type": "button", "text": plain("Open the ticket"), "url": url });
        blocks.push(json!({ "type": "actions", "elements": [button] }));
    }
    // The text of a notification: Slack reads `&`, `<` and `>` in it as the beginning of links and mentions.
    let text = message.title.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    json!({ "text": text, "mrkdwn": false, "blocks": blocks })
}

/// An adaptive card whose texts are text runs, which have no markup.
fn teams(message: &PeoplesMessage) -> Value {
    let run = |text: &str, weight: &str| json!({ "type": "TextRun", "text": text, "weight": weight });
    let title = json!({ "type": "RichTextBlock", "inlines": [run(&message.title, "bolder")] });
    let lines = message.lines.iter().map(|(name, text)| {
        let text = shortened(text, LINE_CHARS_MAX);
        json!({ "type": "RichTextBlock", "inlines": [run(&format!("{name}: "), "bolder"), run(&text, "default")] })
    });
    let body: Vec<Value> = std::iter::once(title).chain(lines).collect();
    let open = |url: &String| json!({ "type": "Action.OpenUrl", "title": "Open the ticket", "url": url });
    json!({
        "type": "message",
        "attachments": [{
            "contentType": "application/vnd.microsoft.card.adaptive",
            "content": {
                "type": "AdaptiveCard",
                "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
                "version": "1.4",
                "body": body,
                "actions": message.url.iter().map(open).collect::<Vec<_>>(),
            },
        }],
    })
}

fn shortened(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
