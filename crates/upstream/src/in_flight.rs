//! The places of the requests under way on one connection. Their number is limited. On a connection that users share, one principal
//! may hold a quarter of the places and one tenant three quarters, so that no user keeps the others from the server. In local mode all
//! callers are one principal, which may hold all places; so may the user of a connection that belongs to one counterpart.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::{Behalf, PerformFailure, conversation::Audience, link::Terms, shares};

/// The places of one connection.
#[derive(Debug)]
pub(crate) struct InFlight {
    count_max: usize,
    /// Whether several users have requests on this connection.
    shared: bool,
    held: Mutex<Held>,
}

/// One request's place, held until this is dropped.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    among: &'a InFlight,
    principal: Option<Principal>,
}

#[derive(Debug, Default)]
struct Held {
    count: usize,
    of_principals: HashMap<Principal, usize>,
    of_tenants: HashMap<String, usize>,
}

/// Tenant and principal.
type Principal = (String, String);

impl InFlight {
    pub(crate) fn new(count_max: usize, shared: bool) -> Self {
        Self { count_max, shared, held: Mutex::default() }
    }

    /// Takes a place for a request on those terms. A subscription needs none: there are two at most, and they last as long as the
    /// connection.
    pub(crate) fn of(&self, terms: &Terms) -> Result<Option<Place<'_>>, PerformFailure> {
        match terms.audience {
            Audience::Listener(_) => Ok(None),
            _ => self.take(terms.behalf.as_ref()).map(Some),
        }
    }

    /// Takes a place for a request of that user; the gateway's own requests have none.
    fn take(&self, behalf: Option<&Behalf>) -> Result<Place<'_>, PerformFailure> {
        let user = behalf.filter(|_| self.shared).and_then(Behalf::sharer);
        let principal = user.map(|(tenant, principal)| (tenant.to_owned(), principal.to_owned()));
        let mut held = self.held();
        if held.count >= self.count_max {
            return Err(PerformFailure::Busy { in_flight_max: self.count_max });
        }
        if let Some(principal) = &principal {
            let own = held.of_principals.get(principal).copied().unwrap_or_default();
            let of_tenant = held.of_tenants.get(&principal.0).copied().unwrap_or_default();
            let shares = [(own, shares::of_principal(self.count_max)), (of_tenant, shares::of_tenant(self.count_max))];
            if let Some((_, share)) = shares.into_iter().find(|(count, share)| count >= share) {
                return Err(PerformFailure::Busy { in_flight_max: share });
            }
            *held.of_tenants.entry(principal.0.clone()).or_default() += 1;
            *held.of_principals.entry(principal.clone()).or_default() += 1;
        }
        held.count += 1;
        Ok(Place { among: self, principal })
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        // Every critical section leaves whole counts: no panic can leave them half-changed.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut held = self.among.held();
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
    use std::sync::Arc;

    use servanda_authority::Authenticated;
    use servanda_contract::Caller;

    use super::*;

    fn user(tenant: &str, principal: &str) -> Behalf {
        let caller = Caller { tenant: tenant.to_owned(), principal: principal.to_owned(), ..Caller::local() };
        Behalf::Recorded(Arc::new(caller))
    }

    /// Takes places until there is none, and says how many there were and which limit was told.
    fn take_all<'a>(places: &'a InFlight, behalf: Option<&Behalf>, taken: &mut Vec<Place<'a>>) -> (usize, usize) {
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
        let places = InFlight::new(16, true);
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
        assert!(places.held().of_principals.is_empty() && places.held().of_tenants.is_empty());
        assert_eq!(places.held().count, 0);
    }

    #[test]
    fn local_callers_and_the_user_of_an_own_connection_have_all_places() {
        let local = Behalf::Holder(Arc::new(Authenticated::local()));
        for (shared, behalf) in [(true, local), (false, user("t", "a"))] {
            let places = InFlight::new(8, shared);
            assert_eq!(take_all(&places, Some(&behalf), &mut Vec::new()), (8, 8));
        }
    }
}
