//! What the configuration says about policies: which files, whether they decide, and whose upstreams there are.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use servanda_policy::BuiltInPermits;

use super::Config;

/// Who may call what: Cedar policies. See docs/policy.md.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PolicyConfig {
    /// Files and folders of policies, relative to this file; `*` stands for any part of a file's name. If not said: the folder
    /// `policies`, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<Vec<String>>,
    /// Whether the built-in permits hold beside the policies that are written.
    pub defaults: BuiltIn,
    /// What policies see as `context.env.name`.
    pub environment: String,
    /// Whether the policies of `files` decide.
    pub mode: PolicyMode,
    /// The next version of the policies, as a whole: what it would have done is on record, and it decides nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shadow: Vec<String>,
}

/// Whether the built-in permits hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum BuiltIn {
    /// They do: what no policy speaks of is decided by its side-effect class.
    #[default]
    On,
    /// They do not: what no policy permits is refused.
    Off,
}

/// Whether policies decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PolicyMode {
    /// They decide.
    #[default]
    Enforce,
    /// They decide nothing: the built-in policies do, and every record says what the written ones would have done.
    Shadow,
}

impl Default for PolicyConfig {
    fn default() -> Self {
        Self {
            files: None,
            defaults: BuiltIn::On,
            environment: "local".to_owned(),
            mode: PolicyMode::Enforce,
            shadow: Vec::new(),
        }
    }
}

impl PolicyConfig {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the built-in permits hold beside what is written.
    pub(crate) const fn defaults(&self) -> BuiltInPermits {
        match self.defaults {
            BuiltIn::On => BuiltInPermits::On,
            BuiltIn::Off => BuiltInPermits::Off,
        }
    }
}

/// The first field that cannot be meant, and why.
pub(super) fn fault(config: &Config) -> Option<(String, String)> {
    let policy = &config.policy;
    if policy.environment.trim().is_empty() {
        return Some(("policy.environment".to_owned(), "is empty: policies compare it with a name".to_owned()));
    }
    if policy.mode == PolicyMode::Shadow && !policy.shadow.is_empty() {
        let reason = "names the next version of policies that decide, and with `mode: shadow` none do: say `mode: enforce`, or \
                      put the files into `files`";
        return Some(("policy.shadow".to_owned(), reason.to_owned()));
    }
    let no_tenant = |tenants: &BTreeSet<String>| tenants.iter().any(|name| name.is_empty() || name.contains('/'));
    let (id, _) = config.upstreams.iter().find(|(_, upstream)| no_tenant(&upstream.tenants))?;
    Some((format!("upstreams.{id}.tenants"), "a tenant's name is not empty and has no `/`".to_owned()))
}
