//! Policy: who may call which tool with which arguments, written in Cedar. A decision evaluates only the policies that can
//! apply to the call.
//!
//! The vocabulary is generated from the contracts, policies are validated against it before they are used, and a decision
//! refuses unless it is sure. This crate takes values and returns values: no files, no clock, no sockets. It is the only crate
//! that knows Cedar, and no Cedar type appears in its interface.

mod answer;
mod approval_outlook;
mod approvals;
mod arguments;
mod bucket;
mod cases;
mod context_needs;
mod decide;
mod deciding_policy;
mod decision;
mod entity_types;
mod expectation;
mod explain;
mod facts;
mod findings;
mod grants;
mod index;
mod list;
mod listed_policy;
mod load;
mod loaded;
mod nearest;
mod numbers;
mod outlook;
mod policies;
mod principal;
mod principal_cache;
mod principal_role;
mod request;
mod schema;
mod scope;
mod shadow;
mod split;
mod types;
mod unseen;
mod validate;
mod vocabulary;

pub use approval_outlook::ApprovalOutlook;
pub use approvals::ApprovalQuestion;
pub use cases::{CaseCircumstances, CaseOutcome, CasePrincipal, PolicyCase, PolicyCases, ProgramClass, run_cases};
pub use deciding_policy::DecidingPolicy;
pub use decision::{AllowedByPolicy, PolicyDecision, PolicyRefusalCause, RefusedByPolicy};
pub use expectation::{ExpectedApproval, ExpectedDecision};
pub use explain::{ConsideredPolicy, PolicyExplanation, PolicyOutcome};
pub use findings::{PolicyFinding, PolicyFindingKind, PolicyLoadFailure};
pub use grants::{GrantQuestion, grant_admits, grant_policy, granted_call_admits};
pub use list::ListDecision;
pub use listed_policy::ListedPolicy;
pub use load::{BuiltInPermits, PolicyLimits};
pub use loaded::PolicySource;
pub use outlook::Outlook;
pub use policies::{ALWAYS_TEXT, DEFAULTS_TEXT, Policies};
pub use principal::{PartyIdentity, Principal, PrincipalError};
pub use request::{CallCircumstances, PolicyCall};
pub use shadow::{ShadowOutcome, ShadowPolicies};
pub use types::UntypedArgument;
pub use vocabulary::{ToolFacts, Vocabulary, VocabularyError};

#[cfg(test)]
mod tests;
