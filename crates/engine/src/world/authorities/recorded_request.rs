//! A recorded call as policies would see it again: the caller, the tool and the circumstances. The record has neither the arguments nor
//! the gateway's environment at that time; the present environment is used instead.

use servanda_contract::{CallRecord, record::Texts};
use servanda_policy::{CallCircumstances, Principal, PrincipalError, Vocabulary};

use super::principals::PrincipalFacts;

/// A recorded call that reached the policies.
#[derive(Debug)]
pub struct RecordedPolicyRequest<'a> {
    /// The caller.
    pub principal: Principal,
    /// The name of the tool's contract.
    pub tool: &'a str,
    /// When and where the call was made, and for what purpose.
    pub circumstances: CallCircumstances<'a>,
    /// Whether the record has the caller's groups. If it does not, the principal is in no group, and the decisions of policies that look
    /// at groups mean nothing.
    pub groups_known: bool,
}

impl<'a> RecordedPolicyRequest<'a> {
    /// What the record tells; none for a call that never reached the policies.
    pub fn from_record(
        record: &'a CallRecord,
        vocabulary: &Vocabulary,
        environment: &'a str,
    ) -> Result<Option<Self>, PrincipalError> {
        let (Some(contract), Some(policy)) = (&record.contract, &record.policy) else { return Ok(None) };
        let caller = &record.caller;
        let groups = policy.groups.as_ref().map_or(&[][..], Texts::as_slice);
        let principal = PrincipalFacts::from_record(caller, policy.scopes.as_slice(), groups).principal(vocabulary)?;
        let circumstances = CallCircumstances {
            tenant: &caller.tenant,
            environment,
            time: record.received_at,
            client: caller.client.as_deref(),
            task: policy.task.as_deref(),
            intent: policy.intent.as_deref(),
            question: None,
            program_class: policy.program_class,
        };
        Ok(Some(Self { principal, tool: &contract.name, circumstances, groups_known: policy.groups.is_some() }))
    }
}
