//! The list of effects, newest first: those with an unknown outcome unless the address says otherwise.

use askama::Template;
use http::StatusCode;
use servanda_contract::{Timestamp, legibility};
use servanda_doors::http::PageRequest;
use servanda_effects::effect::{Effect, EffectId, EffectState};

use super::state_words::EffectWords;
use crate::{
    context::ConsoleContext,
    fault::PageFault,
    form,
    reply::ConsoleReply,
    routing::{EFFECTS, effect_path, read_id},
    view::{FilterLink, Moment, PageFrame},
};

/// Effects of one page.
const PAGE_EFFECTS: usize = 50;

/// Which effects are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EffectsFilter {
    Unknown,
    UnderWay,
    All,
}

/// One effect in one line.
struct EffectLine {
    href: String,
    tool: String,
    who: String,
    reason: Option<String>,
    state: EffectWords,
    begun: Moment,
}

#[derive(Template)]
#[template(path = "effects.html")]
struct EffectsPage {
    frame: PageFrame,
    filters: Vec<FilterLink>,
    lines: Vec<EffectLine>,
    empty: &'static str,
    older: Option<String>,
    newest: Option<String>,
}

/// Shows the list.
pub(crate) async fn page(context: &ConsoleContext, request: &PageRequest) -> Result<ConsoleReply, PageFault> {
    let viewer = context.viewer(&request.headers).await?;
    let filter = EffectsFilter::read(request.uri.query());
    let before = form::parameter(request.uri.query(), "before").and_then(|id| read_id::<EffectId>(&id));
    let is_first = before.is_none();
    let person = &viewer.signed_in.person;
    let seen = context.engine.oversight().effects(person, filter.states(), before, PAGE_EFFECTS).await?;
    let empty = match (&seen.next, is_first) {
        (Some(_), _) => "None of the effects that were looked through is one that you may see. “Older” looks further.",
        (None, true) => filter.empty(),
        (None, false) => "There are no older effects.",
    };
    let now = context.now();
    let page = EffectsPage {
        filters: EffectsFilter::EVERY.into_iter().map(|one| one.link(filter)).collect(),
        lines: seen.effects.iter().map(|effect| EffectLine::new(effect, now)).collect(),
        empty,
        older: seen.next.map(|id| format!("{}&before={id}", filter.address())),
        newest: (!is_first).then(|| filter.address()),
        frame: PageFrame::of("Effects", &viewer.signed_in),
    };
    Ok(ConsoleReply::page(StatusCode::OK, &page))
}

impl EffectLine {
    fn new(effect: &Effect, now: Timestamp) -> Self {
        let user = legibility::one_line(&effect.key.principal);
        let who = effect
            .order
            .actors
            .first()
            .map_or_else(|| user.clone(), |actor| format!("{} for {user}", legibility::one_line(&actor.name)));
        Self {
            href: effect_path(effect.id.as_str()),
            tool: legibility::one_line(&effect.order.exposed_tool),
            who,
            reason: effect.reason.as_deref().map(legibility::one_line),
            state: EffectWords::new(effect),
            begun: Moment::new(effect.created_ms, now),
        }
    }
}

impl EffectsFilter {
    const EVERY: [Self; 3] = [Self::Unknown, Self::UnderWay, Self::All];

    fn read(query: Option<&str>) -> Self {
        let word = form::parameter(query, "state");
        Self::EVERY.into_iter().find(|filter| word.as_deref() == Some(filter.word())).unwrap_or(Self::Unknown)
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::UnderWay => "under_way",
            Self::All => "all",
        }
    }

    fn states(self) -> Vec<EffectState> {
        match self {
            Self::Unknown => vec![EffectState::OutcomeUnknown],
            Self::UnderWay => vec![EffectState::Claimed, EffectState::Dispatching],
            Self::All => Vec::new(),
        }
    }

    fn address(self) -> String {
        format!("{EFFECTS}?state={}", self.word())
    }

    fn link(self, chosen: Self) -> FilterLink {
        let label = match self {
            Self::Unknown => "Outcome unknown",
            Self::UnderWay => "Under way",
            Self::All => "All",
        };
        FilterLink { href: self.address(), label, is_chosen: self == chosen, count: None }
    }

    const fn empty(self) -> &'static str {
        match self {
            Self::Unknown => {
                "Nothing waits to be settled. A call whose outcome is unknown appears here, with what is needed to find out; choose “All” to \
                 see every effect."
            }
            Self::UnderWay => "Nothing is under way. Choose “All” to see what was done.",
            Self::All => {
                "There are no effects yet. Every call that may change something appears here: connect an agent with “servanda connect”, and let \
                 it make one."
            }
        }
    }
}
