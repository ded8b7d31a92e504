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
mod determining;
mod explain;
mod facts;
mod findings;
mod guise;
mod index;
mod list;
mod load;
mod loaded;
mod memory;
mod mentions;
mod names;
mod nearest;
mod numbers;
mod outlook;
mod place;
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

pub use cases::{Case, CaseOutcome, CasePrincipal, Cases, Expected, ProgramClass, Surroundings, run_cases};
pub use decision::{Allowed, Cause, Decision, Refused};
pub use determining::Determining;
pub use explain::{Explanation, Matched, Outcome};
pub use findings::{Finding, FindingKind, LoadFailure};
pub use list::Standing;
pub use load::{Defaults, Limits};
pub use loaded::Source;
pub use outlook::Outlook;
pub use policies::{ALWAYS_TEXT, DEFAULTS_TEXT, Policies};
pub use principal::{Identity, Principal, PrincipalError};
pub use request::{Call, Circumstances};
pub use shadow::{Shadow, WouldHave};
pub use types::Untyped;
pub use vocabulary::{ToolFacts, Vocabulary, VocabularyError};

#[cfg(test)]
mod tests;
