//! Which tools a principal is shown, by the policies that decide calls: a tool that no call could be allowed for is not
//! shown, and there is no way to hide one that can be called.

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

/// How a tool stands with a principal before there is a call.
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
    /// How a tool stands with a principal. Of the circumstances, the tenant, the environment and the client count; what only a
    /// single call has does not.
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
        // Which class a call has, the program that it brings decides.
        if standings.all(|other| other == first) { first } else { ListDecision::Depends }
    }

    /// What can be told of one who is nobody else.
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
        // An argument that is looked at may be one that no policy can hold exactly, and such a call is refused.
        let mut seen = ListFindings { open: needs.any_argument(), ..ListFindings::default() };
        for bucket in buckets {
            seen.look(self, &question, bucket);
        }
        Some(seen)
    }
}

impl ListDecision {
    /// How a tool stands with somebody who is looked at in two ways.
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
    /// Something refuses every call.
    refuses_all: bool,
    /// Something permits every call.
    permits_all: bool,
    /// Something may permit some calls.
    permits_some: bool,
    /// Something may say no to some calls, or fail.
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
            // It fails before it looks at anything of a call, so it always does.
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
