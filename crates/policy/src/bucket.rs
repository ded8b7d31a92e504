//! Policies that apply at the same place: as they are, for calls, and taken apart for lists.

use cedar_policy::{Effect, PolicySet, PolicySetError};

use crate::{load::Loaded, mentions::Needs};

/// Policies that are looked at together.
#[derive(Debug, Default)]
pub(crate) struct Bucket {
    /// All of them: what a call is decided by.
    pub all: PolicySet,
    /// What they look at in the context.
    pub needs: Needs,
    /// Those that say the same whatever the call is.
    pub certain: PolicySet,
    /// The beginnings of the others: where one does not hold, the policy says nothing.
    pub prefixes: PolicySet,
    /// The others that permit, without what needs a call: where one does not hold, the policy does not permit.
    pub relaxed: PolicySet,
    /// Ids of all, to tell which were looked at.
    pub ids: Vec<String>,
}

impl Bucket {
    pub(crate) fn add(&mut self, policy: &Loaded) -> Result<(), Box<PolicySetError>> {
        self.all.add(policy.policy.clone())?;
        self.needs.add(&policy.needs);
        self.ids.push(policy.id.clone());
        let Some(listing) = &policy.listing else {
            return self.certain.add(policy.policy.clone()).map_err(Box::new);
        };
        self.prefixes.add(listing.prefix.clone())?;
        if policy.policy.effect() == Effect::Permit {
            self.relaxed.add(listing.relaxed.clone())?;
        }
        Ok(())
    }
}
