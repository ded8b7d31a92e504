//! The gates that a call passes, in order, and the stage types that are the evidence of having passed.
//!
//! A gate consumes one stage and returns the next; the constructor of a stage is private to the gate that makes
//! it. There is no flag to forget: only gate 10 makes a [`Permit`], only gate 11 clears one
//! ([`budget::Cleared`]), only a cleared call can be fenced, and only a [`Fenced`] call can be performed. No
//! I/O and no clock: what a gate needs from outside is a port, defined here or in `servanda-effects` and
//! implemented elsewhere.
//!
//! Code outside this crate cannot make a permit; it can only receive one.
//! ```
//! fn takes(permit: servanda_gates::Permit) -> servanda_contract::Digest {
//!     permit.proposal_digest()
//! }
//! ```
//! The contract that [`resolve`] finds judges the call, and no other.
//! ```compile_fail,E0624
//! use std::sync::Arc;
//! use servanda_contract::Proposal;
//! use servanda_gates::{CompiledContract, ResolvedCall};
//! fn pick(proposal: Box<Proposal>, contract: Arc<CompiledContract>) -> ResolvedCall {
//!     ResolvedCall::new(proposal, contract)
//! }
//! ```
//! A permit cannot be made from its parts,
//! ```compile_fail,E0616
//! fn forge(permit: servanda_gates::Permit) -> servanda_gates::Permit {
//!     servanda_gates::Permit { judged: permit.judged, warrant: None }
//! }
//! ```
//! nor by calling a gate out of turn,
//! ```compile_fail,E0603
//! use servanda_gates::confirmation::gate;
//! ```
//! nor twice: the last gate uses it up, the fence uses up what that gate cleared, and neither can be copied.
//! ```compile_fail,E0382
//! use servanda_effects::effect::EffectStore;
//! use servanda_gates::{FenceRequest, budget::Cleared, fence};
//! async fn twice(cleared: Cleared, one: FenceRequest, other: FenceRequest, effects: &dyn EffectStore) {
//!     let _ = fence(cleared, one, effects).await;
//!     let _ = fence(cleared, other, effects).await;
//! }
//! ```
//! A call that needs an approval gets its permit only with a warrant,
//! ```compile_fail,E0308
//! fn unapproved(held: servanda_gates::HeldCall) -> servanda_gates::Permit {
//!     held
//! }
//! ```
//! and only the check of a signed warrant makes the evidence of one.
//! ```compile_fail,E0451
//! fn forge(warrant: &servanda_approval::VerifiedWarrant) -> servanda_approval::VerifiedWarrant {
//!     servanda_approval::VerifiedWarrant { ticket: warrant.ticket().clone(), ..todo!() }
//! }
//! ```
//! A call that gate 11 has not cleared cannot be fenced,
//! ```compile_fail,E0308
//! use servanda_effects::effect::EffectStore;
//! use servanda_gates::{FenceRequest, Permit, fence};
//! async fn unpaid(permit: Permit, intent: FenceRequest, effects: &dyn EffectStore) {
//!     let _ = fence(permit, intent, effects).await;
//! }
//! ```
//! and a claimed call can only be fenced after it is paid for.
//! ```compile_fail,E0308
//! use servanda_contract::CallRecord;
//! use servanda_effects::effect::EffectStore;
//! use servanda_gates::{PreconditionsMet, fence_funded};
//! async fn unpaid(current: PreconditionsMet, record: CallRecord, effects: &dyn EffectStore) {
//!     let _ = fence_funded(current, record, effects).await;
//! }
//! ```
//! A dry run is a dead end: gate 11 takes no previewed call,
//! ```compile_fail,E0308
//! use servanda_gates::{PreviewedCall, budget::{BudgetSources, PricedCall}};
//! fn paid(previewed: PreviewedCall, sources: &BudgetSources<'_>) {
//!     let _ = PricedCall::new(previewed, sources);
//! }
//! ```
//! no warrant makes a permit of it,
//! ```compile_fail,E0599
//! fn confirmed(previewed: servanda_gates::PreviewedCall, shown: &servanda_gates::ShownWarrant<'_>) {
//!     let _ = previewed.confirm(shown);
//! }
//! ```
//! and its parts do not come out again.
//! ```compile_fail,E0616
//! fn taken(previewed: servanda_gates::PreviewedCall) -> servanda_gates::JudgedCall {
//!     previewed.judged
//! }
//! ```
//! Only a fenced call can be performed, and only the fence makes one.
//! ```compile_fail,E0451
//! fn unfenced(fenced: &servanda_gates::Fenced) -> servanda_gates::Fenced {
//!     servanda_gates::Fenced { call_id: fenced.call_id().clone(), ..todo!() }
//! }
//! ```

mod approval_texts;
mod behaviour;
mod bounds;
pub mod budget;
mod compiled;
mod confirmation;
mod dispatch_order;
mod dry_run;
mod fence;
mod mandate;
mod operation;
mod parse;
mod placeholders;
mod policy;
mod preconditions;
mod preview;
mod preview_sensitivity;
mod probe_query;
mod probes;
mod programs;
pub mod repair;
mod resolve;
mod resources;
mod rules;
mod scope;
mod semantics;
mod sequence;
mod state;
mod structure;
#[cfg(test)]
mod tests;
mod trail;
mod types;

pub use approval_texts::ApprovalTexts;
pub use compiled::{CompiledContract, RegisteredContracts, UpstreamDryRunTool, admit};
pub use confirmation::{Confirmation, HeldCall, JudgedCall, Permit, ShownGrant, ShownWarrant};
pub use fence::{
    Claimed, FenceProgress, FenceRequest, Fenced, Funded, NotFenced, NotFencedReason, PreconditionsMet, Recovery,
    begin, fence, fence_funded, fund, pass_read, recover,
};
pub use mandate::{Mandate, PoliciesInForce};
pub use operation::{KEY_CHARS_MAX, OPERATION_ARGUMENT, Operation, OperationIdentity, takes_operation_argument};
pub use parse::GateLimits;
pub use preconditions::PreconditionQuery;
pub use preview::PreviewedCall;
pub use preview_sensitivity::{SensitiveName, sensitive_in_state};
pub use probes::{CompiledProbe, CompiledProbes, ProbeQuery, ProbeSubject};
pub use programs::{EFFECT_KEYWORD, ProgramArgument, forget_programs, unenforced_programs};
pub use resolve::{ContractResolver, ResolvedCall, ToolExpectation, resolve};
pub use sequence::{pass_all, pass_preview, pass_question};
pub use servanda_identity::effects::UrlDestination;
pub use trail::{Stopwatch, Trail};
