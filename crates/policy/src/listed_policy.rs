//! A policy as people read it: its text, its annotations, its place, and which tenants it names.

use std::collections::BTreeSet;

use cedar_policy::Effect;

use crate::{loaded::LoadedPolicy, policies::Policies};

/// The types of entities whose ids begin with a tenant.
const OF_TENANTS: [&str; 3] = ["User", "Agent", "Group"];

/// A policy as people read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedPolicy<'a> {
    /// Its id.
    pub id: &'a str,
    /// Its file and line.
    pub place: &'a str,
    /// Whether it comes with Servanda.
    pub is_built_in: bool,
    /// Whether it forbids; else it permits.
    pub is_forbid: bool,
    /// Its annotations, by name.
    pub annotations: Vec<(&'a str, &'a str)>,
    /// Its text, as it was written.
    pub text: &'a str,
    /// The tenants that it surely names: in the ids of users, agents and groups, and where it compares a tenant.
    pub tenants: BTreeSet<String>,
}

impl Policies {
    /// Every policy, in the order of files and lines; the built-in ones come first.
    pub fn listed(&self) -> impl Iterator<Item = ListedPolicy<'_>> {
        self.loaded().iter().map(|policy| ListedPolicy {
            id: &policy.id,
            place: &policy.deciding_policy.place,
            is_built_in: policy.is_built_in(),
            is_forbid: policy.policy.effect() == Effect::Forbid,
            annotations: policy.policy.annotations().collect(),
            text: &policy.text,
            tenants: named_tenants(policy),
        })
    }
}

fn named_tenants(policy: &LoadedPolicy) -> BTreeSet<String> {
    let literals = policy.policy.entity_literals();
    let principals = literals.iter().filter(|uid| OF_TENANTS.contains(&uid.type_name().basename()));
    let tenants = principals.filter_map(|uid| Some(uid.id().unescaped().split_once('/')?.0.to_owned()));
    tenants.chain(compared_tenants(&policy.text)).collect()
}

/// The texts that stand beside `tenant ==` and `tenant !=`.
fn compared_tenants(text: &str) -> impl Iterator<Item = String> {
    text.split("tenant").skip(1).filter_map(|rest| {
        let rest = rest.trim_start();
        let rest = rest.strip_prefix("==").or_else(|| rest.strip_prefix("!="))?;
        let (name, _) = rest.trim_start().strip_prefix('"')?.split_once('"')?;
        Some(name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_beside_a_comparison_is_named() {
        for (text, expected) in [
            (r#"when { context.tenant == "globex" }"#, &["globex"][..]),
            (r#"when { principal.tenant!="acme" && context.tenant =="b" }"#, &["acme", "b"]),
            (r#"when { context.args.tenant_scoped == "x" }"#, &[]),
            (r#"when { principal.tenant in ["a"] }"#, &[]),
            ("when { principal.tenant == context.tenant }", &[]),
        ] {
            assert_eq!(compared_tenants(text).collect::<Vec<_>>(), expected, "{text}");
        }
    }
}
