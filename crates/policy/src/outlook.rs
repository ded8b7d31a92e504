//! What the policies would say to a call of which everything is known but its arguments: records keep no arguments. It is for
//! people who ask afterwards; nothing is ever let through by it.

use crate::{
    answer::Answer,
    bucket::Rule,
    decision::{Cause, Decision, Refused},
    policies::Policies,
    principal::Principal,
    request::{self, Circumstances, Question},
    vocabulary::Tool,
};

/// What can be told without arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outlook {
    /// The same, whatever the arguments are.
    Certain(Decision),
    /// It depends on the arguments, by these policies.
    Depends {
        /// Their ids.
        on: Vec<String>,
    },
}

/// What is certain, and the policies of which it is not.
struct Foreseen {
    answer: Answer,
    unclear: Vec<Rule>,
    /// Policies that do not hold, and that look at arguments which they may be unable to hold: such a call is refused.
    strained: Vec<String>,
}

impl Policies {
    /// What they would say to a call of that tool in these circumstances, as far as that does not depend on arguments.
    pub fn outlook(&self, principal: &Principal, tool: &str, circumstances: &Circumstances<'_>) -> Outlook {
        self.foresee(principal, tool, circumstances)
            .unwrap_or_else(|refused| Outlook::Certain(Decision::Refused(refused)))
    }

    fn foresee(
        &self,
        principal: &Principal,
        name: &str,
        circumstances: &Circumstances<'_>,
    ) -> Result<Outlook, Refused> {
        let Some(tool) = self.vocabulary().tool(name) else { return Err(Refused::for_cause(Cause::UnknownTool)) };
        let tool = tool.in_call_of(circumstances.program_class);
        let (mut all, mut on, mut may_permit) = (Answer::default(), Vec::new(), true);
        let mut strained = Vec::new();
        for (guise, principal) in principal.guises() {
            let Foreseen { answer, unclear, strained: more } = self.foreseen(principal, name, tool, circumstances)?;
            may_permit &= !guise.needs_permit() || answer.permits() || unclear.iter().any(|rule| rule.permits);
            all = all.and_as(guise, &answer);
            strained.extend(more);
            let heard = |rule: &&Rule| guise.needs_permit() || !rule.permits;
            on.extend(unclear.iter().filter(heard).map(|rule| rule.told.policy.clone()));
        }
        if on.is_empty() || all.refuses() || !may_permit {
            let decision = all.decision();
            if strained.is_empty() || !decision.is_allowed() {
                return Ok(Outlook::Certain(decision));
            }
        }
        on.extend(strained);
        on.sort_unstable();
        on.dedup();
        Ok(Outlook::Depends { on })
    }

    /// What can be told of one who is nobody else.
    fn foreseen(
        &self,
        principal: &Principal,
        name: &str,
        tool: &Tool,
        circumstances: &Circumstances<'_>,
    ) -> Result<Foreseen, Refused> {
        let settled = self.settled(principal, name, tool)?;
        let needs = settled.open.iter().filter_map(|rule| self.get(&rule.told.policy));
        let needs: Vec<_> = needs.map(|policy| policy.needs.without_arguments()).collect();
        let needs = needs.iter().collect();
        let question = request::of_call_without_arguments(principal, tool, circumstances, &needs)?;
        let mut answer = settled.answer.clone().in_the_name_of(circumstances.tenant, &principal.tenant, &settled);
        let (mut unclear, mut strained) = (Vec::new(), Vec::new());
        for rule in &settled.open {
            if !self.looks_at_arguments(rule) {
                answer.take(rule, question.holds_for(rule));
            } else if self.may_hold(rule, &question) {
                unclear.push(rule.clone());
            } else if self.get(&rule.told.policy).is_none_or(|policy| tool.may_strain(&policy.needs)) {
                strained.push(rule.told.policy.clone());
            }
        }
        Ok(Foreseen { answer, unclear, strained })
    }

    fn looks_at_arguments(&self, rule: &Rule) -> bool {
        self.get(&rule.told.policy).is_none_or(|policy| policy.needs.any_argument())
    }

    /// Whether the conditions before the first that looks at a call are met. Where they fail, that is told as unclear.
    fn may_hold(&self, rule: &Rule, question: &Question) -> bool {
        let listing = self.get(&rule.told.policy).and_then(|policy| policy.listing.as_ref());
        listing.is_none_or(|listing| self.holds(listing.prefix.clone(), question).unwrap_or(true))
    }
}
