//! Checks what came back from an upstream and turns it, or the reason why nothing came back, into what a client reads: the check of an
//! answer, the tables of failures and refusals, and the tool result. Pure: values in, values out. Deliberately not here: records, and what
//! becomes of an effect.

pub(crate) mod approvals;
pub(crate) mod existing_effect;
pub(crate) mod observe;
pub(crate) mod plans;
pub(crate) mod preview;
pub(crate) mod refusals;
pub(crate) mod tool_result;
pub(crate) mod upstream_failure;
