//! One client's session: the company's records, the way to the client, and what is remembered between messages.
//!
//! It is what a tool that talks to the client itself is given. Which message is answered how is the server's business.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::json;

use crate::SampleError;
use crate::call::{Call, result_of};
use crate::company::Company;
use crate::failure::Outcome;
use crate::subscriptions::Subscriptions;
use crate::wire::Outlet;

pub(crate) struct Session {
    pub(crate) company: Company,
    pub(crate) outlet: Outlet,
    remembered: Mutex<Remembered>,
}

/// What is remembered between messages.
#[derive(Default)]
pub(crate) struct Remembered {
    pub(crate) initialised: bool,
    pub(crate) beta_tools: bool,
    pub(crate) subscriptions: Subscriptions,
}

impl Session {
    pub(crate) fn new(company: Company, outlet: Outlet) -> Self {
        Self { company, outlet, remembered: Mutex::default() }
    }

    /// Answers a call with what its tool brought back.
    pub(crate) fn answer_call(&self, call: &Call, outcome: Outcome) -> Result<(), SampleError> {
        let result = call.dialect.complete(result_of(outcome));
        self.outlet.answer(&call.id, &result)
    }

    /// Shows or hides the beta tools and notifies the client; returns whether they are shown.
    pub(crate) fn toggle_beta_tools(&self) -> Result<bool, SampleError> {
        let mut remembered = self.remembered();
        remembered.beta_tools = !remembered.beta_tools;
        // A legacy client hears of it by having shaken hands, a modern one only by subscribing.
        if remembered.initialised {
            self.outlet.notify("notifications/tools/list_changed", &json!({}))?;
        }
        remembered.subscriptions.tell_list_changed(&self.outlet)?;
        Ok(remembered.beta_tools)
    }

    pub(crate) fn remembered(&self) -> MutexGuard<'_, Remembered> {
        // These are plain values that no panic can leave half-changed.
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
