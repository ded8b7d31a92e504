//! Places that callers hold while they listen or wait for an answer. Their number is limited, and one principal and one
//! tenant may hold only a share of them, so that no caller takes every place. In local mode all callers are one
//! principal, which may hold them all.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use servanda_authority::{AuthenticatedCaller, CredentialMethod};

/// One principal may hold one in `PRINCIPALS_SHARE` places.
const PRINCIPALS_SHARE: usize = 4;

/// One tenant leaves one in `LEFT_BY_TENANT` places to the others.
const LEFT_BY_TENANT: usize = 4;

/// How many of `of` places one tenant may hold. `None` (no limit) in local mode, where all callers are one principal.
pub(crate) fn tenant_share(of: usize, authority: &AuthenticatedCaller) -> Option<usize> {
    (*authority.method() != CredentialMethod::Local).then(|| (of - of / LEFT_BY_TENANT).max(1))
}

/// How many of `of` places one principal may hold. `None` (no limit) in local mode, where all callers are one
/// principal.
pub(crate) fn principal_share(of: usize, authority: &AuthenticatedCaller) -> Option<usize> {
    (*authority.method() != CredentialMethod::Local).then(|| (of / PRINCIPALS_SHARE).max(1))
}

/// All places.
#[derive(Debug)]
pub(crate) struct CallerSlots {
    count_max: usize,
    counts: Mutex<SlotCounts>,
}

#[derive(Debug, Default)]
struct SlotCounts {
    count: usize,
    of_principals: HashMap<SlotHolder, usize>,
    of_tenants: HashMap<String, usize>,
}

/// Tenant and principal.
type SlotHolder = (String, String);

/// One place, held until this is dropped.
#[derive(Debug)]
pub(crate) struct CallerSlot {
    places: Arc<CallerSlots>,
    /// `None` in local mode, where no principal has a share and none is counted.
    principal: Option<SlotHolder>,
}

/// Why no place is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoCallerSlot {
    /// All are taken.
    AllTaken,
    /// This principal, or its tenant, holds its full share.
    ShareTaken,
}

impl CallerSlots {
    pub(crate) fn new(count_max: usize) -> Arc<Self> {
        Arc::new(Self { count_max, counts: Mutex::default() })
    }

    pub(crate) fn take(self: &Arc<Self>, authority: &AuthenticatedCaller) -> Result<CallerSlot, NoCallerSlot> {
        let principal = (*authority.method() != CredentialMethod::Local)
            .then(|| (authority.tenant().to_owned(), authority.principal().to_owned()));
        let mut counts = self.lock_counts();
        if counts.count >= self.count_max {
            return Err(NoCallerSlot::AllTaken);
        }
        if let Some(principal) = &principal {
            counts.count_in(principal, self.count_max, authority)?;
        }
        counts.count += 1;
        drop(counts);
        Ok(CallerSlot { places: Arc::clone(self), principal })
    }

    /// Takes `count` places, or none of them.
    pub(crate) fn take_more(
        self: &Arc<Self>,
        authority: &AuthenticatedCaller,
        count: usize,
    ) -> Result<Vec<CallerSlot>, NoCallerSlot> {
        (0..count).map(|_| self.take(authority)).collect()
    }

    fn lock_counts(&self) -> MutexGuard<'_, SlotCounts> {
        // Every critical section leaves whole counts: no panic can leave them half-changed.
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SlotCounts {
    /// Counts one more place for a principal and its tenant, unless one of them holds its full share.
    fn count_in(
        &mut self,
        principal: &SlotHolder,
        of: usize,
        authority: &AuthenticatedCaller,
    ) -> Result<(), NoCallerSlot> {
        let own = self.of_principals.get(principal).copied().unwrap_or_default();
        let of_tenant = self.of_tenants.get(&principal.0).copied().unwrap_or_default();
        let is_over = |held: usize, share: Option<usize>| share.is_some_and(|share| held >= share);
        if is_over(own, principal_share(of, authority)) || is_over(of_tenant, tenant_share(of, authority)) {
            return Err(NoCallerSlot::ShareTaken);
        }
        *self.of_tenants.entry(principal.0.clone()).or_default() += 1;
        *self.of_principals.entry(principal.clone()).or_default() += 1;
        Ok(())
    }
}

impl Drop for CallerSlot {
    fn drop(&mut self) {
        let mut counts = self.places.lock_counts();
        counts.count = counts.count.saturating_sub(1);
        if let Some(principal) = &self.principal {
            give_back(&mut counts.of_principals, principal);
            give_back(&mut counts.of_tenants, &principal.0);
        }
    }
}

fn give_back<K: Eq + Hash>(counts: &mut HashMap<K, usize>, of: &K) {
    if let Some(count) = counts.get_mut(of) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            counts.remove(of);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_local_principal_may_take_all_places_and_gives_them_back() {
        let (places, everybody) = (CallerSlots::new(2), AuthenticatedCaller::local());
        let taken = [places.take(&everybody).unwrap(), places.take(&everybody).unwrap()];
        assert_eq!(places.take(&everybody).unwrap_err(), NoCallerSlot::AllTaken);
        drop(taken);
        assert!(places.lock_counts().of_principals.is_empty() && places.lock_counts().of_tenants.is_empty());
        assert!(places.take(&everybody).is_ok());
        assert_eq!(CallerSlots::new(0).take(&everybody).unwrap_err(), NoCallerSlot::AllTaken);
    }
}
