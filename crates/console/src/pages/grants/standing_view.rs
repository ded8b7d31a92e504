//! How a grant stands, in words.

use servanda_approval::{GrantEnd, StandingGrant, Ticket};
use servanda_contract::{Timestamp, legibility};

use crate::{
    routing::{call_path, ticket_path},
    view::Moment,
};

/// A grant as pages show it.
pub(super) struct StandingView {
    pub(super) style: &'static str,
    /// `in force`, `taken back`, `over`, `used up`, `its money is spent`.
    pub(super) words: &'static str,
    pub(super) is_in_force: bool,
    /// `3 of 20`.
    pub(super) uses: String,
    /// `1.20 of 5.00 EUR`; none if the grant has no limit of money.
    pub(super) money: Option<String>,
    pub(super) until: Moment,
    pub(super) made: Moment,
    pub(super) maker: String,
    pub(super) revoked: Option<RevokedView>,
    pub(super) draws: Vec<DrawLine>,
}

/// Who took a grant back.
pub(super) struct RevokedView {
    pub(super) by: String,
    pub(super) reason: String,
    pub(super) at: Moment,
}

/// A call that drew on a grant.
pub(super) struct DrawLine {
    pub(super) number: usize,
    /// The tool; none if the grant is for one call.
    pub(super) tool: Option<String>,
    pub(super) href: String,
    pub(super) call: String,
    pub(super) at: Moment,
}

impl StandingView {
    pub(super) fn new(standing: &StandingGrant, now: Timestamp) -> Self {
        let grant = &standing.signed.grant;
        // The store's ledger time is not known here; it can only end a grant earlier, and then the store says so.
        let (style, words) = match standing.end(now.unix_ms(), 0) {
            None => ("good", "in force"),
            Some(GrantEnd::Revoked) => ("bad", "taken back"),
            Some(GrantEnd::Expired) => ("quiet", "its time is over"),
            Some(GrantEnd::UsedUp) => ("quiet", "used up"),
            Some(GrantEnd::Spent) => ("quiet", "its money is spent"),
        };
        let draws = standing.draws.iter().enumerate().map(|(before, draw)| DrawLine {
            number: before + 1,
            tool: grant
                .calls
                .get(draw.call)
                .filter(|_| grant.calls.len() > 1)
                .map(|call| legibility::one_line(&call.tool_name)),
            href: call_path(draw.call_id.as_str()),
            call: legibility::one_line(draw.call_id.as_str()),
            at: Moment::new(draw.at_ms, now),
        });
        let revoked = standing.revoked.as_ref().map(|revoked| RevokedView {
            by: legibility::one_line(&revoked.by),
            reason: legibility::one_line(&revoked.reason),
            at: Moment::new(revoked.at_ms, now),
        });
        Self {
            style,
            words,
            is_in_force: style == "good",
            uses: format!("{} of {}", standing.draws.len(), grant.uses_max()),
            money: standing.money_in_words(),
            until: Moment::new(standing.until.clock_ms, now),
            made: Moment::new(grant.at_ms, now),
            maker: legibility::one_line(&grant.approver),
            revoked,
            draws: draws.rev().collect(),
        }
    }
}

/// The address of the ticket that a grant was made from.
pub(super) fn source(ticket: &Ticket) -> String {
    ticket_path(ticket.id.as_str())
}
