//! How many sessions each tenant and each user has, so that a new session finds its share without walking through all of them.

use std::collections::HashMap;

use servanda_contract::Caller;

/// The counts. No tenant or user without a session is in them.
#[derive(Debug, Default)]
pub(super) struct HttpSessionCounts(HashMap<String, TenantSessionCount>);

#[derive(Debug, Default)]
struct TenantSessionCount {
    count: usize,
    of_users: HashMap<String, usize>,
}

impl HttpSessionCounts {
    /// The sessions of a caller's user, whatever agents act for them.
    pub(super) fn of_user(&self, caller: &Caller) -> usize {
        let tenant = self.0.get(&caller.tenant);
        tenant.and_then(|tenant| tenant.of_users.get(&caller.principal)).copied().unwrap_or_default()
    }

    /// The sessions of a caller's tenant.
    pub(super) fn of_tenant(&self, caller: &Caller) -> usize {
        self.0.get(&caller.tenant).map_or(0, |tenant| tenant.count)
    }

    /// A caller has one more.
    pub(super) fn add(&mut self, caller: &Caller) {
        let tenant = self.0.entry(caller.tenant.clone()).or_default();
        tenant.count += 1;
        *tenant.of_users.entry(caller.principal.clone()).or_default() += 1;
    }

    /// A caller has one less.
    pub(super) fn remove(&mut self, caller: &Caller) {
        let Some(tenant) = self.0.get_mut(&caller.tenant) else { return };
        tenant.count = tenant.count.saturating_sub(1);
        if let Some(of_user) = tenant.of_users.get_mut(&caller.principal) {
            *of_user = of_user.saturating_sub(1);
            if *of_user == 0 {
                tenant.of_users.remove(&caller.principal);
            }
        }
        if tenant.count == 0 {
            self.0.remove(&caller.tenant);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_of_those_who_have_none() {
        let mut counts = HttpSessionCounts::default();
        let (ada, bob) = (Caller::named("acme", "ada"), Caller::named("acme", "bob"));
        let other = Caller::named("globex", "ada");
        for caller in [&ada, &ada, &bob, &other] {
            counts.add(caller);
        }
        assert_eq!((counts.of_user(&ada), counts.of_user(&bob), counts.of_tenant(&ada)), (2, 1, 3));
        assert_eq!((counts.of_user(&other), counts.of_tenant(&other)), (1, 1));
        for caller in [&ada, &ada, &bob, &other] {
            counts.remove(caller);
        }
        assert!(counts.0.is_empty(), "{counts:?}");
        counts.remove(&ada);
        assert_eq!(counts.of_user(&ada), 0);
    }
}
