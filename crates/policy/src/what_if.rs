//! What other policies would have said to calls that were made: only the differences, because that is what is asked.

use std::sync::Arc;

use serde::Serialize;

use crate::{decide::Determining, policies::Policies, request::Call};

/// A call that two sets of policies decide differently.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Which call, by the name it was given.
    pub call: String,
    /// Whether the present policies allow it.
    pub allowed_now: bool,
    /// Whether the others would.
    pub allowed_then: bool,
    /// The policies of the present set that decide it.
    pub by_now: Vec<Arc<Determining>>,
    /// The policies of the other set that would decide it.
    pub by_then: Vec<Arc<Determining>>,
}

/// The calls that would be decided differently.
pub fn what_if<'a>(
    now: &Policies,
    then: &Policies,
    calls: impl IntoIterator<Item = (&'a str, Call<'a>)>,
) -> Vec<Change> {
    calls
        .into_iter()
        .filter_map(|(name, call)| {
            let (now, then) = (now.decide(&call), then.decide(&call));
            (now.is_allowed() != then.is_allowed()).then(|| Change {
                call: name.to_owned(),
                allowed_now: now.is_allowed(),
                allowed_then: then.is_allowed(),
                by_now: now.by().to_vec(),
                by_then: then.by().to_vec(),
            })
        })
        .collect()
}
