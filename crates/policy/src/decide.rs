//! The decision about one call. Forbid wins; what nothing permits is refused; an error in any policy that was looked at
//! refuses, where Cedar alone would pass the policy over and might let the call through.

use std::sync::Arc;

use serde::Serialize;
use servanda_contract::record::Texts;

use crate::{
    bucket::Rule,
    index::Holds,
    mentions::Needs,
    policies::Policies,
    principal::{Guise, Principal},
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
    by: By,
}

/// Why a call may not be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    cause: Cause,
    by: By,
}

/// The policies that made the difference, by id. Most decisions are made by the same as the one before, so they are shared.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct By {
    policies: Arc<[Arc<Determining>]>,
    ids: Texts,
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

    fn judge(&self, call: &Call<'_>) -> Result<By, Refused> {
        let Some(tool) = self.vocabulary().tool(call.tool) else { return Err(Refused::for_cause(Cause::UnknownTool)) };
        let tool = tool.in_call_of(call.circumstances.program_class);
        if call.principal.is_plain() {
            let (settled, said) = self.said(call, tool)?;
            return if said.is_silent() { settled.judged.clone() } else { said.beside(&settled.answer).judged() };
        }
        let mut all = Answer::default();
        for (guise, principal) in call.principal.guises() {
            let (settled, said) = self.said(&Call { principal, ..*call }, tool)?;
            all = all.and_as(guise, &said.beside(&settled.answer));
        }
        all.judged()
    }

    /// What is settled of a call by one who is nobody else, and what those policies say that have to see it.
    fn said(&self, call: &Call<'_>, tool: &Tool) -> Result<(Arc<Settled>, Answer), Refused> {
        let settled = self.settled(call.principal, call.tool, tool)?;
        let mut said = Answer::default().in_the_name_of(call.circumstances.tenant, call.principal, &settled);
        if !settled.open.is_empty() {
            let question = request::of_call(call, tool, &[&settled.needs].into_iter().collect())?;
            settled.open.iter().for_each(|rule| said.ask(&question, rule));
        }
        Ok((settled, said))
    }

    pub(crate) fn settled(&self, principal: &Principal, name: &str, tool: &Tool) -> Result<Arc<Settled>, Unaskable> {
        let key = (self.number(), tool.number);
        if let Some(settled) = principal.memory.settled.get(&key) {
            return Ok(settled);
        }
        let buckets = self.index().buckets(name, tool, principal);
        let question = request::of_all_calls(principal, tool)?;
        let fixed = self.index().fixed(tool, buckets.iter().flat_map(|bucket| &bucket.rules));
        let mut settled = Settled::default();
        for bucket in buckets {
            settled.needs.add(&bucket.needs);
            for rule in &bucket.rules {
                let known = rule.fixed.and_then(|number| fixed.get(&number));
                match (rule.own_tenant, rule.open, known) {
                    (true, ..) => settled.own_tenant = Some(Arc::clone(&rule.told)),
                    (false, _, Some(Holds::No)) => {}
                    (false, _, Some(Holds::Yes)) => settled.answer.hear(rule),
                    (false, true, _) => settled.open.push(rule.clone()),
                    // What fails is asked, so that it is told how.
                    (false, false, _) => settled.answer.ask(&question, rule),
                }
            }
        }
        settled.judged = settled.answer.clone().judged();
        let settled = Arc::new(settled);
        if settled.open.len() <= OPEN_MAX {
            principal.memory.settled.keep(key, Arc::clone(&settled));
        }
        Ok(settled)
    }
}

/// What the policies say whatever the call of a tool by a principal is, and those that have to see the call.
#[derive(Debug)]
pub(crate) struct Settled {
    pub(crate) answer: Answer,
    pub(crate) open: Vec<Rule>,
    /// The policy that forbids calls in another tenant's name.
    own_tenant: Option<Arc<Determining>>,
    needs: Needs,
    /// What follows where the others say nothing.
    judged: Result<By, Refused>,
}

/// What the parts of the policies said.
#[derive(Debug, Clone, Default)]
pub(crate) struct Answer {
    permits: Vec<Arc<Determining>>,
    forbids: Vec<Arc<Determining>>,
    failed: Vec<Arc<Determining>>,
    errors: Vec<String>,
    /// Nothing permits it to somebody to whom it has to be permitted.
    lacks_permit: bool,
}

impl Default for Settled {
    fn default() -> Self {
        let judged = Err(Refused::for_cause(Cause::NotPermitted));
        Self { answer: Answer::default(), open: Vec::new(), own_tenant: None, needs: Needs::default(), judged }
    }
}

impl Answer {
    fn is_silent(&self) -> bool {
        self.permits.is_empty() && self.forbids.is_empty() && self.failed.is_empty()
    }

    /// Together with what others said.
    fn beside(mut self, others: &Self) -> Self {
        self.permits.extend_from_slice(&others.permits);
        self.forbids.extend_from_slice(&others.forbids);
        self.failed.extend_from_slice(&others.failed);
        self.errors.extend_from_slice(&others.errors);
        self
    }

    /// Together with what is said where the caller is looked at as somebody else.
    pub(crate) fn and_as(self, guise: Guise, said: &Self) -> Self {
        let permits = if guise.needs_permit() { said.permits.clone() } else { Vec::new() };
        let lacks_permit = self.lacks_permit || (guise.needs_permit() && permits.is_empty());
        Self { lacks_permit, ..self.beside(&Self { permits, ..said.clone() }) }
    }

    /// With what is said to a call in that tenant's name.
    pub(crate) fn in_the_name_of(mut self, tenant: &str, principal: &Principal, settled: &Settled) -> Self {
        self.forbids.extend(settled.own_tenant.iter().filter(|_| principal.tenant != tenant).cloned());
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

    pub(crate) fn ask(&mut self, question: &Question, rule: &Rule) {
        let holds = rule.condition.as_ref().map_or(Ok(true), |condition| question.holds(condition));
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
    fn hear(&mut self, rule: &Rule) {
        let said = if rule.permits { &mut self.permits } else { &mut self.forbids };
        said.push(Arc::clone(&rule.told));
    }

    fn judged(mut self) -> Result<By, Refused> {
        if !self.errors.is_empty() {
            self.errors.sort();
            self.errors.dedup();
            return Err(Refused { cause: Cause::ErrorInPolicy { errors: self.errors }, by: By::of(self.failed) });
        }
        if !self.forbids.is_empty() {
            return Err(Refused { cause: Cause::Forbidden, by: By::of(self.forbids) });
        }
        if self.permits.is_empty() || self.lacks_permit {
            return Err(Refused::for_cause(Cause::NotPermitted));
        }
        Ok(By::of(self.permits))
    }

    /// The decision that follows.
    pub(crate) fn decision(self) -> Decision {
        self.judged().map_or_else(Decision::Refused, |by| Decision::Allowed(Allowed { by }))
    }
}

impl By {
    /// Sorted, so that the same decision always reads the same.
    fn of(mut policies: Vec<Arc<Determining>>) -> Self {
        policies.sort_unstable();
        policies.dedup();
        let ids = policies.iter().map(|determining| determining.policy.clone()).collect();
        Self { policies: policies.into(), ids }
    }
}

impl Decision {
    /// Whether the call may be made.
    pub const fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed(_))
    }

    /// The policies that made the difference, by id.
    pub fn by(&self) -> &[Arc<Determining>] {
        &self.made_by().policies
    }

    /// Their ids.
    pub fn ids(&self) -> Texts {
        self.made_by().ids.clone()
    }

    const fn made_by(&self) -> &By {
        match self {
            Self::Allowed(allowed) => &allowed.by,
            Self::Refused(refused) => &refused.by,
        }
    }
}

impl Cause {
    /// The kind in a word, for records.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Forbidden => "forbidden",
            Self::NotPermitted => "not_permitted",
            Self::ErrorInPolicy { .. } => "error_in_policy",
            Self::UnknownTool => "unknown_tool",
            Self::Arguments { .. } => "arguments",
            Self::Engine { .. } => "engine",
        }
    }
}

impl Allowed {
    /// The policies that permit it.
    pub fn by(&self) -> &[Arc<Determining>] {
        &self.by.policies
    }
}

impl Refused {
    /// The kind of refusal.
    pub const fn cause(&self) -> &Cause {
        &self.cause
    }

    /// The policies that forbid it, or that failed.
    pub fn by(&self) -> &[Arc<Determining>] {
        &self.by.policies
    }

    pub(crate) fn for_cause(cause: Cause) -> Self {
        Self { cause, by: By::default() }
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
