//! What the policies would say to a call of which everything is known but its arguments: records keep no arguments. It is for
//! people who ask afterwards; nothing is ever let through by it.

use crate::{
    bucket::Rule,
    decide::{Cause, Decision, Refused},
    policies::Policies,
    principal::Principal,
    request::{self, Circumstances, Question},
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
        let settled = self.settled(principal, name, tool)?;
        let open = &settled.open;
        let needs = open.iter().filter_map(|rule| self.get(&rule.told.policy));
        let needs: Vec<_> = needs.map(|policy| policy.needs.without_arguments()).collect();
        let needs = needs.iter().collect();
        let question = request::of_call_without_arguments(principal, tool, circumstances, &needs)?;
        let answer = settled.answer.clone();
        let mut answer = answer.in_the_name_of(circumstances.tenant, principal, &settled);
        let mut unclear: Vec<&Rule> = Vec::new();
        for rule in open {
            if !self.looks_at_arguments(rule) {
                answer.ask(&question, rule);
            } else if self.may_hold(rule, &question) {
                unclear.push(rule);
            }
        }
        let may_permit = answer.permits() || unclear.iter().any(|rule| rule.permits);
        if unclear.is_empty() || answer.refuses() || !may_permit {
            return Ok(Outlook::Certain(answer.decision()));
        }
        let mut on: Vec<String> = unclear.iter().map(|rule| rule.told.policy.clone()).collect();
        on.sort_unstable();
        Ok(Outlook::Depends { on })
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
