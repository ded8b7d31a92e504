//! The slots of the requests that are running on one connection. Their number is limited. On a connection that users share, one principal
//! may hold a quarter of the slots and one tenant three quarters, so that no user blocks the server for the others. In local mode all
//! callers are one principal, which may hold all slots; so may the user of a connection that belongs to one requester.

use std::{
    collections::HashMap,
    hash::{Hash, Hasher},
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::{
    PerformFailure, RequestUser,
    request::{WireRequestTerms, audience::RequestAudience},
    shares,
};

/// The slots of one connection.
#[derive(Debug)]
pub(crate) struct InFlightLimit {
    count_max: usize,
    /// Whether several users have requests on this connection.
    shared: bool,
    counts: Mutex<InFlightCounts>,
}

/// One request's slot, held until this is dropped.
#[derive(Debug)]
pub(crate) struct InFlightSlot<'a> {
    limit: &'a InFlightLimit,
    user: Option<RequestUser>,
}

#[derive(Debug, Default)]
struct InFlightCounts {
    count: usize,
    of_principals: HashMap<InFlightPrincipal, usize>,
    of_tenants: HashMap<InFlightTenant, usize>,
}

/// A user by tenant and principal, without copying their names.
#[derive(Debug)]
struct InFlightPrincipal(RequestUser);

/// The same by tenant alone.
#[derive(Debug)]
struct InFlightTenant(RequestUser);

impl InFlightLimit {
    pub(crate) fn new(count_max: usize, shared: bool) -> Self {
        Self { count_max, shared, counts: Mutex::default() }
    }

    /// Takes a slot for a request with these terms. A subscription needs none: there are two at most, and they last as long as the
    /// connection.
    pub(crate) fn slot_for(&self, terms: &WireRequestTerms) -> Result<Option<InFlightSlot<'_>>, PerformFailure> {
        match terms.audience {
            RequestAudience::Subscription(_) => Ok(None),
            _ => self.take(terms.behalf.as_ref()).map(Some),
        }
    }

    /// Takes a slot for a request of this user. The gateway's own requests have no user, so no user's limit applies.
    fn take(&self, behalf: Option<&RequestUser>) -> Result<InFlightSlot<'_>, PerformFailure> {
        let user = behalf.filter(|behalf| self.shared && behalf.limited_user().is_some());
        let mut held = self.lock();
        if held.count >= self.count_max {
            return Err(PerformFailure::Busy { in_flight_max: self.count_max });
        }
        if let Some(user) = user {
            let (principal, tenant) = (InFlightPrincipal(user.clone()), InFlightTenant(user.clone()));
            let own = held.of_principals.get(&principal).copied().unwrap_or_default();
            let of_tenant = held.of_tenants.get(&tenant).copied().unwrap_or_default();
            let shares =
                [(own, shares::principal_share(self.count_max)), (of_tenant, shares::tenant_share(self.count_max))];
            if let Some((_, share)) = shares.into_iter().find(|(count, share)| count >= share) {
                return Err(PerformFailure::Busy { in_flight_max: share });
            }
            *held.of_tenants.entry(tenant).or_default() += 1;
            *held.of_principals.entry(principal).or_default() += 1;
        }
        held.count += 1;
        Ok(InFlightSlot { limit: self, user: user.cloned() })
    }

    fn lock(&self) -> MutexGuard<'_, InFlightCounts> {
        // Every critical section leaves consistent counts: no panic can leave them half-changed.
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for InFlightSlot<'_> {
    fn drop(&mut self) {
        let mut held = self.limit.lock();
        held.count = held.count.saturating_sub(1);
        if let Some(user) = self.user.take() {
            give_back(&mut held.of_principals, &InFlightPrincipal(user.clone()));
            give_back(&mut held.of_tenants, &InFlightTenant(user));
        }
    }
}

impl InFlightPrincipal {
    fn names(&self) -> Option<(&str, &str)> {
        self.0.limited_user()
    }
}

impl PartialEq for InFlightPrincipal {
    fn eq(&self, other: &Self) -> bool {
        self.names() == other.names()
    }
}

impl Eq for InFlightPrincipal {}

impl Hash for InFlightPrincipal {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.names().hash(state);
    }
}

impl InFlightTenant {
    fn name(&self) -> Option<&str> {
        self.0.limited_user().map(|(tenant, _)| tenant)
    }
}

impl PartialEq for InFlightTenant {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for InFlightTenant {}

impl Hash for InFlightTenant {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
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
    use std::sync::Arc;

    use servanda_authority::AuthenticatedCaller;
    use servanda_contract::Caller;

    use super::*;

    fn user(tenant: &str, principal: &str) -> RequestUser {
        let caller = Caller { tenant: tenant.to_owned(), principal: principal.to_owned(), ..Caller::local() };
        RequestUser::Recorded(Arc::new(caller))
    }

    /// Takes slots until none is left, and returns how many there were and which limit was reported.
    fn take_all<'a>(
        places: &'a InFlightLimit,
        behalf: Option<&RequestUser>,
        taken: &mut Vec<InFlightSlot<'a>>,
    ) -> (usize, usize) {
        let before = taken.len();
        loop {
            match places.take(behalf) {
                Ok(place) => taken.push(place),
                Err(PerformFailure::Busy { in_flight_max }) => return (taken.len() - before, in_flight_max),
                Err(other) => panic!("{other}"),
            }
        }
    }

    #[test]
    fn one_principal_and_one_tenant_leave_places_to_the_others() {
        let places = InFlightLimit::new(16, true);
        let mut taken = Vec::new();
        for principal in ["a", "b", "c"] {
            assert_eq!(take_all(&places, Some(&user("greedy", principal)), &mut taken), (4, 4), "{principal}");
        }
        assert_eq!(take_all(&places, Some(&user("greedy", "d")), &mut taken), (0, 12), "the tenant's share");
        assert_eq!(
            take_all(&places, Some(&user("quiet", "a")), &mut taken),
            (4, 16),
            "the last four are another tenant's"
        );
        assert_eq!(take_all(&places, None, &mut taken), (0, 16), "all are taken");
        drop(taken);
        assert!(places.lock().of_principals.is_empty() && places.lock().of_tenants.is_empty());
        assert_eq!(places.lock().count, 0);
    }

    #[test]
    fn local_callers_and_the_user_of_an_own_connection_have_all_places() {
        let local = RequestUser::Holder(Arc::new(AuthenticatedCaller::local()));
        for (shared, behalf) in [(true, local), (false, user("t", "a"))] {
            let places = InFlightLimit::new(8, shared);
            assert_eq!(take_all(&places, Some(&behalf), &mut Vec::new()), (8, 8));
        }
    }
}
