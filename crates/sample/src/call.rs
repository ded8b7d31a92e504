//! One call of a tool, and how its outcome becomes a result.

use serde_json::{Value, json};

use crate::arguments::Arguments;
use crate::dialect::ProtocolDialect;
use crate::failure::SampleToolOutcome;

/// One `tools/call`, as far as a script needs it.
#[derive(Debug)]
pub(crate) struct SampleCall {
    pub(crate) id: Value,
    pub(crate) dialect: ProtocolDialect,
    pub(crate) arguments: Arguments,
    pub(crate) progress_token: Option<Value>,
}

/// The body of a `tools/call` result: structured content, and the same JSON as text for older clients.
pub(crate) fn result_of(outcome: SampleToolOutcome) -> Value {
    match outcome {
        Ok(content) => json!({
            "content": [{ "type": "text", "text": content.to_string() }],
            "structuredContent": content,
            "isError": false,
        }),
        Err(failure) => json!({
            "content": [{ "type": "text", "text": failure.to_string() }],
            "isError": true,
        }),
    }
}
