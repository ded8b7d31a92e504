//! What a leaf of the gateway's log says: decisions and state changes, with commitments in the place of payloads.
//!
//! The log itself does not know leaves; verifiers who do check them with [`StatePaths`]. Deliberately not here: where leaves come from, and
//! payloads.

mod canonical;
mod commitment;
mod event;
mod opening;
mod paths;
mod salts;

pub use canonical::{LEAF_LIST_MAX, LEAF_TEXT_BYTES_MAX, LEAF_VERSION, LeafFormFault};
pub use commitment::{Commitment, ParseCommitmentError, SALT_BYTES};
pub use event::{
    ApprovalLeaf, AuditEvent, AuditLeaf, CallLeaf, ChangeLeaf, ChangedThing, DecisionLeaf, EffectLeaf, LeafContract,
    LeafEffectState, LeafMutation, LeafStatus, LeafTicketState, LeafVerdict, OutcomeLeaf, TicketLeaf,
};
pub use opening::{LeafOpening, OpenedCommitment, OpenedThing};
pub use paths::{GRANT_DRAWN, StatePathFault, StatePaths, TRACKED_MAX};
pub use salts::{LeafSalts, NoSaltSecret, SALT_SECRET_BYTES, SaltedThing};
