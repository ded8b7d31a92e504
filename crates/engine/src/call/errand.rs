//! A fenced call as a request that can be made again: with what a modern server asked for, or as the task that a legacy
//! server insists on.

use std::sync::Arc;

use serde_json::value::RawValue;
use servanda_gates::Fenced;
use servanda_mcp::envelope::code;
use servanda_upstream::{Answer, Delivery, PerformFailure};

use crate::{
    bridge::{Errand, Leg},
    outline::Outline,
    scene::Member,
    tasks, upstream_failure,
};

/// A call at its upstream.
#[derive(Debug)]
pub(super) struct CallErrand {
    pub(super) member: Arc<Member>,
    /// Back from the upstream whenever nothing is being sent.
    pub(super) fenced: Option<Fenced>,
    pub(super) outline: Outline,
    pub(super) param_headers: Vec<(String, String)>,
    /// What the guest wants of a task, if it wants one.
    pub(super) task: Option<Box<RawValue>>,
}

impl Errand for CallErrand {
    async fn send(&mut self, leg: Leg) -> Result<Answer, PerformFailure> {
        if let Some(task) = self.task.clone() {
            return self.perform(leg, Some(task)).await;
        }
        if self.takes_only_tasks(&leg).await {
            return self.as_task(leg).await;
        }
        let outcome = self.perform(leg.clone(), None).await;
        if let Err(PerformFailure::Rejected { code: code::METHOD_NOT_FOUND, .. }) = &outcome {
            // A server that takes a tool only as a task must say so in the tool's definition and answer just this. Both
            // together are reason enough to do what it asks; that it had done nothing yet is only its word.
            self.member.forget_tools();
            if self.takes_only_tasks(&leg).await {
                return self.as_task(leg).await.map_err(upstream_failure::after_sending);
            }
        }
        outcome
    }
}

impl CallErrand {
    async fn takes_only_tasks(&self, leg: &Leg) -> bool {
        let Some(fenced) = &self.fenced else { return false };
        let required =
            tasks::is_required(&self.member, &self.outline.counterpart, fenced.upstream_tool(), leg.deadline);
        // Of a call that was taken back nobody needs to know; the upstream is told in a moment.
        tokio::select! {
            required = required => required,
            () = self.outline.cancel.cancelled() => false,
        }
    }

    async fn perform(&mut self, leg: Leg, task: Option<Box<RawValue>>) -> Result<Answer, PerformFailure> {
        let Some(fenced) = self.fenced.take() else {
            return Err(PerformFailure::Unavailable { why: "the call is being sent already".to_owned() });
        };
        let param_headers = self.param_headers.clone();
        let delivery = Delivery { task, param_headers, ..self.outline.delivery(leg) };
        let performed = self.member.server.perform(fenced, delivery).await;
        self.fenced = Some(performed.fenced);
        performed.outcome
    }

    /// Makes a task of the call and waits for its end, as if it were none.
    async fn as_task(&mut self, leg: Leg) -> Result<Answer, PerformFailure> {
        let answer = self.perform(leg.clone(), Some(tasks::plain_request())).await?;
        let Some(created) = tasks::created(&answer) else { return Ok(answer) };
        tasks::drive(&self.member, &created, &leg, |leg| self.outline.delivery(leg)).await
    }
}
