//! The places of the requests under way on one connection. Their number is limited. On a connection that users share, one principal
//! may hold a quarter of the places and one tenant three quarters, so that no user keeps the others from the server. In local mode all
//! callers are one principal, which may hold all places; so may the user of a connection that belongs to one counterpart.

use std::{
    collections::HashMap,
    hash::{Hash, Hasher},
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::{
    Behalf, PerformFailure,
    request::{Terms, audience::Audience},
    shares,
};

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
    user: Option<Behalf>,
}

#[derive(Debug, Default)]
struct Held {
    count: usize,
    of_principals: HashMap<Principal, usize>,
    of_tenants: HashMap<Tenant, usize>,
}

/// A user by tenant and principal, without copies of their names.
#[derive(Debug)]
struct Principal(Behalf);

/// The same by tenant alone.
#[derive(Debug)]
struct Tenant(Behalf);

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
        let user = behalf.filter(|behalf| self.shared && behalf.sharer().is_some());
        let mut held = self.held();
        if held.count >= self.count_max {
            return Err(PerformFailure::Busy { in_flight_max: self.count_max });
        }
        if let Some(user) = user {
            let (principal, tenant) = (Principal(user.clone()), Tenant(user.clone()));
            let own = held.of_principals.get(&principal).copied().unwrap_or_default();
            let of_tenant = held.of_tenants.get(&tenant).copied().unwrap_or_default();
            let shares = [(own, shares::of_principal(self.count_max)), (of_tenant, shares::of_tenant(self.count_max))];
            if let Some((_, share)) = shares.into_iter().find(|(count, share)| count >= share) {
                return Err(PerformFailure::Busy { in_flight_max: share });
            }
            *held.of_tenants.entry(tenant).or_default() += 1;
            *held.of_principals.entry(principal).or_default() += 1;
        }
        held.count += 1;
        Ok(Place { among: self, user: user.cloned() })
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
        if let Some(user) = self.user.take() {
            give_back(&mut held.of_principals, &Principal(user.clone()));
            give_back(&mut held.of_tenants, &Tenant(user));
        }
    }
}

impl Principal {
    fn names(&self) -> Option<(&str, &str)> {
        self.0.sharer()
    }
}

impl PartialEq for Principal {
    fn eq(&self, other: &Self) -> bool {
        self.names() == other.names()
    }
}

impl Eq for Principal {}

impl Hash for Principal {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.names().hash(state);
    }
}

impl Tenant {
    fn name(&self) -> Option<&str> {
        self.0.sharer().map(|(tenant, _)| tenant)
    }
}

impl PartialEq for Tenant {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Tenant {}

impl Hash for Tenant {
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
