//! The terms of a guest's request that stay the same however often it is made at the upstream.

use serde_json::value::RawValue;
use servanda_upstream::{Counterpart, Delivery};
use tokio_util::sync::CancellationToken;

use crate::bridge::Leg;

/// What every delivery of one request says.
#[derive(Debug, Clone)]
pub(crate) struct Outline {
    pub(crate) cancel: CancellationToken,
    pub(crate) counterpart: Counterpart,
    pub(crate) wants_progress: bool,
    pub(crate) log_level: Option<String>,
    pub(crate) trace_parent: Option<String>,
    pub(crate) meta: Vec<(String, Box<RawValue>)>,
}

impl Outline {
    /// The delivery of one leg.
    pub(crate) fn delivery(&self, leg: Leg) -> Delivery {
        Delivery {
            cancel: self.cancel.clone(),
            counterpart: self.counterpart.clone(),
            remarks: leg.remarks,
            wants_progress: self.wants_progress,
            log_level: self.log_level.clone(),
            trace_parent: self.trace_parent.clone(),
            meta: self.meta.clone(),
            continuation: leg.continuation,
            ..Delivery::until(leg.deadline)
        }
    }
}
