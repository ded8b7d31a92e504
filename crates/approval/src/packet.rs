//! The confirmation packet: everything that a person sees before deciding. Made from the ticket alone, so that the console, the command
//! line and a webhook show the same; what a tool returned is data in it, never prose.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use servanda_contract::{
    Digest, Timestamp, digest::DigestDomain, json, legibility, preview::UpstreamPreview, tool::SideEffectClass,
};

use crate::{
    ApprovalVerdict, ArgumentBound, GrantedCall, PlanTerms, RenderedArguments, StateBefore, Ticket, TicketPreview,
    TicketState, escalation_level, render_arguments, rendering, responsible_groups, step::needed,
};

/// What a person sees.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ApprovalPacket {
    /// The ticket.
    pub id: String,
    /// Its state, in words.
    pub state: &'static str,
    /// The tool, with the contract's version.
    pub action: String,
    /// What happens if it is approved, in words; none if arguments are masked for this viewer, because it has arguments filled in.
    pub consequence: Option<String>,
    /// The arguments.
    pub arguments: RenderedArguments,
    /// H, which an approval signs.
    pub payload_hash: Digest,
    /// The state before the call, as data.
    pub before: Option<PacketField>,
    /// The expected state after it.
    pub after: Option<String>,
    /// What the upstream's own dry run said would happen, as data.
    pub upstream_preview: Option<PacketField>,
    /// The class of the call.
    pub risk_class: &'static str,
    /// Why an approval is needed.
    pub causes: Vec<String>,
    /// Who asks: the user, and the agents that act for the user.
    pub requester: String,
    /// Who may decide, and how many.
    pub approvers: String,
    /// Who may decide now.
    pub responsible: Vec<String>,
    /// How many more people have to approve.
    pub missing: usize,
    /// The decisions so far, a line each.
    pub decisions: Vec<String>,
    /// When the time to decide is over.
    pub decide_by: String,
    /// How long an approval can be used.
    pub use_within_ms: u64,
    /// When an approval that was given can no longer be used.
    pub use_by: Option<String>,
    /// The key by which repetitions are recognised.
    pub fingerprint: String,
    /// What undoes it.
    pub compensation: String,
    /// What it costs at most.
    pub price: Option<String>,
    /// What happens if it is denied.
    pub if_denied: &'static str,
    /// The call that asks.
    pub call_id: String,
    /// The trace.
    pub trace_id: String,
    /// How many escalation levels have been reached.
    pub escalation_level: u8,
    /// What a person should look at twice.
    pub flags: Vec<PacketFlag>,
    /// What an approval would allow; none if the ticket is about a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<PacketPlan>,
}

/// What the approval of a plan allows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PacketPlan {
    /// What the agent says that it is for.
    pub purpose: String,
    /// The calls.
    pub calls: Vec<PacketPlanCall>,
    /// For how many days.
    pub days: u32,
    /// The most that the calls may cost together.
    pub cost_max: Option<String>,
}

/// A call of a plan.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PacketPlanCall {
    /// The tool, with the contract's version.
    pub action: String,
    /// How many times.
    pub times: u32,
    /// Argument and bound, in words; none if arguments are masked for this viewer.
    pub bounds: Option<Vec<(String, String)>>,
    /// Why it needs an approval.
    pub causes: Vec<String>,
}

/// A part of a packet that a tool supplied, as data.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PacketField {
    /// The tool, and when it was asked.
    pub source: String,
    /// What it answered.
    pub fields: RenderedArguments,
    /// The digest of what it answered, in canonical form; none if there is no answer, no canonical form of it, or a part of it is
    /// masked.
    pub digest: Option<Digest>,
    /// Why there is no answer, if there is none.
    pub fault: Option<String>,
}

/// Something about a packet that a person should look at twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PacketFlag {
    /// An argument has characters that people cannot see or that change the direction of the text.
    HiddenCharacters,
    /// An argument has a host that may look like another.
    StrangeHost,
    /// Some arguments are masked for this viewer.
    Masked,
    /// Nothing undoes the call.
    Irreversible,
    /// The state before the call could not be read.
    NoBeforeState,
    /// The upstream's own preview could not be had.
    NoUpstreamPreview,
    /// The stored arguments are not what was hashed. Nothing can be approved.
    PayloadMismatch,
}

impl ApprovalPacket {
    /// The packet of a ticket, for a viewer who may see values of the sensitivities that `reveals` accepts, at that time.
    pub fn new(ticket: &Ticket, reveals: impl Fn(&str) -> bool, now_ms: u64) -> Self {
        let subject = &ticket.subject;
        let arguments = render_arguments(&subject.arguments, &subject.sensitive, &reveals);
        let before = subject.before.as_ref().map(|before| PacketField::of_state(before, &reveals));
        let preview = subject.upstream_preview.as_ref();
        let upstream_preview = preview.map(|preview| PacketField::of_preview(&subject.upstream, preview, reveals));
        // These texts have arguments filled in, and which of them is not known.
        let unmasked = |text: Option<&str>| text.filter(|_| arguments.masked == 0).map(legibility::one_line);
        let (consequence, after) = (unmasked(subject.consequence.as_deref()), unmasked(subject.after.as_deref()));
        let plan = ticket.plan().map(|terms| PacketPlan::new(terms, arguments.masked == 0));
        let flags = flags(ticket, &arguments, before.as_ref(), upstream_preview.as_ref());
        let time = |ms: u64| Timestamp::from_unix_ms(ms).to_string();
        Self {
            id: ticket.id.to_string(),
            state: ticket.state.describe(),
            action: legibility::one_line(&format!("{} {}", subject.contract, subject.contract_version)),
            consequence,
            arguments,
            payload_hash: subject.payload,
            before,
            after,
            upstream_preview,
            risk_class: ticket.demand.class.word(),
            causes: ticket.demand.causes.iter().map(|cause| cause.describe(ticket.demand.class)).collect(),
            requester: requester_in_words(ticket),
            approvers: ticket.demand.describe(),
            responsible: responsible_groups(ticket, now_ms).into_iter().collect(),
            missing: needed(ticket).saturating_sub(ticket.approvals()),
            decisions: decisions(ticket),
            decide_by: time(ticket.decide_by.clock_ms),
            use_within_ms: ticket.demand.use_within_ms,
            use_by: ticket.use_by.map(|use_by| time(use_by.clock_ms)),
            fingerprint: subject
                .operation
                .as_deref()
                .map_or_else(|| subject.payload.hex_prefix(16), legibility::one_line),
            compensation: match subject.compensation.as_deref() {
                Some(tool) => format!("`{}` undoes it", legibility::one_line(tool)),
                None if ticket.is_plan() => "the contract of each tool says it".to_owned(),
                None => "nothing undoes it".to_owned(),
            },
            price: subject.price.as_deref().map(legibility::one_line),
            if_denied: "nothing is sent; the agent is told that a person denied it, with your reason, and may not ask again for an hour",
            call_id: subject.call_id.to_string(),
            trace_id: legibility::one_line(&subject.trace_id),
            escalation_level: escalation_level(ticket, now_ms),
            flags,
            plan,
        }
    }

    /// Whether a person may approve what this packet shows. What is masked or is not what was hashed cannot be approved.
    pub fn can_be_approved(&self) -> bool {
        !self.flags.contains(&PacketFlag::PayloadMismatch)
    }
}

impl PacketPlan {
    /// What a plan says, for a viewer who sees all of its values or not.
    pub fn new(terms: PlanTerms, sees_all: bool) -> Self {
        let call = |call: GrantedCall| {
            let bound = |bound: &ArgumentBound| {
                (legibility::reveal(&bound.pointer).into_owned(), legibility::one_line(&bound.describe()))
            };
            PacketPlanCall {
                action: legibility::one_line(&format!("{} {}", call.tool_name, call.tool_version)),
                times: call.uses_max,
                bounds: sees_all.then(|| call.bounds.iter().map(bound).collect()),
                causes: call.demand.causes.iter().map(|cause| cause.describe(call.demand.class)).collect(),
            }
        };
        Self {
            purpose: legibility::one_line(&terms.purpose),
            calls: terms.calls.into_iter().map(call).collect(),
            days: terms.days,
            cost_max: terms.cost_max.map(|ceiling| legibility::one_line(&ceiling.describe())),
        }
    }
}

impl PacketField {
    fn of_state(before: &StateBefore, reveals: impl Fn(&str) -> bool) -> Self {
        let state = before.state.as_ref().map_err(String::as_str);
        Self::of_data((before.tool.as_str(), before.at_ms), state, &before.sensitive, reveals)
    }

    fn of_preview(upstream: &str, preview: &TicketPreview, reveals: impl Fn(&str) -> bool) -> Self {
        let said = match &preview.preview {
            UpstreamPreview::Said(said) => Ok(said),
            UpstreamPreview::NotAvailable(why) => Err(why.as_str()),
        };
        Self::of_data((upstream, preview.at_ms), said, &preview.sensitive, reveals)
    }

    fn of_data(
        (who, at_ms): (&str, u64),
        said: Result<&Value, &str>,
        sensitive: &BTreeMap<String, String>,
        reveals: impl Fn(&str) -> bool,
    ) -> Self {
        let source = format!("{} at {}", legibility::one_line(who), Timestamp::from_unix_ms(at_ms));
        let canonical = said.ok().and_then(|said| json::canonicalize(said).ok());
        let text = match (said, &canonical) {
            (Ok(_), Some(canonical)) => canonical.bytes().clone(),
            (Ok(said), None) => said.to_string().into(),
            (Err(_), _) => "{}".into(),
        };
        let fault = said.err().map(legibility::one_line);
        let fields = render_arguments(&text, sensitive, reveals);
        // A digest would tell a masked value to whoever can guess it.
        let shown = canonical.filter(|_| fields.masked == 0);
        let digest = shown.map(|canonical| Digest::compute(DigestDomain::Shown, &[canonical.bytes()]));
        Self { source, fields, digest, fault }
    }
}

impl PacketFlag {
    /// The flag in words.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::HiddenCharacters => {
                "an argument has characters that you cannot see or that reverse the text: they are spelled out"
            }
            Self::StrangeHost => "an argument has a host that may look like another one",
            Self::Masked => "some arguments are masked for you",
            Self::Irreversible => "nothing undoes this call",
            Self::NoBeforeState => "the state before the call could not be read",
            Self::NoUpstreamPreview => "the server was asked what the call would do, and could not say",
            Self::PayloadMismatch => "the stored arguments are not what was hashed: nobody can approve this ticket",
        }
    }
}

impl Ticket {
    /// Whether the stored arguments are those that H was computed from.
    pub fn is_intact(&self) -> bool {
        let subject = &self.subject;
        let parts: [&[u8]; 4] = [
            subject.tenant.as_bytes(),
            subject.contract.as_bytes(),
            subject.contract_digest.as_bytes(),
            &subject.arguments,
        ];
        rendering::canonical_again(&subject.arguments).is_some()
            && Digest::compute(DigestDomain::Proposal, &parts) == subject.payload
            && (!self.is_plan() || self.plan().is_some())
    }
}

/// Who asks, in words: the user, and the agents that act for the user.
pub fn requester_in_words(ticket: &Ticket) -> String {
    let subject = &ticket.subject;
    let mut text = format!("{}/{}", legibility::one_line(&subject.tenant), legibility::one_line(&subject.principal));
    for (number, actor) in subject.actors.iter().enumerate() {
        text.push_str(if number == 0 { ", through " } else { " for " });
        text.push_str(&legibility::one_line(&actor.name));
        if !actor.proven {
            text.push_str(" (the name is only claimed)");
        }
    }
    text
}

fn flags(
    ticket: &Ticket,
    arguments: &RenderedArguments,
    before: Option<&PacketField>,
    preview: Option<&PacketField>,
) -> Vec<PacketFlag> {
    let warns =
        |word: &str| arguments.leaves.iter().any(|leaf| leaf.warnings.iter().any(|warning| warning.contains(word)));
    let mutates = ticket.demand.class != SideEffectClass::ReadOnly;
    let all = [
        (!ticket.is_intact(), PacketFlag::PayloadMismatch),
        (warns("cannot see") || warns("hidden"), PacketFlag::HiddenCharacters),
        (warns("host"), PacketFlag::StrangeHost),
        (arguments.masked > 0, PacketFlag::Masked),
        (mutates && !ticket.is_plan() && ticket.subject.compensation.is_none(), PacketFlag::Irreversible),
        (before.is_some_and(|before| before.fault.is_some()), PacketFlag::NoBeforeState),
        (preview.is_some_and(|preview| preview.fault.is_some()), PacketFlag::NoUpstreamPreview),
    ];
    all.into_iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).collect()
}

fn decisions(ticket: &Ticket) -> Vec<String> {
    let line = |signed: &crate::SignedDecision| {
        let decision = &signed.decision;
        let verb = if decision.verdict == ApprovalVerdict::Approve { "approved" } else { "denied" };
        let reason = decision.reason.as_deref().map(|reason| format!(": {}", legibility::one_line(reason)));
        let emergency = if decision.break_glass { ", with the emergency role" } else { "" };
        let (approver, at) = (legibility::one_line(&decision.approver), Timestamp::from_unix_ms(decision.at_ms));
        let presence = decision.presence.word();
        format!("{approver} {verb} at {at} ({presence}{emergency}){}", reason.unwrap_or_default())
    };
    let mut lines: Vec<String> = ticket.decisions.iter().map(line).collect();
    if let (TicketState::Superseded, Some(reason)) = (ticket.state, &ticket.reason) {
        lines.push(format!("superseded: {reason}"));
    }
    lines
}
