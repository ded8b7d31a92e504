//! A policy and its quorum: a witness counts if it cosigned, a group if enough of its members count.
//!
//! Deliberately not here: the text of policies, and signatures.

use crate::note::VerifierKey;

/// Logs, witnesses and a quorum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPolicy {
    pub(super) logs: Vec<TrustedKey>,
    pub(super) witnesses: Vec<TrustedKey>,
    // INVARIANT: a group's members are witnesses and groups before it, and no name is a member twice.
    pub(super) groups: Vec<WitnessGroup>,
    pub(super) quorum: Option<WitnessMember>,
}

/// A key of the policy and, if anybody has to reach its owner, an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TrustedKey {
    pub(super) key: VerifierKey,
    pub(super) url: Option<String>,
}

/// Counts if at least `enough` of its members count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WitnessGroup {
    pub(super) enough: usize,
    pub(super) members: Vec<WitnessMember>,
}

/// What can count, by its place in the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WitnessMember {
    Witness(usize),
    Group(usize),
}

impl LogPolicy {
    /// Trusts one log without witnesses, as `log <key>` and `quorum none` do.
    pub fn of_log(key: VerifierKey) -> Self {
        let logs = vec![TrustedKey { key, url: None }];
        Self { logs, witnesses: Vec::new(), groups: Vec::new(), quorum: None }
    }

    /// The logs' keys and addresses.
    pub fn logs(&self) -> impl Iterator<Item = (&VerifierKey, Option<&str>)> {
        self.logs.iter().map(|log| (&log.key, log.url.as_deref()))
    }

    /// The witnesses' keys and addresses.
    pub fn witnesses(&self) -> impl Iterator<Item = (&VerifierKey, Option<&str>)> {
        self.witnesses.iter().map(|witness| (&witness.key, witness.url.as_deref()))
    }

    /// Whether these witnesses are enough.
    pub(super) fn is_quorum(&self, cosigned: &dyn Fn(&VerifierKey) -> bool) -> bool {
        let witnesses: Vec<bool> = self.witnesses.iter().map(|witness| cosigned(&witness.key)).collect();
        let mut groups: Vec<bool> = Vec::with_capacity(self.groups.len());
        let counts = |member: &WitnessMember, groups: &[bool]| match *member {
            WitnessMember::Witness(place) => witnesses.get(place) == Some(&true),
            WitnessMember::Group(place) => groups.get(place) == Some(&true),
        };
        for group in &self.groups {
            let counted = group.members.iter().filter(|member| counts(member, &groups)).count();
            groups.push(counted >= group.enough);
        }
        self.quorum.as_ref().is_none_or(|member| counts(member, &groups))
    }
}
