//! The answer of a dry run: a tool result that has the preview as text and, where the tool's output schema does not forbid it, as structured
//! content. It is marked so that it is never taken for a result.

use servanda_contract::{
    CallPreview, Refusal, TaxonomyClass,
    preview::{PreviewVerdict, PreviewedApproval},
};
use servanda_mcp::{envelope::to_json, fields::meta};

use super::tool_result::text_blocks;
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

/// The tool result of a preview. Clients hold structured content against the output schema that the tool lists, and reject a result without
/// it unless it is an error; so the preview of a tool with such a schema is one, and has no structured content.
pub(crate) fn answer(preview: &CallPreview, class: TaxonomyClass, has_output_schema: bool) -> ToolResult {
    let call = serde_json::json!({ "id": preview.call_id, "class": class });
    let whole = to_json(preview);
    let structured = if has_output_schema { String::new() } else { format!(r#""structuredContent":{whole},"#) };
    let json = format!(
        r#"{{"content":{},{structured}"isError":{has_output_schema},"_meta":{{"{}":true,"{}":{call}}}}}"#,
        text_blocks(vec![preview.summary.clone(), whole]),
        meta::DRY_RUN,
        meta::CALL,
    );
    ToolResult::plain(json, has_output_schema)
}
