//! What was decided, for whom, and what applies to a call.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    PendingApproval,
    keys::ApprovalKey,
    record::{Record, Verdict},
};
use crate::{
    IdentityError, PublicName,
    call::{CallId, CallLedger, HostedRequest, HostedTool, Invocation, Scope},
};

/// The party on whose behalf a tool is called. A decision for one party does not apply to another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(pub String);

/// What a decision applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lasting {
    /// Only this call.
    ThisCall,
    /// This and all later calls of the same tool.
    Always,
}

/// All decisions of one conversation, and the ledger of its call ids.
#[derive(Debug, Clone)]
pub struct Approvals {
    owned: BTreeMap<ApprovalKey, BTreeMap<Owner, Record>>,
    hosted: BTreeMap<HostedTool, Record>,
    /// Decisions about single hosted calls, by the name they were made under. For display only.
    hosted_by_name: BTreeMap<(PublicName, CallId), Verdict>,
    ledger: CallLedger,
    decisions: usize,
    decisions_max: usize,
}

impl Approvals {
    /// No decisions yet. This many decisions and calls are remembered; more are refused.
    pub const fn new(decisions_max: usize) -> Self {
        Self {
            owned: BTreeMap::new(),
            hosted: BTreeMap::new(),
            hosted_by_name: BTreeMap::new(),
            ledger: CallLedger::new(decisions_max),
            decisions: 0,
            decisions_max,
        }
    }

    /// Decides about a pending call of a function tool.
    ///
    /// A decision about one call is filed under all its texts; a lasting one under the canonical text alone, and for this tool
    /// alone.
    pub fn decide(
        &mut self,
        owner: &Owner,
        pending: &PendingApproval,
        lasting: Lasting,
        verdict: Verdict,
        message: Option<&str>,
    ) -> Result<(), IdentityError> {
        if pending.call_id.is_none() {
            return Err(IdentityError::ApprovalRequiresCallId);
        }
        let invocation = Invocation::of(&pending.call, Some(&pending.lookup_key))
            .ok_or(IdentityError::ApprovalRequiresCanonicalInvocation)?;
        self.ledger.observe_invocation(&invocation)?;
        self.count()?;
        match lasting {
            Lasting::ThisCall => {
                for key in pending.keys.iter() {
                    self.record(key, owner).decide_call(&invocation.id, verdict, message);
                }
            }
            Lasting::Always => {
                let record = self.record(pending.keys.canonical(), owner);
                record.decide_all(&invocation.id, invocation.scope, verdict, message);
            }
        }
        Ok(())
    }

    /// Decides about a hosted request. Lasting decisions are about a tool of a server, for every owner.
    pub fn decide_hosted(
        &mut self,
        item: &Value,
        lasting: Lasting,
        verdict: Verdict,
        message: Option<&str>,
    ) -> Result<(), IdentityError> {
        let request = HostedRequest::of_item(item).ok_or(IdentityError::ApprovalRequiresCanonicalInvocation)?;
        if request.request_id.is_none() {
            return Err(IdentityError::HostedRequiresRequestId);
        }
        let Some(tool) = request.tool() else {
            return Err(match lasting {
                Lasting::Always => IdentityError::HostedStickyRequiresServerAndTool,
                Lasting::ThisCall => IdentityError::ApprovalRequiresCanonicalInvocation,
            });
        };
        let invocation = Invocation::of(item, None).ok_or(IdentityError::ApprovalRequiresCanonicalInvocation)?;
        self.ledger.observe_invocation(&invocation)?;
        self.count()?;
        self.hosted_by_name.insert((tool.name.clone(), invocation.id.clone()), verdict);
        let record = self.hosted.entry(tool).or_default();
        match lasting {
            Lasting::ThisCall => record.decide_call(&invocation.id, verdict, message),
            Lasting::Always => record.decide_all(&invocation.id, invocation.scope, verdict, message),
        }
        Ok(())
    }

    /// The verdict for a call of a function tool. Its id is first compared with the call that it meant before.
    pub fn status(&mut self, owner: &Owner, pending: &PendingApproval) -> Result<Option<Verdict>, IdentityError> {
        if pending.call_id.is_none() {
            return Err(IdentityError::ApprovalRequiresCallId);
        }
        self.ledger.observe(&pending.call, Some(&pending.lookup_key))?;
        let Some(invocation) = Invocation::of(&pending.call, Some(&pending.lookup_key)) else { return Ok(None) };
        let held = self.held(owner, pending).find_map(|record| record.verdict(&invocation.id, &invocation.scope));
        Ok(held)
    }

    /// The verdict for a hosted request.
    pub fn hosted_status(&mut self, item: &Value) -> Result<Option<Verdict>, IdentityError> {
        let Some((invocation, record)) = self.hosted_record(item) else { return Ok(None) };
        let verdict = record.verdict(&invocation.id, &invocation.scope);
        if verdict.is_some() {
            self.ledger.observe_invocation(&invocation)?;
        }
        Ok(verdict)
    }

    /// The message for the caller of a rejected call.
    pub fn rejection_message(&self, owner: &Owner, pending: &PendingApproval) -> Option<&str> {
        let scope = Scope::Function(pending.lookup_key.clone());
        let id = pending.call_id.as_ref()?;
        self.held(owner, pending).find_map(|record| record.message(id, &scope))
    }

    /// The message for the provider of a rejected hosted request.
    pub fn hosted_rejection_message(&self, item: &Value) -> Option<&str> {
        let (invocation, record) = self.hosted_record(item)?;
        record.message(&invocation.id, &invocation.scope)
    }

    /// What is filed under a text about a call, for people who search by text. It permits nothing: neither owner nor tool is
    /// known.
    pub fn inspect(&self, text: &str, id: &CallId) -> Option<Verdict> {
        let hosted = PublicName::new(text).and_then(|name| self.hosted_by_name.get(&(name, id.clone())));
        if let Some(verdict) = hosted {
            return Some(*verdict);
        }
        let (_, owners) = self.owned.iter().find(|(key, _)| key.as_str() == text)?;
        if let [only] = owners.values().collect::<Vec<_>>().as_slice() {
            return only.shown(id);
        }
        let mut exact = owners.values().filter_map(|record| record.exact(id));
        exact.next().filter(|_| exact.next().is_none())
    }

    /// The decisions that can be about this call: those under the canonical text first.
    fn held(&self, owner: &Owner, pending: &PendingApproval) -> impl Iterator<Item = &Record> {
        pending.keys.iter().rev().filter_map(|key| self.owned.get(key)?.get(owner)).collect::<Vec<_>>().into_iter()
    }

    fn hosted_record(&self, item: &Value) -> Option<(Invocation, &Record)> {
        let invocation = Invocation::of(item, None)?;
        let Scope::Hosted(tool) = &invocation.scope else { return None };
        let record = self.hosted.get(tool)?;
        Some((invocation, record))
    }

    fn record(&mut self, key: &ApprovalKey, owner: &Owner) -> &mut Record {
        self.owned.entry(key.clone()).or_default().entry(owner.clone()).or_default()
    }

    /// Counts a decision, or refuses it: forgetting an earlier one could allow something that was forbidden.
    fn count(&mut self) -> Result<(), IdentityError> {
        if self.decisions >= self.decisions_max {
            return Err(IdentityError::Full { what: "decisions", limit: self.decisions_max });
        }
        self.decisions += 1;
        Ok(())
    }
}
