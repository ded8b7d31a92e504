//! The configuration of policies: which files, whether they are enforced, and which tenants upstreams belong to.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use servanda_policy::BuiltInPermits;

use crate::Config;

/// Who may call what: Cedar policies. See docs/policy.md.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PolicyConfig {
    /// Files and folders of policies, relative to this file; `*` stands for any part of a file's name. By default, the folder `policies`,
    /// if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<Vec<String>>,
    /// Whether the built-in permits apply beside the written policies.
    pub defaults: BuiltIn,
    /// The value of `context.env.name` in policies.
    pub environment: String,
    /// Whether the policies of `files` are enforced.
    pub mode: PolicyMode,
    /// The next version of all policies. What it would decide is recorded, and it is not enforced.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shadow: Vec<String>,
}

/// Whether the built-in permits apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BuiltIn {
    /// They apply: a call that no policy covers is decided by its side-effect class.
    #[default]
    On,
    /// They do not apply: a call that no policy permits is refused.
    Off,
}

/// Whether policies are enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PolicyMode {
    /// They are enforced.
    #[default]
    Enforce,
    /// They are not enforced: the built-in policies decide, and every record says what the written ones would have decided.
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

    /// Whether the built-in permits apply beside the written policies.
    pub const fn defaults(&self) -> BuiltInPermits {
        match self.defaults {
            BuiltIn::On => BuiltInPermits::On,
            BuiltIn::Off => BuiltInPermits::Off,
        }
    }
}

/// The first field with an impossible value, and why.
pub(super) fn fault(config: &Config) -> Option<(String, String)> {
    let policy = &config.policy;
    if policy.environment.trim().is_empty() {
        return Some(("policy.environment".to_owned(), "is empty: policies compare it with a name".to_owned()));
    }
    if policy.mode == PolicyMode::Shadow && !policy.shadow.is_empty() {
        let reason = "names the next version of enforced policies, but `mode: shadow` enforces none: say `mode: enforce`, or \
                      put the files into `files`";
        return Some(("policy.shadow".to_owned(), reason.to_owned()));
    }
    let no_tenant = |tenants: &BTreeSet<String>| tenants.iter().any(|name| name.is_empty() || name.contains('/'));
    let (id, _) = config.upstreams.iter().find(|(_, upstream)| no_tenant(&upstream.tenants))?;
    Some((format!("upstreams.{id}.tenants"), "a tenant's name is not empty and has no `/`".to_owned()))
}
