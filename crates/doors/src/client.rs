//! The client's own name for itself (`clientInfo`). Records show it; nothing trusts it.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

const CLIENT_CHARS_MAX: usize = 128;

#[derive(Deserialize)]
struct Implementation<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    version: Cow<'a, str>,
}

/// "name version" from a `clientInfo`, or `None` if it is malformed: a client is not refused because of its name.
pub(crate) fn client_name(client_info: Option<&RawValue>) -> Option<String> {
    let raw = client_info?.get();
    if !raw.starts_with('{') {
        return None;
    }
    let implementation: Implementation<'_> = serde_json::from_str(raw).ok()?;
    let both = format!("{} {}", implementation.name, implementation.version);
    let text: String = both.chars().filter(|character| !character.is_control()).take(CLIENT_CHARS_MAX).collect();
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}
