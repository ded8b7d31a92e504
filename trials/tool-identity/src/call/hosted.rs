//! Requests of a provider that calls tools of an MCP server itself and asks before it does.

use serde_json::Value;

use super::{CallId, ids::raw_item};
use crate::PublicName;

/// The valid parts of such a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostedRequest {
    /// Its id.
    pub request_id: Option<CallId>,
    /// The provider's label of the server.
    pub server_label: Option<String>,
    /// The tool.
    pub tool_name: Option<PublicName>,
}

/// A tool on a hosted server: what lasting decisions are about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostedTool {
    /// The provider's label of the server.
    pub server_label: String,
    /// The tool.
    pub name: PublicName,
}

impl HostedRequest {
    /// The request in an item, or in what the item wraps.
    pub fn of_item(item: &Value) -> Option<Self> {
        Self::read(raw_item(item))
    }

    /// The request that this is.
    pub(super) fn read(raw: &Value) -> Option<Self> {
        let server_label = |request: &Value| {
            request.get("server_label").and_then(Value::as_str).filter(|label| !label.is_empty()).map(str::to_owned)
        };
        match raw.get("type")?.as_str()? {
            "mcp_approval_request" => Some(Self {
                request_id: CallId::read(raw.get("id")),
                server_label: server_label(raw),
                tool_name: PublicName::read(raw.get("name")),
            }),
            "hosted_tool_call" => {
                let request = raw.get("provider_data")?;
                if request.get("type")?.as_str()? != "mcp_approval_request" {
                    return None;
                }
                let request_id = match request.get("id").filter(|id| !id.is_null()) {
                    // The provider gave an id; if it is invalid, there is none.
                    Some(id) => CallId::read(Some(id)),
                    None => CallId::read(raw.get("call_id")).or_else(|| CallId::read(raw.get("id"))),
                };
                let tool_name = PublicName::read(request.get("name")).or_else(|| PublicName::read(raw.get("name")));
                Some(Self { request_id, server_label: server_label(request), tool_name })
            }
            _ => None,
        }
    }

    /// The requested tool, if the request names it completely.
    pub fn tool(&self) -> Option<HostedTool> {
        Some(HostedTool { server_label: self.server_label.clone()?, name: self.tool_name.clone()? })
    }
}
