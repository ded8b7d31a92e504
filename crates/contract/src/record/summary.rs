//! What a list says of a call, and a call in one line. It is told from the record alone, so that every list and log says the same.

use std::fmt;

use serde::Serialize;

use super::CallRecord;
use crate::{GateName, TaxonomyClass, Timestamp};

/// A call in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CallSummary {
    /// The call.
    pub call_id: String,
    /// When it was received, in milliseconds since the epoch.
    pub received_ms: u64,
    /// The tenant of the caller.
    pub tenant: String,
    /// The user.
    pub principal: String,
    /// The agent that acted for the user, if one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The id of the credential, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credential: Option<String>,
    /// The exposed name as called.
    pub tool: String,
    /// How it ended.
    pub outcome: &'static str,
    /// The class of the end.
    pub class: Option<&'static str>,
    /// The stage that refused it.
    pub gate: Option<GateName>,
    /// How long it took, once it has ended.
    pub took_ms: Option<u64>,
}

impl CallSummary {
    /// What a list says of a call.
    pub fn of(record: &CallRecord) -> Self {
        let caller = &record.caller;
        Self {
            call_id: record.call_id.to_string(),
            received_ms: record.received_at.unix_ms(),
            tenant: caller.tenant.clone(),
            principal: caller.principal.clone(),
            agent: caller.actors.first().map(|actor| actor.name.clone()),
            credential: caller.credential.clone(),
            tool: record.tool.clone(),
            outcome: record.outcome.name(),
            class: record.class.map(TaxonomyClass::name),
            gate: record.refused_at(),
            took_ms: record.finished_at.map(|at| at.since_ms(record.received_at)),
        }
    }

    /// Who called: the agent that acted and the user; none for the principal of local mode.
    pub fn caller(&self) -> Option<String> {
        let user = format!("{}/{}", self.tenant, self.principal);
        match &self.agent {
            Some(agent) => Some(format!("{agent} for {user}")),
            None => (user != "local/local").then_some(user),
        }
    }

    /// The time of day at which it was received, in UTC.
    pub fn time(&self) -> String {
        Timestamp::from_unix_ms(self.received_ms).to_string().chars().skip(11).take(8).collect()
    }
}

/// `09:35:32 acme/ada company__pay_invoice refused at policy (POLICY_VIOLATION) 3 ms call_0193…`
impl fmt::Display for CallSummary {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ", self.time())?;
        if let Some(caller) = self.caller() {
            write!(formatter, "{caller} ")?;
        }
        write!(formatter, "{} {}", self.tool, self.outcome)?;
        if let Some(gate) = self.gate {
            write!(formatter, " at {gate} ({})", self.class.unwrap_or("-"))?;
        }
        if let Some(took_ms) = self.took_ms {
            write!(formatter, " {took_ms} ms")?;
        }
        write!(formatter, " {}", self.call_id)
    }
}
