//! Which calls to list, and a page of them.

use std::{fmt, str::FromStr};

use servanda_contract::{CallRecord, GateName, TaxonomyClass, record::Outcome};

/// The most calls of a page.
pub const HISTORY_PAGE_MAX: u32 = 200;

/// Characters of a text that are taken for the beginning of a call's id, at least.
const ID_TEXT_MIN: usize = 9;

/// Which calls to list: those of one tenant that meet every condition that is set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HistoryQuery {
    /// The tenant.
    pub tenant: String,
    /// Only calls made for this user.
    pub principal: Option<String>,
    /// The user, or an agent that acted.
    pub caller: Option<String>,
    /// The tool as called.
    pub tool: Option<String>,
    /// How the call ended.
    pub outcome: Option<Outcome>,
    /// The taxonomy class of its end.
    pub class: Option<TaxonomyClass>,
    /// The stage that refused it.
    pub gate: Option<GateName>,
    /// Not received before this time, in milliseconds since the epoch.
    pub since_ms: Option<u64>,
    /// Not received after this time.
    pub until_ms: Option<u64>,
    /// A text that is in the tool, the contract's name, the user, an agent or the call's id, whatever its case.
    pub text: Option<String>,
    /// Older than this position.
    pub before: Option<HistoryPosition>,
    /// The most calls; [`HISTORY_PAGE_MAX`] if it is more.
    pub limit: u32,
}

/// A place in the list of calls: that of one call, or between two.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct HistoryPosition {
    /// When the call was received, in milliseconds since the epoch.
    pub received_ms: u64,
    /// The call. The empty text is before every call of its millisecond, so all of them are newer.
    pub call_id: String,
}

/// Text that is no position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a position is a time in milliseconds, a dot and the id of a call")]
pub struct ParsePositionError(());

/// A page of calls.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HistoryPage {
    /// The calls, newest first.
    pub calls: Vec<CallRecord>,
    /// Where the next page begins; none if there are no more.
    pub next: Option<HistoryPosition>,
    /// Whether the page ended because it had looked at as many records as a page may, and not because it was full.
    pub stopped_early: bool,
}

impl HistoryQuery {
    /// Whether a call belongs to the list, wherever the page begins.
    pub fn matches(&self, record: &CallRecord) -> bool {
        let received_ms = record.received_at.unix_ms();
        let caller = &record.caller;
        let is_caller =
            |name: &String| caller.principal == *name || caller.actors.iter().any(|actor| actor.name == *name);
        caller.tenant == self.tenant
            && self.principal.as_ref().is_none_or(|principal| caller.principal == *principal)
            && self.since_ms.is_none_or(|since| received_ms >= since)
            && self.until_ms.is_none_or(|until| received_ms <= until)
            && self.outcome.is_none_or(|outcome| record.outcome == outcome)
            && self.class.is_none_or(|class| record.class == Some(class))
            && self.gate.is_none_or(|gate| record.refused_at() == Some(gate))
            && self.tool.as_ref().is_none_or(|tool| record.tool == *tool)
            && self.caller.as_ref().is_none_or(is_caller)
            && self.text.as_ref().is_none_or(|text| has_text(record, &text.to_lowercase()))
    }

    /// The text that is looked for, as [`has_searched_text`] takes it.
    pub fn searched_text(&self) -> Option<String> {
        self.text.as_ref().map(|text| text.to_lowercase())
    }

    /// Whether a call belongs to the page.
    pub fn is_on_page(&self, record: &CallRecord) -> bool {
        self.before.as_ref().is_none_or(|before| HistoryPosition::of(record) < *before) && self.matches(record)
    }

    /// The beginning of a call's id, if that is what the text is: such calls are found by their ids.
    pub fn id_beginning(&self) -> Option<&str> {
        let is_id = |text: &&str| {
            text.len() >= ID_TEXT_MIN
                && text.starts_with("call_")
                && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        };
        self.text.as_deref().filter(is_id)
    }

    /// The most calls of the page.
    pub fn page_max(&self) -> usize {
        usize::try_from(self.limit.clamp(1, HISTORY_PAGE_MAX)).unwrap_or(usize::MAX)
    }
}

impl HistoryPosition {
    /// The place of a call.
    pub fn of(record: &CallRecord) -> Self {
        Self { received_ms: record.received_at.unix_ms(), call_id: record.call_id.to_string() }
    }
}

/// As it stands in an address: `1794735332007.call_0193…`.
impl fmt::Display for HistoryPosition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.received_ms, self.call_id)
    }
}

impl FromStr for HistoryPosition {
    type Err = ParsePositionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parsed = text.split_once('.').and_then(|(received_ms, call_id)| {
            Some(Self { received_ms: received_ms.parse().ok()?, call_id: call_id.to_owned() })
        });
        parsed.ok_or(ParsePositionError(()))
    }
}

fn has_text(record: &CallRecord, text: &str) -> bool {
    let contract = record.contract.as_ref().map(|contract| contract.name.as_str());
    let actors = record.caller.actors.iter().map(|actor| actor.name.as_str());
    [record.tool.as_str(), record.caller.principal.as_str(), record.call_id.as_str()]
        .into_iter()
        .chain(contract)
        .chain(actors)
        .any(|own| has_searched_text(own, text))
}

/// Whether a name has a text, whatever its case. The text is in lower case.
pub fn has_searched_text(name: &str, text: &str) -> bool {
    name.to_lowercase().contains(text)
}

#[cfg(test)]
mod tests {
    use super::{HistoryPosition, HistoryQuery};

    #[test]
    fn a_position_is_read_as_it_is_written() {
        for (received_ms, call_id) in [(0, ""), (1_794_735_332_007, "call_0193a5b2"), (u64::MAX, "a.b")] {
            let position = HistoryPosition { received_ms, call_id: call_id.to_owned() };
            assert_eq!(position.to_string().parse(), Ok(position));
        }
        for text in ["", "call_1", "x.call_1", "-1.call_1", ".", "18446744073709551616.c"] {
            assert!(text.parse::<HistoryPosition>().is_err(), "{text}");
        }
    }

    #[test]
    fn only_a_text_that_begins_like_an_id_is_looked_up_as_one() {
        let id = |text: &str| HistoryQuery { text: Some(text.to_owned()), ..HistoryQuery::default() };
        assert_eq!(id("call_0193").id_beginning(), Some("call_0193"));
        for text in ["call_", "call_019", "Call_0193", "call_0193~", "xcall_0193", "call_0193 "] {
            assert_eq!(id(text).id_beginning(), None, "{text}");
        }
    }
}
