//! `tools/list`, a page at a time.
//!
//! A cursor names the last tool of the page before, so it survives changes of the list: what was inserted or removed
//! elsewhere neither repeats nor hides a tool. Clients must treat it as opaque, hence the hexadecimal.

use serde_json::value::RawValue;
use servanda_engine::Listing;
use servanda_mcp::{Era, envelope::to_json};

use crate::{fault::Fault, greeting::CACHING, params};

/// The tool that a cursor says the page comes after, nothing for the first page.
pub(crate) fn after(cursor: Option<&RawValue>) -> Result<Option<String>, Fault> {
    match cursor {
        Some(raw) if raw.get() != "null" => {
            decode(raw).map(Some).ok_or_else(|| Fault::invalid_params("`cursor` is not one of ours"))
        }
        Some(_) | None => Ok(None),
    }
}

/// The result of `tools/list`.
pub(crate) fn page(listing: &Listing, after: Option<&str>, page_size: usize, frame: &Frame<'_>) -> String {
    // The empty name sorts before every tool.
    let start = after.map_or(0, |last| listing.tools.partition_point(|tool| tool.name.as_str() <= last));
    let rest = listing.tools.get(start..).unwrap_or_default();
    let tools = rest.get(..page_size.max(1)).unwrap_or(rest);

    let bytes: usize = tools.iter().map(|tool| tool.definition.get().len() + 1).sum();
    let mut text = String::with_capacity(bytes + 512);
    text.push_str(r#"{"tools":["#);
    for (index, tool) in tools.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        text.push_str(tool.definition.get());
    }
    text.push(']');
    if let Some(last) = tools.last().filter(|_| tools.len() < rest.len()) {
        text.extend([r#","nextCursor":"#, &to_json(&encode(&last.name))]);
    }
    if frame.era == Era::Modern {
        text.extend([r#","resultType":"complete","#, CACHING, r#","_meta":{"#, frame.meta_member, "}"]);
    }
    text.push('}');
    text
}

/// What a result carries besides its own members.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame<'a> {
    pub(crate) era: Era,
    pub(crate) meta_member: &'a str,
}

fn encode(name: &str) -> String {
    const DIGITS: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let digit = |value: u8| DIGITS.get(usize::from(value)).copied().unwrap_or_default();
    name.bytes().flat_map(|byte| [digit(byte >> 4), digit(byte & 0xf)]).collect()
}

fn decode(cursor: &RawValue) -> Option<String> {
    let text = params::text(cursor)?;
    let nibble = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
    let bytes = text.as_bytes().chunks(2).map(|pair| match pair {
        [high, low] => Some(nibble(*high)? << 4 | nibble(*low)?),
        _ => None,
    });
    String::from_utf8(bytes.collect::<Option<Vec<u8>>>()?).ok()
}

#[cfg(test)]
mod tests {
    use proptest::{prelude::*, test_runner::TestRunner};
    use serde_json::value::to_raw_value;

    use super::*;

    #[test]
    fn every_name_survives_the_cursor() {
        TestRunner::default()
            .run(&any::<String>(), |name| {
                let cursor = to_raw_value(&encode(&name)).unwrap();
                prop_assert_eq!(decode(&cursor), Some(name));
                Ok(())
            })
            .unwrap();
    }
}
