//! The state of one call: what its stages share, and its record so far. The stages themselves are in their own files, and `pipeline` lists
//! them.

use std::sync::Arc;

use servanda_contract::CallRecord;
use servanda_effects::effect::EffectKey;
use servanda_gates::Trail;
use tokio::time::Instant;

use super::Calls;
use crate::{budgets::CallCharge, clock::CallStopwatch, core::Core, long_running::LongWork, world::WorldSnapshot};

/// One call in progress, and its record so far.
pub(super) struct CallPipeline<'a> {
    pub(super) core: &'a Arc<Core>,
    pub(super) calls: &'a Arc<Calls>,
    pub(super) snapshot: &'a WorldSnapshot,
    pub(super) stopwatch: &'a CallStopwatch,
    pub(super) trail: Trail<'a>,
    pub(super) record: CallRecord,
    /// The key under which an earlier call may have done something, until the store is asked about it. A refusal must not claim that
    /// nothing happened before that.
    pub(super) unread_key: Option<EffectKey>,
    /// The nonce of the `requestState` that this call used up. It is given back if nothing is sent.
    pub(super) spent_nonce: Option<String>,
    /// What the call draws from budgets, until it is known how it ended.
    pub(super) charge: CallCharge,
    /// The call as long work, if its contract says so.
    pub(super) work: Option<Arc<LongWork>>,
    pub(super) started: Instant,
    /// When the server was ready to be called: the contract's time does not include starting it.
    pub(super) begun: Instant,
}
