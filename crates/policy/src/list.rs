//! Which tools a principal is shown, by the policies that decide calls: a tool is hidden if no call of it could be allowed, and
//! a tool that can be called cannot be hidden.

use cedar_policy::{PolicySet, Response};

use crate::{
    bucket::PolicyBucket,
    context_needs::CombinedNeeds,
    policies::Policies,
    principal::Principal,
    principal_role::PrincipalRole,
    request::{self, CallCircumstances, CedarRequest},
    vocabulary::PolicyTool,
};

/// What the policies say about a tool and a principal before there is a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListDecision {
    /// Every call is allowed, whatever its arguments.
    Allowed,
    /// No call is allowed, whatever its arguments.
    Denied,
    /// It depends on the call.
    Depends,
}

impl Policies {
    /// What the policies say about a tool and a principal. Of the circumstances, only the tenant, the environment and the
    /// client count; those of a single call do not.
    pub fn list_decision(
        &self,
        principal: &Principal,
        tool: &str,
        circumstances: &CallCircumstances<'_>,
    ) -> ListDecision {
        let Some(known) = self.vocabulary().tool(tool) else { return ListDecision::Denied };
        let of_class = |known: &PolicyTool| {
            let as_whom = principal.roles().map(|(role, principal)| {
                self.list_findings(principal, tool, known, circumstances)
                    .map_or(ListDecision::Denied, |seen| seen.list_decision(role))
            });
            as_whom.fold(ListDecision::Allowed, ListDecision::and)
        };
        let mut standings = known.for_all_classes().map(of_class);
        let first = standings.next().unwrap_or(ListDecision::Denied);
        // The program in its arguments decides the class of a call.
        if standings.all(|other| other == first) { first } else { ListDecision::Depends }
    }

    /// The findings for a single principal, without other names.
    fn list_findings(
        &self,
        principal: &Principal,
        tool: &str,
        known: &PolicyTool,
        circumstances: &CallCircumstances<'_>,
    ) -> Option<ListFindings> {
        let buckets = self.index().buckets(tool, known, principal);
        let needs: CombinedNeeds<'_> = buckets.iter().map(|bucket| &bucket.list_needs).collect();
        let question = request::for_list(principal, known, circumstances, &needs).ok()?;
        // A policy may look at an argument whose value it cannot hold exactly, and such a call is refused.
        let mut seen = ListFindings { open: needs.any_argument(), ..ListFindings::default() };
        for bucket in buckets {
            seen.look(self, &question, bucket);
        }
        Some(seen)
    }
}

impl ListDecision {
    /// Joins the decisions for two names of one caller.
    const fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Denied, _) | (_, Self::Denied) => Self::Denied,
            (Self::Allowed, Self::Allowed) => Self::Allowed,
            _ => Self::Depends,
        }
    }
}

#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "four findings that do not exclude each other")]
struct ListFindings {
    /// Some policy refuses every call.
    refuses_all: bool,
    /// Some policy permits every call.
    permits_all: bool,
    /// Some policy may permit some calls.
    permits_some: bool,
    /// Some policy may refuse some calls, or fail.
    open: bool,
}

impl ListFindings {
    fn look(&mut self, policies: &Policies, question: &CedarRequest, bucket: &PolicyBucket) {
        let ask = |set: &PolicySet| {
            let asked = |set| policies.authorizer().is_authorized(&question.request, set, &question.entities);
            (!set.is_empty()).then(|| asked(set))
        };
        let allows = |response: &Response| response.decision() == cedar_policy::Decision::Allow;
        let fails = |response: &Response| response.diagnostics().errors().next().is_some();
        if let Some(certain) = ask(&bucket.certain) {
            self.permits_all |= allows(&certain);
            let forbids = !allows(&certain) && certain.diagnostics().reason().next().is_some();
            self.refuses_all |= forbids || fails(&certain);
        }
        if let Some(prefixes) = ask(&bucket.prefixes) {
            self.open |= allows(&prefixes);
            // It fails before it reads anything of a call, so it always fails.
            self.refuses_all |= fails(&prefixes);
        }
        if let Some(relaxed) = ask(&bucket.relaxed) {
            self.permits_some |= allows(&relaxed);
        }
    }

    fn list_decision(&self, role: PrincipalRole) -> ListDecision {
        let permitted = self.permits_all || !role.needs_permit();
        if self.refuses_all || !(permitted || self.permits_some) {
            ListDecision::Denied
        } else if permitted && !self.open {
            ListDecision::Allowed
        } else {
            ListDecision::Depends
        }
    }
}
