//! The filter of the list of calls. It is the address of the page: an address is a view that can be kept and sent.

use servanda_contract::{GateName, TaxonomyClass, Timestamp, legibility, record::Outcome};
use servanda_effects::call_history::{HistoryPosition, HistoryQuery};

use crate::{
    context::ConsoleViewer,
    form,
    routing::{CALLS, is_name},
};

/// The longest value of a filter.
const VALUE_CHARS_MAX: usize = 200;
/// The word in an address that switches news off.
const PAUSED: &str = "off";

/// The times that are offered, with their lengths.
const RECENT: [(&str, &str, u64); 4] = [
    ("1h", "the last hour", 3_600_000),
    ("24h", "the last 24 hours", 86_400_000),
    ("7d", "the last 7 days", 604_800_000),
    ("30d", "the last 30 days", 2_592_000_000),
];

/// One field of the filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FilterField {
    /// A text in names and ids.
    Text,
    /// The user or an agent.
    Caller,
    /// The tool.
    Tool,
    /// How calls ended.
    Outcome,
    /// The taxonomy class.
    Class,
    /// The stage that refused.
    Gate,
    /// A time until now.
    Recent,
    /// Not before.
    Since,
    /// Not after.
    Until,
}

/// The filter of an address: the fields that are set, in a fixed order, with values that make sense.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CallsFilter {
    values: Vec<(FilterField, String)>,
    /// Where the page begins; none for the newest calls.
    pub(super) before: Option<HistoryPosition>,
    /// Whether the page stays as it is.
    pub(super) is_paused: bool,
}

/// A choice of a field, as the form shows it.
pub(super) struct FilterChoice {
    pub(super) value: String,
    pub(super) label: String,
    pub(super) is_chosen: bool,
}

/// A field that is set, with the address of the page without it.
pub(super) struct ChosenFilter {
    pub(super) label: &'static str,
    pub(super) value: String,
    pub(super) without: String,
}

impl FilterField {
    const EVERY: [Self; 9] = [
        Self::Text,
        Self::Caller,
        Self::Tool,
        Self::Outcome,
        Self::Class,
        Self::Gate,
        Self::Recent,
        Self::Since,
        Self::Until,
    ];

    /// The word in addresses.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Text => "q",
            Self::Caller => "caller",
            Self::Tool => "tool",
            Self::Outcome => "outcome",
            Self::Class => "class",
            Self::Gate => "gate",
            Self::Recent => "within",
            Self::Since => "since",
            Self::Until => "until",
        }
    }

    const fn label(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Caller => "caller",
            Self::Tool => "tool",
            Self::Outcome => "outcome",
            Self::Class => "class",
            Self::Gate => "stopped at",
            Self::Recent => "time",
            Self::Since => "since",
            Self::Until => "until",
        }
    }

    /// Whether a value makes sense here. Others are ignored, so that a wrong address shows more and never nothing.
    fn accepts(self, value: &str) -> bool {
        match self {
            Self::Text | Self::Caller | Self::Tool => true,
            Self::Outcome => Outcome::from_name(value).is_some(),
            Self::Class => TaxonomyClass::from_name(value).is_some(),
            Self::Gate => gate_of(value).is_some(),
            Self::Recent => RECENT.iter().any(|(word, ..)| *word == value),
            Self::Since | Self::Until => moment_of(value).is_some(),
        }
    }
}

impl CallsFilter {
    /// The filter of an address.
    pub(super) fn read(query: Option<&str>) -> Self {
        let value = |field: FilterField| {
            let text = form::parameter(query, field.word())?;
            // Names are taken as they are; what people type into the search may have blanks around it.
            let text = if field == FilterField::Text { text.trim().to_owned() } else { text };
            let is_sound = !text.is_empty() && text.chars().count() <= VALUE_CHARS_MAX && field.accepts(&text);
            is_sound.then_some((field, text))
        };
        let before = form::parameter(query, "before").filter(|text| text.len() <= VALUE_CHARS_MAX);
        Self {
            values: FilterField::EVERY.into_iter().filter_map(value).collect(),
            before: before.and_then(|text| text.parse().ok()).filter(is_position),
            is_paused: form::parameter(query, "live").as_deref() == Some(PAUSED),
        }
    }

    /// The value of a field.
    pub(super) fn value(&self, field: FilterField) -> Option<&str> {
        self.values.iter().find(|(own, _)| *own == field).map(|(_, value)| value.as_str())
    }

    /// Whether nothing is filtered.
    pub(super) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The address of the first page with another value of one field.
    pub(super) fn with(&self, field: FilterField, value: &str) -> String {
        let mut values: Vec<(FilterField, String)> = self.others(field);
        values.push((field, value.to_owned()));
        values.sort_by_key(|(field, _)| *field);
        Self { values, before: None, is_paused: self.is_paused }.address()
    }

    /// The address of this page, or of another part of the same list.
    pub(super) fn address_at(&self, before: Option<HistoryPosition>) -> String {
        Self { before, ..self.clone() }.address()
    }

    /// The address of the first page, with news or without.
    pub(super) fn address_live(&self, is_live: bool) -> String {
        Self { before: None, is_paused: !is_live, ..self.clone() }.address()
    }

    /// The address of news about what is newer than a place.
    pub(super) fn news_address(&self, path: &str, after: &HistoryPosition) -> String {
        let mut address = self.parameters();
        address.append_pair("after", &after.to_string());
        format!("{path}?{}", address.finish())
    }

    /// The fields that are set.
    pub(super) fn chosen(&self) -> Vec<ChosenFilter> {
        let one = |(field, value): &(FilterField, String)| ChosenFilter {
            label: field.label(),
            value: legibility::one_line(
                RECENT.iter().find(|(word, ..)| word == value).map_or(value, |(_, label, _)| label),
            ),
            without: Self { values: self.others(*field), before: None, is_paused: self.is_paused }.address(),
        };
        self.values.iter().map(one).collect()
    }

    /// The choices of a field that has some.
    pub(super) fn choices(&self, field: FilterField) -> Vec<FilterChoice> {
        let words: Vec<(String, String)> = match field {
            FilterField::Outcome => {
                Outcome::ALL.map(|outcome| (outcome.name().to_owned(), outcome.name().replace('_', " "))).into()
            }
            FilterField::Class => {
                TaxonomyClass::ALL.map(|class| (class.name().to_owned(), class.name().to_owned())).into()
            }
            FilterField::Gate => GateName::ALL.map(|gate| (gate.to_string(), gate.to_string())).into(),
            FilterField::Recent => RECENT.map(|(word, label, _)| (word.to_owned(), label.to_owned())).into(),
            _ => Vec::new(),
        };
        let chosen = self.value(field);
        let choice = |(value, label): (String, String)| {
            let is_chosen = chosen == Some(value.as_str());
            FilterChoice { value, label, is_chosen }
        };
        words.into_iter().map(choice).collect()
    }

    /// The query that this filter makes for a person. A person without a role sees only what was called for them.
    pub(super) fn query(&self, viewer: &ConsoleViewer, now: Timestamp, limit: u32) -> HistoryQuery {
        let text = |field: FilterField| self.value(field).map(str::to_owned);
        let recent = self.value(FilterField::Recent).and_then(|word| RECENT.iter().find(|(own, ..)| *own == word));
        let recent_since = recent.map(|(_, _, ms)| now.unix_ms().saturating_sub(*ms));
        let since = self.value(FilterField::Since).and_then(moment_of);
        HistoryQuery {
            tenant: viewer.tenant().to_owned(),
            principal: (!viewer.has_role()).then(|| viewer.signed_in.person.principal.clone()),
            caller: text(FilterField::Caller),
            tool: text(FilterField::Tool),
            outcome: self.value(FilterField::Outcome).and_then(Outcome::from_name),
            class: self.value(FilterField::Class).and_then(TaxonomyClass::from_name),
            gate: self.value(FilterField::Gate).and_then(gate_of),
            since_ms: recent_since.max(since),
            until_ms: self.value(FilterField::Until).and_then(moment_of),
            text: text(FilterField::Text),
            before: self.before.clone(),
            limit,
        }
    }

    fn others(&self, field: FilterField) -> Vec<(FilterField, String)> {
        self.values.iter().filter(|(own, _)| *own != field).cloned().collect()
    }

    fn address(&self) -> String {
        let mut address = self.parameters();
        if self.is_paused {
            address.append_pair("live", PAUSED);
        }
        if let Some(before) = &self.before {
            address.append_pair("before", &before.to_string());
        }
        let parameters = address.finish();
        if parameters.is_empty() { CALLS.to_owned() } else { format!("{CALLS}?{parameters}") }
    }

    fn parameters(&self) -> form_urlencoded::Serializer<'static, String> {
        let mut address = form_urlencoded::Serializer::new(String::new());
        for (field, value) in &self.values {
            address.append_pair(field.word(), value);
        }
        address
    }
}

fn gate_of(word: &str) -> Option<GateName> {
    GateName::ALL.into_iter().find(|gate| gate.to_string() == word)
}

/// A moment as the browser's field for it gives it: UTC, to the minute or the second.
fn moment_of(text: &str) -> Option<u64> {
    let seconds = if text.len() == 16 { ":00" } else { "" };
    Timestamp::parse(&format!("{text}{seconds}Z")).map(Timestamp::unix_ms)
}

/// Whether it is the place of a call, or one between two.
fn is_position(position: &HistoryPosition) -> bool {
    position.call_id.is_empty() || is_name(&position.call_id)
}

#[cfg(test)]
mod tests {
    use super::{CallsFilter, FilterField, moment_of};

    #[test]
    fn an_address_comes_back_as_it_was_read() {
        for (query, expected) in [
            ("", "/calls"),
            ("caller=ada&tool=company__pay", "/calls?caller=ada&tool=company__pay"),
            ("tool=a%26b%3D%22%3C&q=+x+", "/calls?q=x&tool=a%26b%3D%22%3C"),
            ("outcome=refused&before=17.call_1", "/calls?outcome=refused&before=17.call_1"),
            ("live=off&gate=policy", "/calls?gate=policy&live=off"),
            ("since=2026-11-19T03%3A40", "/calls?since=2026-11-19T03%3A40"),
        ] {
            let filter = CallsFilter::read(Some(query));
            assert_eq!(filter.address(), expected, "{query}");
        }
    }

    #[test]
    fn values_that_make_no_sense_are_ignored() {
        for query in [
            "outcome=maybe",
            "class=x",
            "gate=12",
            "within=9y",
            "since=yesterday",
            "before=x",
            "before=17.%00",
            "before=17.a+b",
            "tool=",
            "tool=a&tool=b",
        ] {
            let filter = CallsFilter::read(Some(query));
            assert!(filter.is_empty() && filter.before.is_none(), "{query}");
        }
        assert!(CallsFilter::read(Some(&format!("tool={}", "x".repeat(201)))).is_empty());
    }

    #[test]
    fn another_value_begins_at_the_newest() {
        let filter = CallsFilter::read(Some("tool=a&outcome=refused&before=17.call_1"));
        assert_eq!(filter.with(FilterField::Tool, "b"), "/calls?tool=b&outcome=refused");
        assert_eq!(filter.with(FilterField::Caller, "ada"), "/calls?caller=ada&tool=a&outcome=refused");
        let chosen: Vec<String> = filter.chosen().into_iter().map(|chosen| chosen.without).collect();
        assert_eq!(chosen, ["/calls?outcome=refused", "/calls?tool=a"]);
    }

    #[test]
    fn moments_are_utc() {
        assert_eq!(moment_of("1970-01-01T00:01"), Some(60_000));
        assert_eq!(moment_of("1970-01-01T00:01:02"), Some(62_000));
        for text in ["", "1970-01-01", "1970-01-01T00:01Z", "x"] {
            assert_eq!(moment_of(text), None, "{text}");
        }
    }
}
