//! A plan: the calls that an agent asks to be allowed to make, before it makes one. People decide about it on one ticket. What they approve is
//! the canonical document of the plan, which stands where a call's arguments stand; it says every tool, contract, argument, number of times,
//! and the money. What a grant of it allows follows from that document and from the approvals that its calls need, and from nothing else.
//! Deliberately not here: whether the gates pass the calls, and making the grant.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use servanda_contract::{
    Digest,
    digest::DigestDomain,
    json::{self, CanonicalBytes},
};

use crate::{
    ApprovalDemand, ApprovalGrant, Approver, CostCeiling, GrantObstacle, GrantedCall, Ticket, argument_leaves,
    granted_call::needs_people, proposed_bounds,
};

/// The longest purpose.
pub const PLAN_PURPOSE_CHARS_MAX: usize = 500;
/// The most values among the arguments of all calls of a plan: as many as a person is shown.
pub const PLAN_VALUES_MAX: usize = 200;
/// The sensitivity of values that are not written into anything that lasts.
const SECRET: &str = "secret";

/// A plan as it was judged.
#[derive(Debug, Clone, PartialEq)]
pub struct ProposedPlan {
    /// What it is for, in the words of the agent.
    pub purpose: String,
    /// The calls that need an approval.
    pub calls: Vec<ProposedCall>,
    /// For how many days.
    pub days: u32,
    /// The most that the calls may cost together.
    pub cost_max: Option<CostCeiling>,
}

/// A call of a plan, as it was judged.
#[derive(Debug, Clone, PartialEq)]
pub struct ProposedCall {
    /// The contract's name.
    pub tool_name: String,
    /// The contract's version.
    pub tool_version: String,
    /// The contract's digest.
    pub contract_digest: Digest,
    /// The canonical arguments.
    pub arguments: Bytes,
    /// The approval that it needs.
    pub demand: ApprovalDemand,
    /// How many times.
    pub times: u32,
    /// The sensitive arguments: JSON Pointer and `x-sensitivity`.
    pub sensitive: BTreeMap<String, String>,
}

/// What a plan's ticket says.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanTerms {
    /// What it is for, in the words of the agent.
    pub purpose: String,
    /// What its grant allows.
    pub calls: Vec<GrantedCall>,
    /// For how many days.
    pub days: u32,
    /// The most that the calls may cost together.
    pub cost_max: Option<CostCeiling>,
}

/// Why people are not asked about a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PlanFault {
    /// No group of people decides about all of its calls.
    #[error("different people decide about its calls: propose a plan for each of them")]
    DifferentPeople,
    /// People would not be shown all of it.
    #[error("its calls have more than {PLAN_VALUES_MAX} values together: propose two plans")]
    TooManyValues,
    /// It has no canonical form.
    #[error("its arguments have no canonical form")]
    NotCanonical,
}

/// The document that people approve.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanDocument {
    calls: Vec<PlannedCallDocument>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cost_max: Option<CostCeiling>,
    days: u32,
    purpose: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlannedCallDocument {
    arguments: Value,
    contract: Digest,
    times: u32,
    tool: String,
    version: String,
}

/// Why no grant can cover such calls, if none can: by the approval that they need, and by what is among their arguments.
pub fn call_obstacle(demand: &ApprovalDemand, sensitive: &BTreeMap<String, String>) -> Option<GrantObstacle> {
    if let Some(why) = needs_people(demand) {
        return Some(GrantObstacle::NeedsPeople(why));
    }
    sensitive.values().any(|sensitivity| sensitivity == SECRET).then_some(GrantObstacle::Secret)
}

impl ProposedCall {
    /// Why it cannot be a part of a plan, if it cannot.
    pub fn obstacle(&self) -> Option<GrantObstacle> {
        let unbounded = || argument_leaves(&self.arguments).err().map(GrantObstacle::Arguments);
        call_obstacle(&self.demand, &self.sensitive).or_else(unbounded)
    }
}

impl ProposedPlan {
    /// The canonical document that people approve.
    pub fn document(&self) -> Result<CanonicalBytes, PlanFault> {
        let mut values = 0;
        let call = |call: &ProposedCall| {
            values += argument_leaves(&call.arguments).map_or(usize::MAX / 32, |leaves| leaves.len());
            let arguments = serde_json::from_slice(&call.arguments).map_err(|_| PlanFault::NotCanonical)?;
            let (tool, version) = (call.tool_name.clone(), call.tool_version.clone());
            Ok(PlannedCallDocument { arguments, contract: call.contract_digest, times: call.times, tool, version })
        };
        let calls = self.calls.iter().map(call).collect::<Result<Vec<_>, PlanFault>>()?;
        if values > PLAN_VALUES_MAX {
            return Err(PlanFault::TooManyValues);
        }
        let (cost_max, purpose) = (self.cost_max.clone(), self.purpose.clone());
        let document = PlanDocument { calls, cost_max, days: self.days, purpose };
        let document = serde_json::to_value(&document).map_err(|_| PlanFault::NotCanonical)?;
        json::canonicalize(&document).map_err(|_| PlanFault::NotCanonical)
    }

    /// The approval that the plan needs: the strictest of its calls, for the reasons of all.
    pub fn demand(&self) -> Result<ApprovalDemand, PlanFault> {
        let demands = || self.calls.iter().map(|call| &call.demand);
        let satisfies_all = |demand: &&ApprovalDemand| demands().all(|other| demand.still_satisfies(other));
        let strictest = demands().find(satisfies_all).ok_or(PlanFault::DifferentPeople)?;
        let causes: BTreeSet<_> = demands().flat_map(|demand| demand.causes.iter().cloned()).collect();
        let class = demands().map(|demand| demand.class).max().unwrap_or(strictest.class);
        Ok(ApprovalDemand { causes: causes.into_iter().collect(), class, ..strictest.clone() })
    }

    /// What its approval allows, in one sentence. It has no words of the agent and no arguments.
    pub fn describe(&self) -> String {
        let call = |call: &ProposedCall| match call.times {
            1 => format!("{} once", call.tool_name),
            times => format!("{} {times} times", call.tool_name),
        };
        let calls = self.calls.iter().map(call).collect::<Vec<_>>().join(", ");
        let days = if self.days == 1 { "a day".to_owned() } else { format!("{} days", self.days) };
        format!("Allows for {days}, within bounds: {calls}")
    }

    /// The sensitive values of the document: JSON Pointer and `x-sensitivity`.
    pub fn sensitive(&self) -> BTreeMap<String, String> {
        let of_call = |(number, call): (usize, &ProposedCall)| {
            let inside = move |(pointer, sensitivity): (&String, &String)| {
                (format!("/calls/{number}/arguments{pointer}"), sensitivity.clone())
            };
            call.sensitive.iter().map(inside).collect::<Vec<_>>()
        };
        self.calls.iter().enumerate().flat_map(of_call).collect()
    }
}

impl Ticket {
    /// What a plan's ticket says; none if it is not about a plan, or its document is not that of a plan.
    pub fn plan(&self) -> Option<PlanTerms> {
        let subject = &self.subject;
        let document: PlanDocument =
            serde_json::from_slice(&subject.arguments).ok().filter(|_| !subject.plan.is_empty())?;
        let PlanDocument { calls, cost_max, days, purpose } = document;
        if calls.len() != subject.plan.len() {
            return None;
        }
        let granted = |(call, demand): (PlannedCallDocument, &ApprovalDemand)| {
            let arguments = json::canonicalize(&call.arguments).ok()?;
            let parts: [&[u8]; 4] =
                [subject.tenant.as_bytes(), call.tool.as_bytes(), call.contract.as_bytes(), arguments.bytes()];
            Some(GrantedCall {
                ticket: None,
                payload_hash: Digest::compute(DigestDomain::Proposal, &parts),
                tool_name: call.tool,
                tool_version: call.version,
                contract_digest: call.contract,
                demand: demand.clone(),
                bounds: proposed_bounds(arguments.bytes()).ok()?,
                uses_max: call.times,
            })
        };
        let calls = calls.into_iter().zip(&subject.plan).map(granted).collect::<Option<Vec<_>>>()?;
        Some(PlanTerms { purpose, calls, days, cost_max })
    }

    /// The grant that a person makes by approving a plan; none if the ticket is not about one.
    pub fn make_plan_grant(
        &self,
        approver: &Approver,
        credential: String,
        (at_ms, until_ms): (u64, u64),
    ) -> Option<ApprovalGrant> {
        let PlanTerms { calls, cost_max, .. } = self.plan()?;
        let subject = &self.subject;
        Some(ApprovalGrant {
            ticket: self.id.clone(),
            payload_hash: subject.payload,
            tenant: subject.tenant.clone(),
            principal: subject.principal.clone(),
            actors: subject.actors.clone(),
            calls,
            cost_max,
            until_ms,
            approver: approver.principal.clone(),
            groups: approver.groups.clone(),
            presence: approver.presence,
            credential,
            at_ms,
        })
    }
}
