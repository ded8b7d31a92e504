//! Policy: who may call which tool with which arguments, written in Cedar and decided without a request ever meeting a
//! policy that cannot concern it.
//!
//! The vocabulary is generated from the contracts, policies are validated against it before they are used, and a decision
//! refuses unless it is sure. This crate takes values and returns values: no files, no clock, no sockets. It is the one
//! crate that knows Cedar, and none of Cedar's types appear in what it offers.

mod answer;
mod arguments;
mod bucket;
mod cases;
mod decide;
mod decision;
mod deciding_policy;
mod explain;
mod facts;
mod findings;
mod principal_role;
mod index;
mod list;
mod load;
mod loaded;
mod principal_cache;
mod context_needs;
mod entity_types;
mod nearest;
mod numbers;
mod outlook;
mod scope;
mod policies;
mod principal;
mod request;
mod schema;
mod shadow;
mod split;
mod types;
mod unseen;
mod validate;
mod vocabulary;

pub use cases::{PolicyCase, CaseOutcome, CasePrincipal, PolicyCases, ExpectedDecision, ProgramClass, CaseCircumstances, run_cases};
pub use decision::{AllowedByPolicy, PolicyRefusalCause, PolicyDecision, RefusedByPolicy};
pub use deciding_policy::DecidingPolicy;
pub use explain::{PolicyExplanation, ConsideredPolicy, PolicyOutcome};
pub use findings::{PolicyFinding, PolicyFindingKind, PolicyLoadFailure};
pub use list::ListDecision;
pub use load::{BuiltInPermits, PolicyLimits};
pub use loaded::PolicySource;
pub use outlook::Outlook;
pub use policies::{ALWAYS_TEXT, DEFAULTS_TEXT, Policies};
pub use principal::{PartyIdentity, Principal, PrincipalError};
pub use request::{PolicyCall, CallCircumstances};
pub use shadow::{ShadowPolicies, ShadowOutcome};
pub use types::UntypedArgument;
pub use vocabulary::{ToolFacts, Vocabulary, VocabularyError};

#[cfg(test)]
mod tests;
