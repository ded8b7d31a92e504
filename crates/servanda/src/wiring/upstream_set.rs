//! The upstreams of a configuration, made and not connected yet, each with what it is shown.

use std::{collections::BTreeMap, sync::Arc};

use servanda_effects::Notebook;
use servanda_upstream::{Upstream, UpstreamSpec};

use super::visitors_notebook::VisitorsNotebook;
use crate::{
    config::{Loaded, UpstreamConfig},
    credentials,
    failure::Failure,
};

/// A notebook for commands that leave nothing behind.
pub(crate) fn fleeting(loaded: &Loaded) -> Result<Arc<dyn Notebook>, Failure> {
    Ok(Arc::new(VisitorsNotebook::new(loaded.ledger_place()?)))
}

/// Every upstream of a configuration, not connected yet.
pub(crate) fn upstreams(loaded: &Loaded, notebook: &Arc<dyn Notebook>) -> Result<BTreeMap<String, Upstream>, Failure> {
    let of = |(id, config): (&String, &UpstreamConfig)| Ok((id.clone(), loaded.upstream(id, config)?));
    let specs = loaded.config.upstreams.iter().map(of).collect::<Result<_, Failure>>()?;
    showing(loaded, specs, notebook)
}

/// Upstreams as they were read, with what each is shown.
pub(super) fn showing(
    loaded: &Loaded,
    specs: BTreeMap<String, UpstreamSpec>,
    notebook: &Arc<dyn Notebook>,
) -> Result<BTreeMap<String, Upstream>, Failure> {
    let of = |(id, spec): (String, UpstreamSpec)| {
        let config = loaded.config.upstreams.get(&id).cloned().unwrap_or_default();
        let upstream = credentials::upstream(loaded, &config, spec, notebook.clone())?;
        Ok((id, upstream))
    };
    specs.into_iter().map(of).collect()
}
