//! A recorded call as policies would see it again: who called, what, and in which circumstances. Its arguments are not on
//! record, and in which environment the gateway was then is not either: it is taken to be the present one.

use servanda_contract::{CallRecord, record::Texts};
use servanda_policy::{CallCircumstances, Principal, PrincipalError, Vocabulary};

use super::principals::PrincipalFacts;

/// A recorded call that came to the policies.
#[derive(Debug)]
pub struct RecordedPolicyRequest<'a> {
    /// Who called.
    pub principal: Principal,
    /// The name of the tool's contract.
    pub tool: &'a str,
    /// When, where and what for.
    pub circumstances: CallCircumstances<'a>,
    /// Whether the record has the caller's groups. Where it does not, the principal is in none, and what policies that look at
    /// groups say means nothing.
    pub groups_known: bool,
}

impl<'a> RecordedPolicyRequest<'a> {
    /// What the record tells; none of a call that never came to the policies.
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
