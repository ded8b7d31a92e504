//! What the policies say to one question, put together: permits, forbids and failures, and what follows from them.
//!
//! Nothing is asked here: what each rule said is handed in.

use std::sync::Arc;

use crate::{
    bucket::Rule,
    decision::{By, Cause, Decision, Refused},
    determining::Determining,
    guise::Guise,
    mentions::Needs,
};

/// What the policies say whatever the call of a tool by a principal is, and those that have to see the call.
#[derive(Debug)]
pub(crate) struct Settled {
    pub(crate) answer: Answer,
    pub(crate) open: Vec<Rule>,
    /// The policy that forbids calls in another tenant's name.
    pub(crate) own_tenant: Option<Arc<Determining>>,
    pub(crate) needs: Needs,
    /// What follows where the others say nothing.
    pub(crate) judged: Result<By, Refused>,
}

/// What the parts of the policies said.
#[derive(Debug, Clone, Default)]
pub(crate) struct Answer {
    permits: Vec<Arc<Determining>>,
    forbids: Vec<Arc<Determining>>,
    failed: Vec<Arc<Determining>>,
    errors: Vec<String>,
    /// No policy permits it under a name that needs a permission.
    lacks_permit: bool,
}

impl Default for Settled {
    fn default() -> Self {
        let judged = Err(Refused::for_cause(Cause::NotPermitted));
        Self { answer: Answer::default(), open: Vec::new(), own_tenant: None, needs: Needs::default(), judged }
    }
}

impl Answer {
    pub(crate) fn is_silent(&self) -> bool {
        self.permits.is_empty() && self.forbids.is_empty() && self.failed.is_empty()
    }

    /// Together with what others said.
    pub(crate) fn beside(mut self, others: &Self) -> Self {
        self.permits.extend_from_slice(&others.permits);
        self.forbids.extend_from_slice(&others.forbids);
        self.failed.extend_from_slice(&others.failed);
        self.errors.extend_from_slice(&others.errors);
        self
    }

    /// Joins it with the decision about the same caller under another name.
    pub(crate) fn and_as(self, guise: Guise, said: &Self) -> Self {
        let permits = if guise.needs_permit() { said.permits.clone() } else { Vec::new() };
        let lacks_permit = self.lacks_permit || (guise.needs_permit() && permits.is_empty());
        Self { lacks_permit, ..self.beside(&Self { permits, ..said.clone() }) }
    }

    /// With what is said to a call of a principal in the name of a tenant, which may be another than its own.
    pub(crate) fn in_the_name_of(mut self, tenant: &str, own_tenant: &str, settled: &Settled) -> Self {
        self.forbids.extend(settled.own_tenant.iter().filter(|_| own_tenant != tenant).cloned());
        self
    }

    /// Whether it is refused whatever else is said.
    pub(crate) fn refuses(&self) -> bool {
        !self.forbids.is_empty() || !self.failed.is_empty()
    }

    /// Whether something permits it.
    pub(crate) fn permits(&self) -> bool {
        !self.permits.is_empty()
    }

    /// Takes note of what was found when a rule's condition was asked.
    pub(crate) fn take(&mut self, rule: &Rule, holds: Result<bool, String>) {
        match holds {
            Ok(true) => self.hear(rule),
            Ok(false) => {}
            Err(error) => {
                self.errors.push(format!("policy `{}`: {error}", rule.told.policy));
                self.failed.push(Arc::clone(&rule.told));
            }
        }
    }

    /// Takes note of a rule that holds.
    pub(crate) fn hear(&mut self, rule: &Rule) {
        let said = if rule.permits { &mut self.permits } else { &mut self.forbids };
        said.push(Arc::clone(&rule.told));
    }

    pub(crate) fn judged(mut self) -> Result<By, Refused> {
        if !self.errors.is_empty() {
            self.errors.sort();
            self.errors.dedup();
            return Err(Refused::by_policies(Cause::ErrorInPolicy { errors: self.errors }, self.failed));
        }
        if !self.forbids.is_empty() {
            return Err(Refused::by_policies(Cause::Forbidden, self.forbids));
        }
        if self.permits.is_empty() || self.lacks_permit {
            return Err(Refused::for_cause(Cause::NotPermitted));
        }
        Ok(By::of(self.permits))
    }

    /// The decision that follows.
    pub(crate) fn decision(self) -> Decision {
        Decision::of(self.judged())
    }
}
