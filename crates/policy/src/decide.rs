//! The decision about one call. Forbid wins; what nothing permits is refused; an error in any policy that was looked at
//! refuses, where Cedar alone would pass the policy over and might let the call through.

use std::sync::Arc;

use crate::{
    answer::{Answer, Settled},
    decision::{By, Cause, Decision, Refused},
    index::Holds,
    policies::Policies,
    principal::Principal,
    request::{self, Call, Unaskable},
    vocabulary::Tool,
};

/// What is left to ask of a tool is remembered up to this many policies.
const OPEN_MAX: usize = 512;

impl Policies {
    /// Decides a call.
    pub fn decide(&self, call: &Call<'_>) -> Decision {
        Decision::of(self.judge(call))
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
        let mut said = Answer::default().in_the_name_of(call.circumstances.tenant, &call.principal.tenant, &settled);
        if !settled.open.is_empty() {
            let question = request::of_call(call, tool, &[&settled.needs].into_iter().collect())?;
            settled.open.iter().for_each(|rule| said.take(rule, question.holds_for(rule)));
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
                    (false, false, _) => settled.answer.take(rule, question.holds_for(rule)),
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

impl From<Unaskable> for Refused {
    fn from(unaskable: Unaskable) -> Self {
        Self::for_cause(match unaskable {
            Unaskable::Arguments(reason) => Cause::Arguments { reason },
            Unaskable::Engine(reason) => Cause::Engine { reason },
        })
    }
}
