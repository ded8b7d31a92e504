//! The decision about one call. Forbid wins; what nothing permits is refused; an error in any policy that was looked at
//! refuses, where Cedar alone would pass the policy over and might let the call through.

use std::sync::Arc;

use serde::Serialize;

use crate::{
    bucket::Rule,
    mentions::Needs,
    policies::Policies,
    principal::Principal,
    request::{self, Call, Question, Unaskable},
    vocabulary::Tool,
};

/// What is left to ask of a tool is remembered up to this many policies.
const OPEN_MAX: usize = 512;

/// What the policies say to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It may be made, as far as policy goes.
    Allowed(Allowed),
    /// It may not.
    Refused(Refused),
}

/// Evidence that the policies in force permit a call. Only a decision makes one, never a shadow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowed {
    by: Vec<Arc<Determining>>,
}

/// Why a call may not be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    cause: Cause,
    by: Vec<Arc<Determining>>,
}

/// Kinds of refusals.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// A policy forbids it.
    Forbidden,
    /// No policy permits it.
    NotPermitted,
    /// A policy could not be evaluated, so nobody knows whether it forbids.
    ErrorInPolicy {
        /// What went wrong, for the operator.
        errors: Vec<String>,
    },
    /// The policies know no such tool.
    UnknownTool,
    /// A policy looks at an argument that it cannot hold exactly.
    Arguments {
        /// What does not fit, without the value.
        reason: String,
    },
    /// The question could not be asked: a defect of ours.
    Engine {
        /// What went wrong.
        reason: String,
    },
}

/// A policy that made the difference.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Determining {
    /// Its id.
    pub policy: String,
    /// Its file and line.
    pub place: String,
    /// What its author says about it: `@reason("...")`.
    pub reason: Option<String>,
}

impl Policies {
    /// Decides a call.
    pub fn decide(&self, call: &Call<'_>) -> Decision {
        self.judge(call).map_or_else(Decision::Refused, |by| Decision::Allowed(Allowed { by }))
    }

    fn judge(&self, call: &Call<'_>) -> Result<Vec<Arc<Determining>>, Refused> {
        let Some(tool) = self.vocabulary().tool(call.tool) else { return Err(Refused::for_cause(Cause::UnknownTool)) };
        let settled = self.settled(call.principal, call.tool, tool)?;
        let mut answer = settled.answer.clone();
        if !settled.open.is_empty() {
            let question = request::of_call(call, tool, &[&settled.needs].into_iter().collect())?;
            settled.open.iter().for_each(|rule| answer.ask(&question, rule));
        }
        answer.judged()
    }

    fn settled(&self, principal: &Principal, name: &str, tool: &Tool) -> Result<Arc<Settled>, Unaskable> {
        let key = (self.number(), tool.number);
        if let Some(settled) = principal.memory.settled.get(&key) {
            return Ok(settled);
        }
        let buckets = self.index().buckets(name, tool, principal);
        let question = request::of_all_calls(principal, tool)?;
        let mut settled = Settled::default();
        for bucket in buckets {
            settled.needs.add(&bucket.needs);
            for rule in &bucket.rules {
                if rule.open { settled.open.push(rule.clone()) } else { settled.answer.ask(&question, rule) }
            }
        }
        let settled = Arc::new(settled);
        if settled.open.len() <= OPEN_MAX {
            principal.memory.settled.keep(key, Arc::clone(&settled));
        }
        Ok(settled)
    }
}

/// What the policies say whatever the call of a tool by a principal is, and those that have to see the call.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    answer: Answer,
    open: Vec<Rule>,
    needs: Needs,
}

/// What the parts of the policies said.
#[derive(Debug, Clone, Default)]
struct Answer {
    permits: Vec<Arc<Determining>>,
    forbids: Vec<Arc<Determining>>,
    failed: Vec<Arc<Determining>>,
    errors: Vec<String>,
}

impl Answer {
    fn ask(&mut self, question: &Question, rule: &Rule) {
        let holds = rule.condition.as_ref().map_or(Ok(true), |condition| question.holds(condition));
        match holds {
            Ok(true) if rule.permits => self.permits.push(Arc::clone(&rule.told)),
            Ok(true) => self.forbids.push(Arc::clone(&rule.told)),
            Ok(false) => {}
            Err(error) => {
                self.errors.push(format!("policy `{}`: {error}", rule.told.policy));
                self.failed.push(Arc::clone(&rule.told));
            }
        }
    }

    fn judged(mut self) -> Result<Vec<Arc<Determining>>, Refused> {
        // Sorted, so that the same decision always reads the same.
        let sorted = |mut by: Vec<Arc<Determining>>| {
            by.sort_unstable();
            by
        };
        if !self.errors.is_empty() {
            self.errors.sort();
            return Err(Refused { cause: Cause::ErrorInPolicy { errors: self.errors }, by: sorted(self.failed) });
        }
        if !self.forbids.is_empty() {
            return Err(Refused { cause: Cause::Forbidden, by: sorted(self.forbids) });
        }
        if self.permits.is_empty() {
            return Err(Refused::for_cause(Cause::NotPermitted));
        }
        Ok(sorted(self.permits))
    }
}

impl Decision {
    /// Whether the call may be made.
    pub const fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed(_))
    }

    /// The policies that made the difference, by id.
    pub fn by(&self) -> &[Arc<Determining>] {
        match self {
            Self::Allowed(allowed) => &allowed.by,
            Self::Refused(refused) => &refused.by,
        }
    }
}

impl Allowed {
    /// The policies that permit it.
    pub fn by(&self) -> &[Arc<Determining>] {
        &self.by
    }
}

impl Refused {
    /// The kind of refusal.
    pub const fn cause(&self) -> &Cause {
        &self.cause
    }

    /// The policies that forbid it, or that failed.
    pub fn by(&self) -> &[Arc<Determining>] {
        &self.by
    }

    fn for_cause(cause: Cause) -> Self {
        Self { cause, by: Vec::new() }
    }
}

impl From<Unaskable> for Refused {
    fn from(unaskable: Unaskable) -> Self {
        Self::for_cause(match unaskable {
            Unaskable::Arguments(reason) => Cause::Arguments { reason },
            Unaskable::Engine(reason) => Cause::Engine { reason },
        })
    }
}
