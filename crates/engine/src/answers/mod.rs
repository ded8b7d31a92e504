//! What came back from an upstream, or why nothing did, and how a client reads it: the check of an answer, the tables of failures and
//! refusals, and the tool result. Pure: values in, values out. Deliberately not here: records, and what becomes of an effect.

pub(crate) mod existing_effect;
pub(crate) mod observe;
pub(crate) mod refusals;
pub(crate) mod tool_result;
pub(crate) mod upstream_failure;
