//! What the recovery of an effect under way depends on: an upstream that has to answer, or nothing but the store. Stores list orphans by
//! this, so that an upstream that is down holds up only its own.

use std::collections::BTreeMap;

use servanda_contract::tool::EffectClass;

use super::{Effect, EffectState};

/// So many upstreams have orphans listed in one answer.
pub const ORPHANED_UPSTREAMS_MAX: u32 = 1_024;

impl Effect {
    /// The upstream that has to answer before this effect can be recovered: what is sent again or asked about needs its server. A claim is
    /// released, and a lost dispatch of class N or R is settled, without one.
    pub fn recovers_at(&self) -> Option<&str> {
        let needs_it = self.state == EffectState::Dispatching && matches!(self.class, EffectClass::K | EffectClass::Q);
        needs_it.then_some(self.order.upstream.as_str())
    }
}

/// At most `each_max` orphans of every upstream, and as many that need none; the oldest first.
pub(super) fn share_out(orphans: impl Iterator<Item = Effect>, each_max: u32) -> Vec<Effect> {
    let each_max = usize::try_from(each_max).unwrap_or(usize::MAX);
    let mut shares: BTreeMap<Option<String>, Vec<Effect>> = BTreeMap::new();
    for orphan in orphans {
        shares.entry(orphan.recovers_at().map(str::to_owned)).or_default().push(orphan);
    }
    let oldest = |mut share: Vec<Effect>| {
        share.sort_by_key(Effect::due_ms);
        share.truncate(each_max);
        share
    };
    shares.into_values().take(ORPHANED_UPSTREAMS_MAX as usize).flat_map(oldest).collect()
}
