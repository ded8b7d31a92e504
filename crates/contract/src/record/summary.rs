//! A call in a list, and a call in one line. Both come from the record alone, so that every list and log says the same.

use std::fmt;

use serde::Serialize;

use super::CallRecord;
use crate::{GateName, TaxonomyClass, Timestamp};

/// Characters of an id that are enough to find its call; at least so many are always shown.
pub const ID_CHARS_MIN: usize = 17;

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
    /// Its W3C trace id.
    pub trace: String,
    /// The exposed name as called.
    pub tool: String,
    /// How it ended.
    pub outcome: &'static str,
    /// The same for people, who are told more precisely why a read has no answer.
    #[serde(skip)]
    pub ended: &'static str,
    /// The class of the end.
    pub class: Option<&'static str>,
    /// The stage that refused it.
    pub gate: Option<GateName>,
    /// How long it took, once it has ended.
    pub took_ms: Option<u64>,
    /// The call that this record is the late answer of, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late_answer_of: Option<String>,
    /// The ticket of the grant that it used, if a grant covered it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grant: Option<String>,
}

impl CallSummary {
    /// Summarises a record.
    pub fn from_record(record: &CallRecord) -> Self {
        let caller = &record.caller;
        Self {
            call_id: record.call_id.to_string(),
            received_ms: record.received_at.unix_ms(),
            tenant: caller.tenant.clone(),
            principal: caller.principal.clone(),
            agent: caller.actors.first().map(|actor| actor.name.clone()),
            credential: caller.credential.clone(),
            trace: record.trace_id.clone(),
            tool: record.tool.clone(),
            outcome: record.outcome.name(),
            ended: record.ended(),
            class: record.class.map(TaxonomyClass::name),
            gate: record.refused_at(),
            took_ms: record.finished_at.map(|at| at.since_ms(record.received_at)),
            late_answer_of: record.continues.as_ref().filter(|_| record.is_late_answer()).map(ToString::to_string),
            grant: record.grant().map(str::to_owned),
        }
    }

    /// Who called: the agent and the user; none for the principal of local mode.
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

    /// The details beside the outcome: the stage and class of a refusal, the call of a late answer, the grant that was used. A plain
    /// success has none.
    pub fn detail(&self) -> Option<String> {
        if let Some(first) = &self.late_answer_of {
            let first: String = first.chars().take(ID_CHARS_MIN).collect();
            return Some(format!("the late answer of {first}"));
        }
        // The outcome already says that a completed call is a success.
        let class = self.class.filter(|class| *class != "SUCCESS");
        let end = match (class, self.gate) {
            (Some(class), Some(gate)) => Some(format!("{class} at {gate}")),
            (Some(class), None) => Some(class.to_owned()),
            (None, gate) => gate.map(|gate| format!("at {gate}")),
        };
        // The id is whole, because `servanda grants show` takes no part of one.
        let grant = self.grant.as_ref().map(|grant| format!("by grant {grant}"));
        let parts: Vec<String> = end.into_iter().chain(grant).collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    /// The call on a line that may be cut at its end: enough of the id to find the call comes before the least important part.
    /// `09:35:32 acme/ada company__pay_invoice refused call_0193a5b2c3d4 POLICY_VIOLATION at policy`
    pub fn brief(&self) -> String {
        let id: String = self.call_id.chars().take(ID_CHARS_MIN).collect();
        let rest = self.detail().or_else(|| self.took_ms.map(|took_ms| format!("{took_ms} ms"))).unwrap_or_default();
        let caller = self.caller().map(|caller| format!("{caller} ")).unwrap_or_default();
        let begin = format!("{} {caller}{} {}", self.time(), self.tool, self.ended);
        // For a late answer, people know and look up the first call.
        if self.late_answer_of.is_some() {
            return format!("{begin}, {rest}");
        }
        format!("{begin} {id} {rest}").trim_end().to_owned()
    }
}

/// `09:35:32 acme/ada company__pay_invoice refused at policy (POLICY_VIOLATION) 3 ms call_0193…`
impl fmt::Display for CallSummary {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ", self.time())?;
        if let Some(caller) = self.caller() {
            write!(formatter, "{caller} ")?;
        }
        write!(formatter, "{} {}", self.tool, self.ended)?;
        if let Some(gate) = self.gate {
            write!(formatter, " at {gate} ({})", self.class.unwrap_or("-"))?;
        }
        if let Some(first) = &self.late_answer_of {
            write!(formatter, ", the late answer of {first},")?;
        }
        if let Some(grant) = &self.grant {
            write!(formatter, ", by grant {grant},")?;
        }
        if let Some(took_ms) = self.took_ms {
            write!(formatter, " {took_ms} ms")?;
        }
        write!(formatter, " {}", self.call_id)
    }
}

#[cfg(test)]
mod tests {
    use super::CallSummary;
    use crate::GateName;

    fn call() -> CallSummary {
        CallSummary {
            call_id: "call_0193a5b2c3d4e5f60718293a4b5c6d7e".to_owned(),
            received_ms: 1_794_735_332_007,
            tenant: "acme".to_owned(),
            principal: "ada".to_owned(),
            agent: None,
            credential: None,
            trace: "0af7651916cd43dd8448eb211c80319c".to_owned(),
            tool: "company__pay_invoice".to_owned(),
            outcome: "completed",
            ended: "completed",
            class: Some("SUCCESS"),
            gate: None,
            took_ms: Some(3),
            late_answer_of: None,
            grant: None,
        }
    }

    #[test]
    fn a_brief_line_has_what_finds_the_call_before_the_rest() {
        let begin = "09:35:32 acme/ada company__pay_invoice";
        let completed = call();
        assert_eq!(completed.brief(), format!("{begin} completed call_0193a5b2c3d4 3 ms"));
        let refused = CallSummary {
            ended: "refused",
            class: Some("POLICY_VIOLATION"),
            gate: Some(GateName::Policy),
            ..completed.clone()
        };
        assert_eq!(refused.brief(), format!("{begin} refused call_0193a5b2c3d4 POLICY_VIOLATION at policy"));
        let first = "call_0193a5b2c3d0e5f60718293a4b5c6d7e";
        let grant = || Some("apr_0193a5b2c3d1e5f60718293a4b5c6d7e".to_owned());
        let granted = CallSummary { grant: grant(), ..completed.clone() };
        assert_eq!(
            granted.brief(),
            format!("{begin} completed call_0193a5b2c3d4 by grant apr_0193a5b2c3d1e5f60718293a4b5c6d7e")
        );
        assert!(granted.to_string().contains(" completed, by grant apr_0193a5b2c3d1e5f60718293a4b5c6d7e, 3 ms "));
        let failed =
            CallSummary { class: Some("TIMEOUT"), gate: Some(GateName::Perform), grant: grant(), ..completed.clone() };
        assert_eq!(
            failed.detail().as_deref(),
            Some("TIMEOUT at perform, by grant apr_0193a5b2c3d1e5f60718293a4b5c6d7e")
        );
        let late = CallSummary { late_answer_of: Some(first.to_owned()), ..completed };
        assert_eq!(late.brief(), format!("{begin} completed, the late answer of call_0193a5b2c3d0"));
        assert!(late.to_string().contains(first), "{late}");
    }
}
