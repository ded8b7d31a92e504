//! Whether calls of a tool need an approval, as far as that is known before there is a call: for lists. The policies that hold for every
//! call are known by then; of the others it is only known what they would ask for. It never lets a call through: gate 10 decides.

use servanda_approval::{ApprovalInputs, ApprovalSettings, PolicyApproval, demand};

use crate::{
    answer::PolicyAnswer, bucket::PolicyRule, policies::Policies, principal::Principal, vocabulary::PolicyTool,
};

/// Whether the calls of a tool by one caller need an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalOutlook {
    /// None does.
    NotNeeded,
    /// Some may: the program or the policies that read the call decide.
    Depends,
    /// Each does.
    Needed,
}

impl Policies {
    /// Whether calls of a tool by that principal need an approval. A call that the policies refuse needs none; that is not considered here.
    pub fn approval_outlook(&self, principal: &Principal, tool: &str, settings: &ApprovalSettings) -> ApprovalOutlook {
        let Some(known) = self.vocabulary().tool(tool) else { return ApprovalOutlook::NotNeeded };
        let of_class = |known: &PolicyTool| self.outlook_of_class(principal, tool, known, settings);
        // The program in its arguments may decide the class of a call.
        known.for_all_classes().map(of_class).reduce(ApprovalOutlook::and).unwrap_or(ApprovalOutlook::NotNeeded)
    }

    fn outlook_of_class(
        &self,
        principal: &Principal,
        name: &str,
        tool: &PolicyTool,
        settings: &ApprovalSettings,
    ) -> ApprovalOutlook {
        let (mut certain, mut open) = (PolicyAnswer::default(), Vec::new());
        // Few operators write policies about approvals; a tool need not be looked up in the others.
        if self.speak_of_approvals() {
            for (role, principal) in principal.roles() {
                let Ok(settled) = self.partial_evaluation(principal, name, tool) else {
                    return ApprovalOutlook::Depends;
                };
                certain = certain.combined_with(role, &settled.answer);
                let permits = settled.open.iter().filter(|rule| rule.permits && role.needs_permit());
                open.extend(permits.filter_map(approval_of));
            }
        }
        let certain = certain.approvals();
        let needed = |with: fn(&PolicyApproval) -> bool| {
            let said: Vec<PolicyApproval> =
                certain.iter().chain(open.iter().filter(|said| with(said))).cloned().collect();
            let (class, facts, trust) = (tool.class, tool.facts.approval(), principal.trust(settings));
            demand(&ApprovalInputs { class, facts, trust, policies: &said, payload: None }, settings).is_some()
        };
        let at_most = needed(PolicyApproval::asks);
        let at_least = if open.is_empty() { at_most } else { needed(PolicyApproval::lifts) };
        match (at_most, at_least) {
            (true, true) => ApprovalOutlook::Needed,
            (false, false) => ApprovalOutlook::NotNeeded,
            _ => ApprovalOutlook::Depends,
        }
    }
}

impl ApprovalOutlook {
    /// The outlook for calls of either kind.
    const fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Needed, Self::Needed) => Self::Needed,
            (Self::NotNeeded, Self::NotNeeded) => Self::NotNeeded,
            _ => Self::Depends,
        }
    }
}

fn approval_of(rule: &PolicyRule) -> Option<PolicyApproval> {
    rule.deciding_policy.approval.as_deref().cloned()
}
