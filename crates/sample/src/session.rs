//! One client's session: the company's records, the output to the client, and the state between messages.
//!
//! A tool that sends messages to the client itself gets this. The server decides how each message is answered.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::json;

use crate::SampleError;
use crate::call::{SampleCall, result_of};
use crate::company::Company;
use crate::failure::SampleToolOutcome;
use crate::subscriptions::SampleSubscriptions;
use crate::wire::SampleOutput;

pub(crate) struct SampleSession {
    pub(crate) company: Company,
    pub(crate) output: SampleOutput,
    state: Mutex<SampleSessionState>,
}

/// The state between messages.
#[derive(Default)]
pub(crate) struct SampleSessionState {
    pub(crate) initialised: bool,
    pub(crate) beta_tools: bool,
    pub(crate) subscriptions: SampleSubscriptions,
}

impl SampleSession {
    pub(crate) fn new(company: Company, output: SampleOutput) -> Self {
        Self { company, output, state: Mutex::default() }
    }

    /// Answers a call with its tool's outcome.
    pub(crate) fn answer_call(&self, call: &SampleCall, outcome: SampleToolOutcome) -> Result<(), SampleError> {
        let result = call.dialect.complete(result_of(outcome));
        self.output.answer(&call.id, &result)
    }

    /// Shows or hides the beta tools and notifies the client; returns whether they are shown.
    pub(crate) fn toggle_beta_tools(&self) -> Result<bool, SampleError> {
        let mut state = self.state();
        state.beta_tools = !state.beta_tools;
        // A legacy client is notified once it has completed the handshake, a modern one only if it subscribed.
        if state.initialised {
            self.output.notify("notifications/tools/list_changed", &json!({}))?;
        }
        state.subscriptions.notify_list_changed(&self.output)?;
        Ok(state.beta_tools)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, SampleSessionState> {
        // These are plain values that no panic can leave half-changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
