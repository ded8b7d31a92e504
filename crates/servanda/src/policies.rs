//! Reads the policy files that a configuration names, and builds what calls are decided by. A single mistake stops the start; the message
//! has file, line, column, the policy and what to do.

mod files;

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    sync::Arc,
};

use servanda_config::{LoadedConfig, PolicyMode};
use servanda_engine::{Authorities, UpstreamTenants};
use servanda_gates::CompiledContract;
use servanda_policy::{
    BuiltInPermits, Policies, PolicyLimits, PolicyLoadFailure, PolicySource, ShadowPolicies, Vocabulary,
};

pub(crate) use files::{has_folder, watched};

use crate::{failure::CommandFailure, screen::plural};

/// Texts of policies and the names of their files.
#[derive(Debug, Default)]
pub(crate) struct PolicyTexts(Vec<(String, String)>);

impl PolicyTexts {
    /// The texts of `policy.files`.
    pub(crate) fn from_files(loaded: &LoadedConfig) -> Result<Self, CommandFailure> {
        files::read(loaded, &files::policy_files(loaded)?)
    }

    /// The texts of `policy.shadow`.
    pub(crate) fn from_shadow(loaded: &LoadedConfig) -> Result<Self, CommandFailure> {
        files::read(loaded, &files::shadow_files(loaded)?)
    }

    /// The texts of a file or a folder from the command line.
    pub(crate) fn from_path(path: &Path) -> Result<Self, CommandFailure> {
        files::read_at(path)
    }

    /// The policies, or everything that is wrong with them.
    pub(crate) fn load(
        &self,
        vocabulary: &Arc<Vocabulary>,
        defaults: BuiltInPermits,
    ) -> Result<Policies, CommandFailure> {
        let sources: Vec<PolicySource<'_>> = self.0.iter().map(|(name, text)| PolicySource { name, text }).collect();
        Policies::load(Arc::clone(vocabulary), &sources, defaults, &PolicyLimits::default())
            .map_err(|error| mistakes(&error))
    }
}

/// The schema that a configuration's policies are written against.
pub(crate) fn vocabulary<'a>(
    loaded: &LoadedConfig,
    contracts: impl IntoIterator<Item = &'a CompiledContract>,
) -> Result<Arc<Vocabulary>, CommandFailure> {
    tenants(loaded).vocabulary(contracts).map(Arc::new).map_err(|error| CommandFailure::bad_input(error.to_string()))
}

/// The policies in force, the shadow policies, and the settings for approvals. `console_url` is where this process serves the console.
pub(crate) fn authorities<'a>(
    loaded: &LoadedConfig,
    contracts: impl IntoIterator<Item = &'a CompiledContract>,
    console_url: Option<String>,
) -> Result<Authorities, CommandFailure> {
    let policy = &loaded.config.policy;
    let vocabulary = vocabulary(loaded, contracts)?;
    let written = PolicyTexts::from_files(loaded)?.load(&vocabulary, policy.defaults())?;
    let (in_force, shadow) = match policy.mode {
        // In force are only the tenant separation and the built-in permits. Without these permits every call would be refused.
        PolicyMode::Shadow => (PolicyTexts::default().load(&vocabulary, BuiltInPermits::On)?, Some(written)),
        PolicyMode::Enforce if policy.shadow.is_empty() => (written, None),
        PolicyMode::Enforce => {
            let next = PolicyTexts::from_shadow(loaded)?.load(&vocabulary, policy.defaults())?;
            (written, Some(next))
        }
    };
    let authorities = Authorities::new(in_force, &policy.environment)
        .with_tenants(tenants(loaded))
        .with_approvals(loaded.config.approval_settings(console_url));
    Ok(match shadow {
        Some(shadow) => authorities.with_shadow(ShadowPolicies::new(shadow)),
        None => authorities,
    })
}

/// Where people reach the console of a gateway that listens at that address. On loopback it has a host name of its own, because browsers
/// send the cookies of `127.0.0.1` to every server there.
pub(crate) fn console_url(door: SocketAddr) -> String {
    if door.ip() == Ipv4Addr::LOCALHOST {
        return format!("http://servanda.localhost:{}", door.port());
    }
    format!("http://{door}")
}

/// The warning that written policies are not enforced.
pub(crate) fn warning(loaded: &LoadedConfig, authorities: &Authorities) -> Option<String> {
    let shadow = authorities.shadow().filter(|_| loaded.config.policy.mode == PolicyMode::Shadow)?;
    let written = plural(shadow.policies().written_count(), "policy", "policies");
    Some(format!(
        "warning: `policy.mode` is `shadow`: what you wrote ({written}) is not enforced; the built-in policies decide, and \
         records say what yours would have decided"
    ))
}

/// The tenants of each upstream.
fn tenants(loaded: &LoadedConfig) -> UpstreamTenants {
    loaded.config.upstreams.iter().map(|(id, upstream)| (id.clone(), upstream.tenants.clone())).collect()
}

fn mistakes(error: &PolicyLoadFailure) -> CommandFailure {
    CommandFailure::bad_input(error.to_string()).hint(
        "nothing was started; correct the policies and run `servanda check`; `servanda policy schema` lists the names",
    )
}
