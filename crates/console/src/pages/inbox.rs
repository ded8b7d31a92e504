//! The inbox: tickets, newest first. The address is the state of the page.

use askama::Template;
use http::StatusCode;
use servanda_approval::{Ticket, TicketId, TicketState};
use servanda_doors::http::PageRequest;
use servanda_effects::ticket_store::{TICKETS_PAGE_MAX, TicketQuery};

use super::{review::CHOSEN_MAX, ticket_line::TicketLine};
use crate::{
    context::{ConsoleContext, ConsoleViewer},
    fault::PageFault,
    form,
    reply::ConsoleReply,
    routing::{INBOX, INBOX_EVENTS, REVIEW, read_id},
    view::{FilterLink, PageFrame},
};

/// Tickets of one page.
const PAGE_TICKETS: usize = 50;
/// Waiting tickets that are counted.
const COUNTED_MAX: u32 = 1_000;
/// Pages of the store that are read for one page of a person who sees only some tickets.
const READS_MAX: usize = 5;

/// Which tickets are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InboxFilter {
    /// Those that wait for a decision.
    Pending,
    /// Those that people decided about.
    Decided,
    /// Those that are over.
    Over,
    /// All of them.
    All,
}

#[derive(Template)]
#[template(path = "inbox.html")]
struct InboxPage {
    frame: PageFrame,
    filters: Vec<FilterLink>,
    lines: Vec<TicketLine>,
    /// Whether tickets of different states are listed.
    shows_states: bool,
    /// Words for a page without tickets.
    empty: &'static str,
    /// Whether several can be chosen.
    can_choose: bool,
    choose_action: &'static str,
    choose_max: usize,
    /// The address of the page after this one.
    older: Option<String>,
    /// The address of the first page, if this is another.
    newest: Option<String>,
    /// The address of news. None on later pages.
    events: Option<String>,
}

/// Tickets that a person sees.
pub(crate) struct SeenTickets {
    /// The tickets, newest first.
    pub(crate) tickets: Vec<Ticket>,
    /// After which ticket to go on; none at the end.
    pub(crate) next: Option<TicketId>,
}

impl InboxFilter {
    const EVERY: [Self; 4] = [Self::Pending, Self::Decided, Self::Over, Self::All];

    /// The filter of an address.
    pub(crate) fn read(query: Option<&str>) -> Self {
        let word = form::parameter(query, "state");
        Self::EVERY.into_iter().find(|filter| word.as_deref() == Some(filter.word())).unwrap_or(Self::Pending)
    }

    /// The word in addresses.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Decided => "decided",
            Self::Over => "over",
            Self::All => "all",
        }
    }

    /// The states that it lets through.
    pub(crate) fn states(self) -> Vec<TicketState> {
        use TicketState::{Approved, AutoDenied, Consumed, Denied, Lapsed, Pending, Superseded};
        match self {
            Self::Pending => vec![Pending],
            Self::Decided => vec![Approved, Denied, Consumed, Lapsed],
            Self::Over => vec![Denied, AutoDenied, Superseded, Consumed, Lapsed],
            Self::All => Vec::new(),
        }
    }

    /// The address of the first page.
    pub(crate) fn address(self) -> String {
        format!("{INBOX}?state={}", self.word())
    }

    const fn label(self) -> &'static str {
        match self {
            Self::Pending => "Waiting",
            Self::Decided => "Decided by people",
            Self::Over => "Over",
            Self::All => "All",
        }
    }

    const fn empty(self) -> &'static str {
        match self {
            Self::Pending => {
                "Nothing waits for a decision. When an agent makes a call that needs an approval, it appears here by itself."
            }
            Self::Decided => {
                "People have decided about nothing yet. Choose “Waiting” to see what waits for a decision."
            }
            Self::Over => {
                "No ticket is over yet. A ticket is over when it was denied, used, replaced, or when its time has passed."
            }
            Self::All => {
                "There are no tickets yet. A call needs an approval if its contract, its side-effect class or a policy says so; then its ticket \
                 appears here."
            }
        }
    }
}

/// Shows the inbox.
pub(crate) async fn page(context: &ConsoleContext, request: &PageRequest) -> Result<ConsoleReply, PageFault> {
    let viewer = context.viewer(&request.headers).await?;
    let filter = InboxFilter::read(request.uri.query());
    let before = form::parameter(request.uri.query(), "before").and_then(|id| read_id::<TicketId>(&id));
    let is_first = before.is_none();
    let seen = find(context, &viewer, filter, before, PAGE_TICKETS).await?;
    let now = context.now();
    let lines: Vec<TicketLine> = seen.tickets.iter().map(|ticket| TicketLine::new(ticket, &viewer, now)).collect();
    let newest = lines.first().map_or("", |line| line.id.as_str());
    let events = is_first.then(|| format!("{INBOX_EVENTS}?state={}&after={newest}", filter.word()));
    let page = InboxPage {
        shows_states: filter != InboxFilter::Pending,
        filters: filter_links(context, &viewer, filter).await?,
        empty: if is_first { filter.empty() } else { "There are no older tickets." },
        can_choose: lines.iter().any(|line| line.is_pending),
        choose_action: REVIEW,
        choose_max: CHOSEN_MAX,
        older: seen.next.map(|id| format!("{}&before={id}", filter.address())),
        newest: (!is_first).then(|| filter.address()),
        events,
        lines,
        frame: PageFrame { is_live: is_first, ..PageFrame::of("Inbox", &viewer.signed_in) },
    };
    Ok(ConsoleReply::page(StatusCode::OK, &page))
}

/// The newest tickets that a person sees, older than `before`.
pub(crate) async fn find(
    context: &ConsoleContext,
    viewer: &ConsoleViewer,
    filter: InboxFilter,
    before: Option<TicketId>,
    count: usize,
) -> Result<SeenTickets, PageFault> {
    let (mut tickets, mut before) = (Vec::new(), before);
    // A person with a role sees every ticket, and needs one page and the beginning of the next.
    let limit = if viewer.has_role() { u32::try_from(count + 1).unwrap_or(TICKETS_PAGE_MAX) } else { TICKETS_PAGE_MAX };
    for _ in 0..READS_MAX {
        let tenant = Some(viewer.tenant().to_owned());
        let query = TicketQuery { tenant, states: filter.states(), before: before.clone(), limit };
        let listed = context.approvals().tickets().list_tickets(query).await?;
        let is_end = listed.len() < usize::try_from(limit).unwrap_or(usize::MAX);
        for ticket in listed {
            if tickets.len() == count {
                return Ok(SeenTickets { tickets, next: before });
            }
            before = Some(ticket.id.clone());
            if viewer.sees_ticket(&ticket) {
                tickets.push(ticket);
            }
        }
        if is_end {
            return Ok(SeenTickets { tickets, next: None });
        }
    }
    Ok(SeenTickets { tickets, next: before })
}

async fn filter_links(
    context: &ConsoleContext,
    viewer: &ConsoleViewer,
    chosen: InboxFilter,
) -> Result<Vec<FilterLink>, PageFault> {
    let waiting = if viewer.has_role() {
        let tenant = Some(viewer.tenant().to_owned());
        let count = context.approvals().tickets().count_pending(tenant, COUNTED_MAX + 1).await?;
        Some(if count > COUNTED_MAX { "1,000+".to_owned() } else { count.to_string() })
    } else {
        // The store counts a tenant's tickets, and this person sees only some of them.
        None
    };
    let link = |filter: InboxFilter| FilterLink {
        href: filter.address(),
        label: filter.label(),
        is_chosen: filter == chosen,
        count: waiting.clone().filter(|_| filter == InboxFilter::Pending),
    };
    Ok(InboxFilter::EVERY.into_iter().map(link).collect())
}
