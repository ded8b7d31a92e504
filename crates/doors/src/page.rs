//! `tools/list`, a page at a time.
//!
//! A cursor names the last tool of the page before, so it survives changes of the list: tools that were inserted or
//! removed elsewhere neither repeat nor hide a tool. Only if that very tool is gone, the page continues at its former
//! position. Clients must treat a cursor as opaque, hence the hexadecimal.

use serde_json::value::RawValue;
use servanda_engine::Listing;
use servanda_mcp::{Era, envelope::to_json};

use crate::{fault::ProtocolFault, params, server_info::CACHING};

/// The tool that a page comes after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ToolPageCursor {
    name: String,
    /// Its position in the list when the page before was built.
    position: usize,
}

/// Parses a cursor: the tool after which the page begins, `None` for the first page.
pub(crate) fn parse_cursor(cursor: Option<&RawValue>) -> Result<Option<ToolPageCursor>, ProtocolFault> {
    match cursor {
        // The empty text is a valid cursor: the beginning.
        Some(raw) if !matches!(raw.get(), "null" | r#""""#) => decode(raw)
            .map(Some)
            .ok_or_else(|| ProtocolFault::invalid_params("`cursor` was not issued by this gateway")),
        Some(_) | None => Ok(None),
    }
}

/// The result of `tools/list`.
pub(crate) fn page(
    listing: &Listing,
    after: Option<&ToolPageCursor>,
    page_size: usize,
    frame: &ListResultMeta<'_>,
) -> String {
    let start = after.map_or(0, |last| {
        let found = listing.tools.iter().position(|tool| tool.name == last.name);
        found.map_or(last.position, |place| place + 1)
    });
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
        let last = ToolPageCursor { name: last.name.clone(), position: start + tools.len() - 1 };
        text.extend([r#","nextCursor":"#, &to_json(&encode(&last))]);
    }
    if frame.era == Era::Modern {
        text.extend([r#","resultType":"complete","#, CACHING, r#","_meta":{"#, frame.meta_member, "}"]);
    }
    text.push('}');
    text
}

/// What a result carries besides its own members.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ListResultMeta<'a> {
    pub(crate) era: Era,
    pub(crate) meta_member: &'a str,
}

fn encode(after: &ToolPageCursor) -> String {
    const DIGITS: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let digit = |value: u8| DIGITS.get(usize::from(value)).copied().unwrap_or_default();
    format!("{}:{}", after.position, after.name)
        .bytes()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 0xf)])
        .collect()
}

fn decode(cursor: &RawValue) -> Option<ToolPageCursor> {
    let text = params::text(cursor)?;
    let nibble = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
    let bytes = text.as_bytes().chunks(2).map(|pair| match pair {
        [high, low] => Some(nibble(*high)? << 4 | nibble(*low)?),
        _ => None,
    });
    let text = String::from_utf8(bytes.collect::<Option<Vec<u8>>>()?).ok()?;
    let (place, name) = text.split_once(':')?;
    Some(ToolPageCursor { name: name.to_owned(), position: place.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use proptest::{prelude::*, test_runner::TestRunner};
    use serde_json::value::to_raw_value;

    use super::*;

    #[test]
    fn a_page_goes_on_after_its_tool_or_at_its_place() {
        let listing = |names: &[&str]| {
            let tool = |name: &&str| {
                let (name, definition) = ((*name).to_owned(), to_raw_value(name).unwrap());
                std::sync::Arc::new(servanda_engine::ListedTool::new(name, definition))
            };
            Listing { generation: 0, tools: names.iter().map(tool).collect() }
        };
        let frame = ListResultMeta { era: Era::Legacy, meta_member: "" };
        let after_b = ToolPageCursor { name: "b".to_owned(), position: 1 };
        let table: [(&[&str], &str); 4] = [
            (&["a", "b", "c"], r#"{"tools":["c"]}"#),
            (&["new", "a", "b", "c"], r#"{"tools":["c"]}"#),
            (&["a", "c"], r#"{"tools":["c"]}"#),
            (&["a"], r#"{"tools":[]}"#),
        ];
        for (names, expected) in table {
            assert_eq!(page(&listing(names), Some(&after_b), 10, &frame), expected, "{names:?}");
        }
    }

    #[test]
    fn every_name_survives_the_cursor() {
        TestRunner::default()
            .run(&any::<(String, usize)>(), |(name, place)| {
                let after = ToolPageCursor { name, position: place };
                let cursor = to_raw_value(&encode(&after)).unwrap();
                prop_assert_eq!(decode(&cursor), Some(after));
                Ok(())
            })
            .unwrap();
    }
}
