//! Policies that are tried out: what they would have said is worked out and recorded, and nothing can take it for a
//! permission. There is deliberately no way from [`WouldHave`] to a [`Decision`].

use std::sync::Arc;

use serde::Serialize;
use servanda_contract::record::{self, ShadowRecord, Texts};

use crate::{
    decide::{Cause, Decision, Determining},
    policies::Policies,
    request::Call,
};

/// A set of policies that decides nothing.
#[derive(Debug)]
pub struct Shadow {
    policies: Policies,
}

/// What policies in shadow would have said. It is written down and read, and that is all: a call goes its way by the
/// policies in force.
///
/// ```compile_fail
/// fn perform(_evidence: servanda_policy::Allowed) {}
/// fn mistaken(would_have: servanda_policy::WouldHave) {
///     perform(would_have);
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WouldHave {
    /// Always true, so that no reader of a record takes it for a decision.
    shadow: bool,
    #[serde(rename = "would_have_refused")]
    refused: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<Cause>,
    by: Vec<Arc<Determining>>,
    #[serde(skip)]
    ids: Texts,
}

impl Shadow {
    /// Puts policies into the shadow.
    pub const fn new(policies: Policies) -> Self {
        Self { policies }
    }

    /// What enforcement would have done.
    pub fn would_have(&self, call: &Call<'_>) -> WouldHave {
        let decision = self.policies.decide(call);
        let (by, ids) = (decision.by().to_vec(), decision.ids());
        match decision {
            Decision::Allowed(_) => WouldHave { shadow: true, refused: false, cause: None, by, ids },
            Decision::Refused(refused) => {
                WouldHave { shadow: true, refused: true, cause: Some(refused.cause().clone()), by, ids }
            }
        }
    }

    /// The policies, to read and explain them.
    pub const fn policies(&self) -> &Policies {
        &self.policies
    }

    /// The policies, to put them into force.
    pub fn into_policies(self) -> Policies {
        self.policies
    }
}

impl WouldHave {
    /// Whether the call would have been refused.
    pub const fn would_have_refused(&self) -> bool {
        self.refused
    }

    /// As records have it.
    pub fn to_record(&self) -> ShadowRecord {
        let would_have = if self.refused { record::WouldHave::Refused } else { record::WouldHave::Allowed };
        let cause = self.cause.as_ref().map(|cause| cause.word().to_owned());
        ShadowRecord { would_have, cause, by: self.ids.clone() }
    }

    /// Why, if so.
    pub const fn cause(&self) -> Option<&Cause> {
        self.cause.as_ref()
    }

    /// The policies that would have made the difference.
    pub fn by(&self) -> &[Arc<Determining>] {
        &self.by
    }
}
