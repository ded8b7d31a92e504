//! The answer of a dry run: a tool result whose structured content is the preview, marked so that it is never taken for a result.

use servanda_contract::{
    CallPreview, Refusal, TaxonomyClass,
    preview::{PreviewVerdict, PreviewedApproval},
};
use servanda_mcp::{envelope::to_json, fields::meta};

use super::tool_result::text_block;
use crate::client::ToolResult;

/// What would become of the call, in one sentence. It has no word of an upstream.
pub(crate) fn summary(
    tool: &str,
    verdict: PreviewVerdict,
    refusals: &[Refusal],
    approval: Option<&PreviewedApproval>,
) -> String {
    let what = match (verdict, refusals.first(), approval) {
        (PreviewVerdict::WouldPass, ..) => format!("`{tool}` would be called"),
        (PreviewVerdict::WouldBeReplayed, ..) => {
            format!("`{tool}` would not be called again: the stored answer of the same operation would be returned")
        }
        (PreviewVerdict::WouldWaitForApproval, _, Some(approval)) => {
            format!("`{tool}` would wait for approval by {}", approval.by)
        }
        (PreviewVerdict::WouldWaitForApproval, ..) => format!("`{tool}` would wait for approval"),
        (PreviewVerdict::WouldBeRefused, Some(refusal), _) => {
            format!("`{tool}` would be refused at {}: {}", refusal.gate, refusal.message)
        }
        (PreviewVerdict::WouldBeRefused, ..) => format!("`{tool}` would be refused"),
    };
    format!("dry run: {what}; nothing was done")
}

/// The tool result of a preview.
pub(crate) fn answer(preview: &CallPreview, class: TaxonomyClass) -> ToolResult {
    let call = serde_json::json!({ "id": preview.call_id, "class": class });
    let json = format!(
        r#"{{"content":{},"structuredContent":{},"isError":false,"_meta":{{"{}":true,"{}":{call}}}}}"#,
        text_block(preview.summary.clone()),
        to_json(preview),
        meta::DRY_RUN,
        meta::CALL,
    );
    ToolResult::plain(json, false)
}
