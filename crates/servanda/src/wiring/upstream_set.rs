//! Builds the upstreams of a configuration with their credentials; does not connect them.

use std::{collections::BTreeMap, sync::Arc};

use servanda_config::{LoadedConfig, UpstreamConfig};
use servanda_effects::Notebook;
use servanda_upstream::{Upstream, UpstreamSpec};

use super::command_notebook::CommandNotebook;
use crate::{configuration, credentials, failure::CommandFailure};

/// A notebook for commands, which forgets everything but logins.
pub(crate) fn notebook_for_command(loaded: &LoadedConfig) -> Result<Arc<dyn Notebook>, CommandFailure> {
    Ok(Arc::new(CommandNotebook::new(configuration::ledger_place(loaded)?)))
}

/// Every upstream of a configuration, not connected yet.
pub(crate) fn upstreams(
    loaded: &LoadedConfig,
    notebook: &Arc<dyn Notebook>,
) -> Result<BTreeMap<String, Upstream>, CommandFailure> {
    let of = |(id, config): (&String, &UpstreamConfig)| Ok((id.clone(), loaded.upstream(id, config)?));
    let specs = loaded.config.upstreams.iter().map(of).collect::<Result<_, CommandFailure>>()?;
    with_credentials(loaded, specs, notebook)
}

/// Upstreams as they were read, with the credentials of each.
pub(super) fn with_credentials(
    loaded: &LoadedConfig,
    specs: BTreeMap<String, UpstreamSpec>,
    notebook: &Arc<dyn Notebook>,
) -> Result<BTreeMap<String, Upstream>, CommandFailure> {
    let of = |(id, spec): (String, UpstreamSpec)| {
        let config = loaded.config.upstreams.get(&id).cloned().unwrap_or_default();
        let upstream = credentials::upstream(loaded, &config, spec, notebook.clone())?;
        Ok((id, upstream))
    };
    specs.into_iter().map(of).collect()
}
