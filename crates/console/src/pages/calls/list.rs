//! The list of calls, newest first. The address is the state of the page.

use askama::Template;
use http::StatusCode;
use servanda_contract::legibility;
use servanda_doors::http::PageRequest;
use servanda_effects::call_history::{HistoryPosition, HistoryQuery};

use super::{
    filter::{CallsFilter, ChosenFilter, FilterChoice, FilterField},
    line::ListedCall,
};
use crate::{
    context::ConsoleContext,
    fault::PageFault,
    reply::ConsoleReply,
    routing::{CALL_EVENTS, CALLS},
    view::{Moment, PageFrame},
};

/// Calls of one page.
const PAGE_CALLS: u32 = 50;
/// Calls under way that the first page shows.
const UNDER_WAY_CALLS: u32 = 20;

#[derive(Template)]
#[template(path = "calls.html")]
struct CallsPage {
    frame: PageFrame,
    action: &'static str,
    clear: &'static str,
    form: FilterForm,
    chosen: Vec<ChosenFilter>,
    /// Calls under way, on the first page.
    under_way: Vec<ListedCall>,
    lines: Vec<ListedCall>,
    /// Words for a page without calls.
    empty: &'static str,
    /// Until when the page looked, if it stopped before it was full.
    stopped: Option<Moment>,
    older: Option<String>,
    newest: Option<String>,
    /// The address of news. None on later pages and while they are paused.
    events: Option<String>,
    /// The address that pauses news, or lets them go on, and its words.
    live_switch: Option<(String, &'static str)>,
    /// Whether the person sees only their own calls.
    is_own: bool,
}

/// What the form of the filter shows.
struct FilterForm {
    text: FilterText,
    caller: FilterText,
    tool: FilterText,
    since: String,
    until: String,
    outcomes: Vec<FilterChoice>,
    classes: Vec<FilterChoice>,
    gates: Vec<FilterChoice>,
    times: Vec<FilterChoice>,
    /// Whether fields are set that are folded away otherwise.
    is_open: bool,
}

/// A text of the form.
struct FilterText {
    value: String,
    /// The same with hidden characters spelled out, if it has some: then it is shown and not edited.
    revealed: Option<String>,
}

/// Shows the list.
pub(crate) async fn page(context: &ConsoleContext, request: &PageRequest) -> Result<ConsoleReply, PageFault> {
    let viewer = context.viewer(&request.headers).await?;
    let filter = CallsFilter::read(request.uri.query());
    let now = context.now();
    let query = filter.query(&viewer, now, PAGE_CALLS);
    let is_first = filter.before.is_none();
    // Read before the calls that have ended, so that a call that ends in between is in both lists and not in none.
    let under_way = if is_first {
        context.history.calls_under_way(HistoryQuery { limit: UNDER_WAY_CALLS, ..query.clone() }).await?
    } else {
        Vec::new()
    };
    let listed = context.history.list_calls(query).await?;
    let newest = listed
        .calls
        .first()
        .map_or_else(|| HistoryPosition { received_ms: now.unix_ms(), call_id: String::new() }, HistoryPosition::of);
    let stopped = listed.next.as_ref().filter(|_| listed.stopped_early);
    let is_live = is_first && !filter.is_paused;
    let line = |record| ListedCall::new(record, &filter, now);
    let page = CallsPage {
        frame: PageFrame { is_live, ..PageFrame::of("Calls", &viewer.signed_in) },
        action: CALLS,
        clear: CALLS,
        form: FilterForm::new(&filter),
        chosen: filter.chosen(),
        under_way: under_way
            .iter()
            .filter(|open| !listed.calls.iter().any(|ended| ended.call_id == open.call_id))
            .map(line)
            .collect(),
        lines: listed.calls.iter().map(line).collect(),
        empty: empty(&filter, is_first, listed.stopped_early),
        stopped: stopped.map(|place| Moment::new(place.received_ms, now)),
        older: listed.next.clone().map(|next| filter.address_at(Some(next))),
        newest: (!is_first).then(|| filter.address_at(None)),
        events: is_live.then(|| filter.news_address(CALL_EVENTS, &newest)),
        live_switch: is_first.then(|| {
            let words = if filter.is_paused { "Show news again" } else { "Pause" };
            (filter.address_live(filter.is_paused), words)
        }),
        is_own: !viewer.has_role(),
    };
    Ok(ConsoleReply::page(StatusCode::OK, &page))
}

const fn empty_words(is_filtered: bool) -> &'static str {
    if is_filtered {
        "No call matches. Take one of the filters away, or choose a longer time."
    } else {
        "No call has been recorded yet. Connect an agent with `servanda connect`, or make a call with `servanda call`; it appears here."
    }
}

fn empty(filter: &CallsFilter, is_first: bool, stopped_early: bool) -> &'static str {
    match (stopped_early, is_first) {
        (true, _) => "Among the calls that this page looked at, none matches.",
        (false, false) => "There are no older calls.",
        (false, true) => empty_words(!filter.is_empty()),
    }
}

impl FilterText {
    fn new(value: String) -> Self {
        let revealed = legibility::one_line(&value);
        let revealed = Some(revealed).filter(|revealed| *revealed != value);
        Self { value, revealed }
    }
}

impl FilterForm {
    fn new(filter: &CallsFilter) -> Self {
        let text = |field: FilterField| filter.value(field).unwrap_or_default().to_owned();
        let name = |field: FilterField| FilterText::new(text(field));
        let rare = [FilterField::Class, FilterField::Gate, FilterField::Since, FilterField::Until];
        Self {
            text: name(FilterField::Text),
            caller: name(FilterField::Caller),
            tool: name(FilterField::Tool),
            since: text(FilterField::Since),
            until: text(FilterField::Until),
            outcomes: filter.choices(FilterField::Outcome),
            classes: filter.choices(FilterField::Class),
            gates: filter.choices(FilterField::Gate),
            times: filter.choices(FilterField::Recent),
            is_open: rare.into_iter().any(|field| filter.value(field).is_some()),
        }
    }
}
