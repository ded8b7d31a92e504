//! A server's tool list, read page by page within its limits. Definitions stay raw; only their names are read.
//!
//! The catalogue decides what a definition means and whether it is admitted.

use std::{borrow::Cow, collections::HashSet};

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{UpstreamError, UpstreamLimits};

/// How many times larger than the longest message all definitions together may be.
const LIST_MESSAGES_MAX: usize = 4;

/// Everything a server says it offers.
#[derive(Debug, Clone, Default)]
pub struct ToolList {
    /// The tools, in the server's order. Names are unique.
    pub tools: Vec<UpstreamListedTool>,
    /// Definitions that cannot be used. They do not affect the others.
    pub rejected: Vec<RejectedTool>,
    /// The connection that the whole list came on; none if it came on more than one.
    pub edition: Option<u64>,
}

/// One tool.
#[derive(Debug, Clone)]
pub struct UpstreamListedTool {
    /// Its name at this upstream.
    pub name: String,
    /// Its definition, exactly as the server wrote it.
    pub definition: Box<RawValue>,
}

/// A definition that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedTool {
    /// Its position in the whole list, from 0.
    pub position: usize,
    /// Why.
    pub reason: String,
}

/// The list while its pages arrive.
#[derive(Debug)]
pub(crate) struct ToolListBuilder {
    list: ToolList,
    names: HashSet<String>,
    cursors: HashSet<String>,
    pages: usize,
    bytes: usize,
    limits: UpstreamLimits,
}

#[derive(Deserialize)]
struct ToolListPage<'a> {
    #[serde(borrow)]
    tools: Vec<&'a RawValue>,
    #[serde(borrow, default, rename = "nextCursor")]
    next_cursor: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct ToolNameField<'a> {
    #[serde(borrow, default)]
    name: Option<&'a RawValue>,
}

impl ToolListBuilder {
    pub(crate) fn new(limits: UpstreamLimits) -> Self {
        Self { list: ToolList::default(), names: HashSet::new(), cursors: HashSet::new(), pages: 0, bytes: 0, limits }
    }

    /// Adds a page. Returns the cursor of the next page; none when the list is complete.
    pub(crate) fn add_page(&mut self, result: &[u8]) -> Result<Option<String>, UpstreamError> {
        // Serde would accept an array as the members in order.
        if !result.trim_ascii_start().starts_with(b"{") {
            return Err(UpstreamError::NotAList { why: "a page is not an object".to_owned() });
        }
        let page: ToolListPage<'_> =
            serde_json::from_slice(result).map_err(|error| UpstreamError::NotAList { why: error.to_string() })?;
        self.pages += 1;
        self.bytes = self.bytes.saturating_add(result.len());
        let bytes_max = self.limits.message_bytes_max.saturating_mul(LIST_MESSAGES_MAX);
        if self.bytes > bytes_max {
            return Err(UpstreamError::TooLarge { bytes_max });
        }
        for definition in page.tools {
            self.add_tool(definition)?;
        }
        let Some(cursor) = page.next_cursor.map(Cow::into_owned) else { return Ok(None) };
        if !self.cursors.insert(cursor.clone()) {
            return Err(UpstreamError::RepeatedCursor { page: self.pages });
        }
        if self.pages >= self.limits.pages_max {
            return Err(UpstreamError::TooManyPages { pages_max: self.limits.pages_max });
        }
        Ok(Some(cursor))
    }

    pub(crate) fn finish(self) -> ToolList {
        self.list
    }

    fn add_tool(&mut self, definition: &RawValue) -> Result<(), UpstreamError> {
        let position = self.list.tools.len() + self.list.rejected.len();
        if position >= self.limits.tools_max {
            return Err(UpstreamError::TooManyTools { tools_max: self.limits.tools_max });
        }
        match tool_name(definition) {
            // The tool that is called by a name must be the tool that was decided about under that name.
            Ok(name) if self.names.contains(&name) => {
                let reason = "an earlier tool in the list has the same name".to_owned();
                self.list.rejected.push(RejectedTool { position, reason });
            }
            Ok(name) => {
                self.names.insert(name.clone());
                self.list.tools.push(UpstreamListedTool { name, definition: definition.to_owned() });
            }
            Err(reason) => self.list.rejected.push(RejectedTool { position, reason }),
        }
        Ok(())
    }
}

fn tool_name(definition: &RawValue) -> Result<String, String> {
    if !definition.get().starts_with('{') {
        return Err("the definition is not an object".to_owned());
    }
    let named: ToolNameField<'_> =
        serde_json::from_str(definition.get()).map_err(|_| "the definition has more than one `name`".to_owned())?;
    let name = named.name.ok_or("the definition has no `name`")?;
    serde_json::from_str(name.get()).map_err(|_| "the definition's `name` is not a string".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gathering() -> ToolListBuilder {
        ToolListBuilder::new(UpstreamLimits {
            pages_max: 3,
            tools_max: 5,
            message_bytes_max: 1_000,
            ..UpstreamLimits::default()
        })
    }

    #[test]
    fn bad_definitions_hide_no_others_and_good_ones_stay_as_written() {
        let mut gathering = gathering();
        let next =
            gathering.add_page(br#"{"tools":[7,{"name":"a", "x":1.0},{"title":"t"},{"name":7}],"nextCursor":""}"#);
        assert_eq!(next.unwrap().as_deref(), Some(""), "an empty cursor is a cursor");
        assert!(gathering.add_page(br#"{"tools":[{"name":"a"}],"nextCursor":null}"#).unwrap().is_none());
        let list = gathering.finish();
        assert_eq!(list.tools.len(), 1);
        assert_eq!(list.tools[0].definition.get(), r#"{"name":"a", "x":1.0}"#);
        let rejected: Vec<_> = list.rejected.iter().map(|tool| (tool.position, tool.reason.as_str())).collect();
        assert_eq!(
            rejected,
            [
                (0, "the definition is not an object"),
                (2, "the definition has no `name`"),
                (3, "the definition's `name` is not a string"),
                (4, "an earlier tool in the list has the same name"),
            ]
        );
    }

    #[test]
    fn one_definition_has_one_name() {
        let mut gathering = gathering();
        gathering.add_page(br#"{"tools":[{"name":"a","name":"b"}]}"#).unwrap();
        assert_eq!(gathering.finish().rejected[0].reason, "the definition has more than one `name`");
    }

    #[test]
    fn lists_end() {
        let page = |cursor: &str| format!(r#"{{"tools":[],"nextCursor":"{cursor}"}}"#);
        let mut repeating = gathering();
        repeating.add_page(page("a").as_bytes()).unwrap();
        let repeated = repeating.add_page(page("a").as_bytes());
        assert!(matches!(repeated, Err(UpstreamError::RepeatedCursor { page: 2 })));

        let mut long = gathering();
        long.add_page(page("a").as_bytes()).unwrap();
        long.add_page(page("b").as_bytes()).unwrap();
        assert!(matches!(long.add_page(page("c").as_bytes()), Err(UpstreamError::TooManyPages { pages_max: 3 })));

        let many = format!(r#"{{"tools":[{}]}}"#, ["7"; 6].join(","));
        assert!(matches!(gathering().add_page(many.as_bytes()), Err(UpstreamError::TooManyTools { tools_max: 5 })));

        let large = format!(r#"{{"tools":[],"x":"{}"}}"#, "x".repeat(4_000));
        assert!(matches!(gathering().add_page(large.as_bytes()), Err(UpstreamError::TooLarge { bytes_max: 4_000 })));
    }

    #[test]
    fn a_page_that_is_not_a_list_is_an_error() {
        for result in ["{}", "7", "[[]]", r#"{"tools":{}}"#, r#"{"tools":[],"nextCursor":7}"#] {
            let outcome = gathering().add_page(result.as_bytes());
            assert!(matches!(outcome, Err(UpstreamError::NotAList { .. })), "{result}");
        }
    }
}
