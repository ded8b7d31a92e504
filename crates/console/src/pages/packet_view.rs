//! A packet as a page shows it: the whole packet, with what the person may not see left out.

use servanda_approval::{ApprovalPacket, PacketFlag, RenderedArguments, Ticket};
use servanda_contract::{Timestamp, legibility};

use super::words::{RiskWords, StateWords, progress, quoted};
use crate::{
    context::ConsoleViewer,
    view::{Moment, duration_in_words},
};

/// A packet on a page.
pub(crate) struct PacketView {
    /// The packet.
    pub(crate) packet: ApprovalPacket,
    /// Its state.
    pub(crate) state: StateWords,
    /// How grave the call is.
    pub(crate) risk: RiskWords,
    /// How many decisions of how many.
    pub(crate) progress: String,
    /// When it was opened.
    pub(crate) opened: Moment,
    /// Until when people may decide.
    pub(crate) decide_by: Moment,
    /// Until when an approval that was given can be used.
    pub(crate) use_by: Option<Moment>,
    /// How long an approval can be used.
    pub(crate) use_within: String,
    /// What to look at twice.
    pub(crate) warnings: Vec<&'static str>,
    /// Texts of the ticket that the packet passes on as they are, with hidden characters spelled out.
    pub(crate) price: Option<String>,
    /// What undoes it.
    pub(crate) compensation: String,
    /// The key by which repetitions are recognised.
    pub(crate) fingerprint: String,
    /// The trace.
    pub(crate) trace_id: String,
    /// The tool as it was called.
    pub(crate) tool: String,
    /// The server that performs it.
    pub(crate) upstream: String,
    /// What the client calls itself.
    pub(crate) client: Option<String>,
    /// The run.
    pub(crate) run: String,
    /// The ticket of the same call before this one.
    pub(crate) continues: Option<String>,
    /// Why it is approved by whom, on one line each.
    pub(crate) causes: Vec<String>,
    /// Who may decide.
    pub(crate) approvers: String,
    /// The groups that may decide now.
    pub(crate) responsible: Vec<String>,
}

impl PacketView {
    /// The packet of a ticket, as this person may see it.
    pub(crate) fn new(ticket: &Ticket, viewer: &ConsoleViewer, now: Timestamp) -> Self {
        let packet = ApprovalPacket::new(ticket, |sensitivity| viewer.sees_value(sensitivity), now.unix_ms());
        let subject = &ticket.subject;
        let line = |text: &str| legibility::one_line(text);
        Self {
            state: StateWords::new(ticket),
            risk: RiskWords::new(ticket.demand.class),
            progress: progress(ticket),
            opened: Moment::new(ticket.created_ms, now),
            decide_by: Moment::new(ticket.decide_by.clock_ms, now),
            use_by: ticket.use_by.map(|use_by| Moment::new(use_by.clock_ms, now)),
            use_within: duration_in_words(packet.use_within_ms),
            warnings: packet.flags.iter().map(|flag| flag.describe()).collect(),
            compensation: quoted(&packet.compensation),
            price: packet.price.as_deref().map(line),
            fingerprint: line(&packet.fingerprint),
            trace_id: line(&packet.trace_id),
            tool: line(&subject.tool),
            upstream: line(&subject.upstream),
            client: subject.client.as_deref().map(line),
            run: line(&subject.run),
            continues: ticket.continues.as_ref().map(ToString::to_string),
            causes: packet.causes.iter().map(|cause| quoted(&line(cause))).collect(),
            approvers: line(&packet.approvers),
            responsible: packet.responsible.iter().map(|group| line(group)).collect(),
            packet,
        }
    }

    /// The arguments.
    pub(crate) fn arguments(&self) -> &RenderedArguments {
        &self.packet.arguments
    }

    /// Whether everything that the packet has is on the page: only then is it approved together with others. A plan is read on its own page.
    pub(crate) fn is_whole(&self) -> bool {
        let arguments = self.arguments();
        let is_cut = arguments.left_out > 0 || arguments.leaves.iter().any(|leaf| leaf.cut > 0);
        let is_plain = !self.packet.flags.iter().any(|flag| {
            matches!(flag, PacketFlag::HiddenCharacters | PacketFlag::StrangeHost | PacketFlag::PayloadMismatch)
        });
        is_plain && !is_cut && arguments.masked == 0 && self.packet.plan.is_none()
    }
}
