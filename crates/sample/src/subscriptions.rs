//! The modern era's subscriptions: which requests (`subscriptions/listen`) asked to be told of changes.
//!
//! Responsible for acknowledging, notifying and closing them. Only changes of the list of tools are offered, because
//! nothing else here can change; legacy clients subscribe to nothing.

use serde_json::{Value, json};

use crate::SampleError;
use crate::dialect::{ProtocolDialect, SUBSCRIPTION_ID};
use crate::wire::{INTERNAL_ERROR, SampleOutput, SampleRequest, SampleRpcError};

const SUBSCRIPTIONS_MAX: usize = 16;

#[derive(Default)]
pub(crate) struct SampleSubscriptions {
    open: Vec<SampleSubscription>,
}

struct SampleSubscription {
    /// The id of the request that opened it, which also names it.
    id: Value,
    hears_tools: bool,
}

impl SampleSubscriptions {
    /// Opens a subscription and returns the parameters of its acknowledgement.
    pub(crate) fn open(&mut self, request: &SampleRequest, list_can_change: bool) -> Result<Value, SampleRpcError> {
        let wanted = request.params.get("notifications");
        let Some(wanted) = wanted.and_then(Value::as_object) else {
            let text = "`notifications` must be an object";
            return Err(SampleRpcError::invalid_params(text));
        };
        if self.open.len() >= SUBSCRIPTIONS_MAX {
            return Err(SampleRpcError::new(INTERNAL_ERROR, "too many subscriptions"));
        }
        let hears_tools = list_can_change && wanted.get("toolsListChanged") == Some(&Value::Bool(true));
        self.open.push(SampleSubscription { id: request.id.clone(), hears_tools });
        let honoured = if hears_tools { json!({ "toolsListChanged": true }) } else { json!({}) };
        Ok(json!({ "_meta": { SUBSCRIPTION_ID: request.id }, "notifications": honoured }))
    }

    pub(crate) fn cancel(&mut self, id: &Value) {
        self.open.retain(|subscription| subscription.id != *id);
    }

    pub(crate) fn notify_list_changed(&self, output: &SampleOutput) -> Result<(), SampleError> {
        let listeners = self.open.iter().filter(|listener| listener.hears_tools);
        for SampleSubscription { id, .. } in listeners {
            let params = json!({ "_meta": { SUBSCRIPTION_ID: id } });
            output.notify("notifications/tools/list_changed", &params)?;
        }
        Ok(())
    }

    /// Ends every subscription with the result that its request waits for.
    pub(crate) fn close(self, output: &SampleOutput) -> Result<(), SampleError> {
        for SampleSubscription { id, .. } in self.open {
            let result = json!({ "_meta": { SUBSCRIPTION_ID: id } });
            output.answer(&id, &ProtocolDialect::Modern.complete(result))?;
        }
        Ok(())
    }
}
