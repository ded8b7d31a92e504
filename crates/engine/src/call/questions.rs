//! What the server of a call may ask its caller.

use servanda_authority::AuthenticatedCaller;
use servanda_contract::tool::QuestionKind;
use servanda_gates::Permit;

use super::{evidence::CallExchange, state::CallPipeline};
use crate::questions::QuestionRules;

impl CallPipeline<'_> {
    /// Kinds of questions that the contract or the policies forbid the server to ask the caller.
    pub(super) fn refused_questions(&self, permit: &Permit, authority: &AuthenticatedCaller) -> Vec<QuestionKind> {
        let mut refused = permit.contract().contract().refused_questions();
        let authorities = &self.snapshot.authorities;
        if let Ok(principal) = authorities.principal(authority) {
            refused.extend(permit.refused_questions(&authorities.mandate(authority, &principal)));
        }
        refused
    }

    /// The rules for what the server may ask on behalf of the call.
    pub(super) fn question_rules(&self, exchange: &CallExchange) -> QuestionRules {
        self.snapshot.question_rules(&exchange.member).refusing(&exchange.refused_questions)
    }
}
