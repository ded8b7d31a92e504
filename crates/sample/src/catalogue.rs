//! The catalogue: which tools exist, which of them are listed, and how the list is paged.
//!
//! Responsible for the order of the list, which is the same for every client. Each family of tools defines and
//! implements its own in a module below; none of them knows whether it is listed.

mod customers;
mod files;
mod invoice_record;
mod invoices;
mod mail;
mod meetings;
mod misbehaviour;
mod payments;
mod queries;
mod reports;

use serde_json::{Value, json};

use crate::tool::SampleTool;
use crate::wire::SampleRpcError;

/// Small enough that even the honest tools need two pages.
const PAGE_TOOLS_MAX: usize = 10;
const CURSOR_PREFIX: &str = "after:";

/// Which groups of tools are listed at the moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ListedToolGroups {
    pub(crate) misbehaviour: bool,
    pub(crate) beta: bool,
}

/// When a family is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SampleToolGroup {
    Honest,
    Misbehaving,
    Beta,
}

const FAMILIES: [(SampleToolGroup, &[SampleTool]); 10] = [
    (SampleToolGroup::Honest, customers::TOOLS),
    (SampleToolGroup::Honest, invoices::TOOLS),
    (SampleToolGroup::Honest, payments::TOOLS),
    (SampleToolGroup::Honest, mail::TOOLS),
    (SampleToolGroup::Honest, files::TOOLS),
    (SampleToolGroup::Honest, meetings::TOOLS),
    (SampleToolGroup::Honest, reports::TOOLS),
    (SampleToolGroup::Honest, queries::TOOLS),
    (SampleToolGroup::Misbehaving, misbehaviour::TOOLS),
    (SampleToolGroup::Beta, reports::BETA_TOOLS),
];

/// The tool of that name, if it is listed: an unlisted tool does not exist for the caller.
pub(crate) fn find(listed: ListedToolGroups, name: &str) -> Option<&'static SampleTool> {
    tools(listed).find(|tool| tool.name == name)
}

/// One page of `tools/list`.
pub(crate) fn page(listed: ListedToolGroups, cursor: Option<&Value>) -> Result<Value, SampleRpcError> {
    let start = match cursor {
        None => 0,
        Some(cursor) => {
            position_after(listed, cursor).ok_or_else(|| SampleRpcError::invalid_params("unknown `cursor`"))?
        }
    };
    let shown: Vec<&SampleTool> = tools(listed).skip(start).take(PAGE_TOOLS_MAX).collect();
    let descriptions: Vec<Value> = shown.iter().map(|tool| tool.describe()).collect();
    let mut page = json!({ "tools": descriptions });
    let more = tools(listed).nth(start + PAGE_TOOLS_MAX).is_some();
    if let (true, Some(last), Some(fields)) = (more, shown.last(), page.as_object_mut()) {
        let cursor = format!("{CURSOR_PREFIX}{}", last.name);
        fields.insert("nextCursor".into(), cursor.into());
    }
    Ok(page)
}

/// Cursors name the last tool seen rather than count, so a page stays right when the list grows.
fn position_after(listed: ListedToolGroups, cursor: &Value) -> Option<usize> {
    let name = cursor.as_str()?.strip_prefix(CURSOR_PREFIX)?;
    let position = tools(listed).position(|tool| tool.name == name)?;
    Some(position + 1)
}

fn tools(listed: ListedToolGroups) -> impl Iterator<Item = &'static SampleTool> {
    FAMILIES
        .into_iter()
        .filter(move |(group, _)| match group {
            SampleToolGroup::Honest => true,
            SampleToolGroup::Misbehaving => listed.misbehaviour,
            SampleToolGroup::Beta => listed.beta,
        })
        .flat_map(|(_, family)| family)
}
