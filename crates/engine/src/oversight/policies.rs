//! The policies as people read them. A policy that names another tenant is counted and not shown.

use std::collections::BTreeSet;

use servanda_policy::{ListedPolicy, Policies, ShadowPolicies};

use super::Oversight;
use crate::approvals::Person;

/// The policies of a gateway, as far as a person may read them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyOverview {
    /// The name of the environment.
    pub environment: String,
    /// The policies in force.
    pub in_force: Vec<PolicyEntry>,
    /// The policies on trial, which decide nothing; none if there are none.
    pub on_trial: Option<Vec<PolicyEntry>>,
    /// How many policies are not shown, because they name another tenant.
    pub hidden: usize,
}

/// One policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyEntry {
    /// Its id.
    pub id: String,
    /// Its file and line.
    pub place: String,
    /// Whether it comes with Servanda.
    pub is_built_in: bool,
    /// Whether it forbids; else it permits.
    pub is_forbid: bool,
    /// Its annotations, by name.
    pub annotations: Vec<(String, String)>,
    /// Its text.
    pub text: String,
}

impl Oversight<'_> {
    /// The policies. None for people without a role.
    pub fn policies(&self, person: &Person) -> Option<PolicyOverview> {
        let view = self.view(person);
        if !view.sees_tenant() {
            return None;
        }
        let authorities = &view.snapshot.authorities;
        let mut others = view.other_tenants();
        let all = [Some(authorities.policies()), authorities.shadow().map(ShadowPolicies::policies)];
        // A tenant that one policy names is known in all of them.
        others.extend(all.into_iter().flatten().flat_map(Policies::listed).flat_map(|policy| policy.tenants));
        others.remove(&person.tenant);
        let mut hidden = 0;
        let mut shown = |policies: &Policies| -> Vec<PolicyEntry> {
            let (kept, left_out): (Vec<_>, Vec<_>) = policies.listed().partition(|policy| !names_any(policy, &others));
            hidden += left_out.len();
            kept.into_iter().map(PolicyEntry::from).collect()
        };
        let in_force = shown(authorities.policies());
        let on_trial = authorities.shadow().map(|shadow| shown(shadow.policies()));
        Some(PolicyOverview { environment: authorities.environment().to_owned(), in_force, on_trial, hidden })
    }
}

/// Whether a policy names one of these tenants: alone, or before the name of a person or a group.
fn names_any(policy: &ListedPolicy<'_>, tenants: &BTreeSet<String>) -> bool {
    let is_named = |tenant: &String| {
        let escaped = tenant.escape_debug();
        policy.text.contains(&format!("\"{escaped}\"")) || policy.text.contains(&format!("\"{escaped}/"))
    };
    policy.tenants.iter().any(|tenant| tenants.contains(tenant)) || tenants.iter().any(is_named)
}

impl From<ListedPolicy<'_>> for PolicyEntry {
    fn from(policy: ListedPolicy<'_>) -> Self {
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        Self {
            id: policy.id.to_owned(),
            place: policy.place.to_owned(),
            is_built_in: policy.is_built_in,
            is_forbid: policy.is_forbid,
            annotations: policy.annotations.into_iter().map(owned).collect(),
            text: policy.text.to_owned(),
        }
    }
}
