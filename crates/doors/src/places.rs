//! Places that callers hold while they listen or wait for an answer. Their number is limited, and one principal and one tenant may hold
//! only a share of them, so that no caller takes every place. In local mode all callers are one principal, which may hold them all.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use servanda_authority::{Authenticated, Method};

/// One principal has no more than one in so many of what there is.
const PRINCIPALS_SHARE: usize = 4;

/// One tenant leaves one in so many places to the others.
const LEFT_BY_TENANT: usize = 4;

/// How many of `of` things one tenant may hold. None, that is, no limit, in local mode, where all callers are one principal.
pub(crate) fn tenants_share(of: usize, authority: &Authenticated) -> Option<usize> {
    (*authority.method() != Method::Local).then(|| (of - of / LEFT_BY_TENANT).max(1))
}

/// How many of so many things one principal may hold; none where everybody is one.
pub(crate) fn share(of: usize, authority: &Authenticated) -> Option<usize> {
    (*authority.method() != Method::Local).then(|| (of / PRINCIPALS_SHARE).max(1))
}

/// All places.
#[derive(Debug)]
pub(crate) struct Places {
    count_max: usize,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    count: usize,
    of_principals: HashMap<Principal, usize>,
    of_tenants: HashMap<String, usize>,
}

/// Tenant and principal.
type Principal = (String, String);

/// One place, held until this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    /// None in local mode, where no principal has a share and none is counted.
    principal: Option<Principal>,
}

/// There is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoPlace {
    /// All are taken.
    AllTaken,
    /// This principal, or its tenant, holds its full share.
    HasItsShare,
}

impl Places {
    pub(crate) fn new(count_max: usize) -> Arc<Self> {
        Arc::new(Self { count_max, held: Mutex::default() })
    }

    pub(crate) fn take(self: &Arc<Self>, authority: &Authenticated) -> Result<Place, NoPlace> {
        let principal = (*authority.method() != Method::Local)
            .then(|| (authority.tenant().to_owned(), authority.principal().to_owned()));
        let mut held = self.held();
        if held.count >= self.count_max {
            return Err(NoPlace::AllTaken);
        }
        if let Some(principal) = &principal {
            held.count_in(principal, self.count_max, authority)?;
        }
        held.count += 1;
        drop(held);
        Ok(Place { places: Arc::clone(self), principal })
    }

    /// So many places, or none of them.
    pub(crate) fn take_more(self: &Arc<Self>, authority: &Authenticated, count: usize) -> Result<Vec<Place>, NoPlace> {
        (0..count).map(|_| self.take(authority)).collect()
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        // Every critical section leaves whole counts: no panic can leave them half-changed.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    /// Counts one more place of a principal and its tenant, unless one of them holds its full share.
    fn count_in(&mut self, principal: &Principal, of: usize, authority: &Authenticated) -> Result<(), NoPlace> {
        let own = self.of_principals.get(principal).copied().unwrap_or_default();
        let of_tenant = self.of_tenants.get(&principal.0).copied().unwrap_or_default();
        let is_over = |held: usize, share: Option<usize>| share.is_some_and(|share| held >= share);
        if is_over(own, share(of, authority)) || is_over(of_tenant, tenants_share(of, authority)) {
            return Err(NoPlace::HasItsShare);
        }
        *self.of_tenants.entry(principal.0.clone()).or_default() += 1;
        *self.of_principals.entry(principal.clone()).or_default() += 1;
        Ok(())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut held = self.places.held();
        held.count = held.count.saturating_sub(1);
        if let Some(principal) = &self.principal {
            give_back(&mut held.of_principals, principal);
            give_back(&mut held.of_tenants, &principal.0);
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
    fn whoever_is_everybody_has_all_places_and_gives_them_back() {
        let (places, everybody) = (Places::new(2), Authenticated::local());
        let taken = [places.take(&everybody).unwrap(), places.take(&everybody).unwrap()];
        assert_eq!(places.take(&everybody).unwrap_err(), NoPlace::AllTaken);
        drop(taken);
        assert!(places.held().of_principals.is_empty() && places.held().of_tenants.is_empty());
        assert!(places.take(&everybody).is_ok());
        assert_eq!(Places::new(0).take(&everybody).unwrap_err(), NoPlace::AllTaken);
    }
}
