//! What the recovery of an effect under way needs: an upstream that has to answer, or nothing but the store.
//! Stores list orphans by upstream, so that an upstream that is down holds up only its own effects.

use std::collections::BTreeMap;

use servanda_contract::tool::EffectClass;

use super::{Effect, EffectId, EffectState, OwnerId};

/// The most upstreams whose orphans are listed in one answer.
pub const ORPHANED_UPSTREAMS_MAX: u32 = 1_024;

/// Which orphans are wanted.
#[derive(Debug, Clone)]
pub struct OrphanQuery {
    /// The process that asks.
    pub owner: OwnerId,
    /// The most orphans of each upstream.
    pub each_max: u32,
    /// Only orphans that come after this one of their upstream; without an entry for an upstream, from the
    /// oldest on. Effects that need no upstream are under an empty name.
    pub after: BTreeMap<String, OrphanCursor>,
}

/// The position of an orphan among those of its upstream: by when it was due, then by its handle.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OrphanCursor {
    /// When it was due, in ledger time.
    pub due_ms: u64,
    /// Its handle.
    pub id: EffectId,
}

impl OrphanQuery {
    /// The oldest orphans of every upstream.
    pub fn oldest(owner: OwnerId, each_max: u32) -> Self {
        Self { owner, each_max, after: BTreeMap::new() }
    }
}

impl Effect {
    /// Its position among the orphans of its upstream.
    pub fn orphan_cursor(&self) -> OrphanCursor {
        OrphanCursor { due_ms: self.due_ms(), id: self.id.clone() }
    }

    /// The upstream that has to answer before this effect can be recovered, because the effect is sent again or
    /// asked about there. A claim is released, and a lost dispatch of class N or R is settled, without an
    /// upstream.
    pub fn recovery_upstream(&self) -> Option<&str> {
        let needs_it = self.state == EffectState::Dispatching && matches!(self.class, EffectClass::K | EffectClass::Q);
        needs_it.then_some(self.order.upstream.as_str())
    }
}

/// The oldest orphans of every upstream, and of those that need none, up to the limit for each. Orphans of the
/// asking process are counted separately.
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
