//! What the recovery of an effect under way depends on: an upstream that has to answer, or nothing but the store. Stores list orphans by
//! this, so that an upstream that is down holds up only its own.

use std::collections::BTreeMap;

use servanda_contract::tool::EffectClass;

use super::{Effect, EffectId, EffectState, OwnerId};

/// So many upstreams have orphans listed in one answer.
pub const ORPHANED_UPSTREAMS_MAX: u32 = 1_024;

/// Which orphans are wanted.
#[derive(Debug, Clone)]
pub struct OrphanQuery {
    /// The process that asks.
    pub owner: OwnerId,
    /// At most so many of each upstream.
    pub each_max: u32,
    /// Only those that come after this one of their upstream; of an upstream that is not named, from the oldest on. What needs no
    /// upstream goes by an empty name.
    pub after: BTreeMap<String, OrphanCursor>,
}

/// Where an orphan stands among those of its upstream: by when it was due, and then by its handle.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OrphanCursor {
    /// When it was due, in ledger time.
    pub due_ms: u64,
    /// Its handle.
    pub id: EffectId,
}

impl OrphanQuery {
    /// The oldest of every upstream.
    pub fn oldest(owner: OwnerId, each_max: u32) -> Self {
        Self { owner, each_max, after: BTreeMap::new() }
    }
}

impl Effect {
    /// Where it stands among the orphans of its upstream.
    pub fn orphan_cursor(&self) -> OrphanCursor {
        OrphanCursor { due_ms: self.due_ms(), id: self.id.clone() }
    }

    /// The upstream that has to answer before this effect can be recovered: what is sent again or asked about needs its server. A claim is
    /// released, and a lost dispatch of class N or R is settled, without one.
    pub fn recovery_upstream(&self) -> Option<&str> {
        let needs_it = self.state == EffectState::Dispatching && matches!(self.class, EffectClass::K | EffectClass::Q);
        needs_it.then_some(self.order.upstream.as_str())
    }
}

/// Of every upstream, and of those that need none, as many orphans as are wanted, the oldest first; those of the asking process
/// are counted apart.
pub(super) fn limit_per_upstream(orphans: impl Iterator<Item = Effect>, query: &OrphanQuery) -> Vec<Effect> {
    let each_max = usize::try_from(query.each_max).unwrap_or(usize::MAX);
    let mut shares: BTreeMap<(String, bool), Vec<Effect>> = BTreeMap::new();
    for orphan in orphans {
        let upstream = orphan.recovery_upstream().unwrap_or_default().to_owned();
        let is_own = orphan.owner == query.owner;
        if is_own || query.after.get(&upstream).is_none_or(|after| orphan.orphan_cursor() > *after) {
            shares.entry((upstream, is_own)).or_default().push(orphan);
        }
    }
    let oldest = |mut share: Vec<Effect>| {
        share.sort_by_key(Effect::orphan_cursor);
        share.truncate(each_max);
        share
    };
    shares.into_values().take(ORPHANED_UPSTREAMS_MAX as usize).flat_map(oldest).collect()
}
