//! Everything that a gateway reads before it starts or connects anything. `serve` builds on it and `check` only reads it, so that `check`
//! finds what `serve` would refuse. `doctor` finds what only a connection can tell.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc};

use servanda_catalog::{Catalog, pins::Pins};
use servanda_config::{LoadedConfig, ledger_place::LedgerPlace};
use servanda_engine::{Authorities, callbacks::Callbacks};
use servanda_gates::CompiledContract;
use servanda_ledger::LedgerError;
use servanda_telemetry::traces::TraceSettings;
use servanda_upstream::UpstreamSpec;

use super::{catalogs, remembered_names, telemetry, upstream_set};
use crate::{configuration, credentials, failure::CommandFailure, policies};

/// A configuration of which every part was read and is valid.
#[derive(Debug)]
pub(crate) struct Preflight {
    /// The contracts by exposed names, with their pins.
    pub catalog: Arc<Catalog>,
    /// The receivers that are notified when long work ends.
    pub callbacks: Arc<Callbacks>,
    /// The policies in force, and the shadow policies.
    pub authorities: Arc<Authorities>,
    /// Where the ledger is, with its variables filled in.
    pub ledger: LedgerPlace,
    /// The servers to start and addresses to ask, with variables filled in.
    pub upstreams: BTreeMap<String, UpstreamSpec>,
    /// Where spans go and which, if they are exported.
    pub traces: Option<TraceSettings>,
}

impl Preflight {
    /// Reads what belongs to a configuration. `contracts` are its admitted contracts, and `pins` its pins; `door` is the address for
    /// callers over HTTP, if there is one.
    pub(crate) fn read(
        loaded: &LoadedConfig,
        contracts: Vec<CompiledContract>,
        pins: Pins,
        door: Option<SocketAddr>,
    ) -> Result<Self, CommandFailure> {
        let catalog = Arc::new(catalogs::catalog_by(loaded, contracts, pins)?);
        let callbacks = Arc::new(loaded.callbacks()?);
        let authorities = {
            let contracts = catalog.entries().map(|(_, entry)| &*entry.contract);
            Arc::new(policies::authorities(loaded, contracts, door.map(policies::console_url))?)
        };
        let ledger = configuration::ledger_place(loaded)?;
        let notebook = upstream_set::notebook_for_command(loaded)?;
        let mut upstreams = BTreeMap::new();
        for (id, config) in &loaded.config.upstreams {
            let spec = loaded.upstream(id, config)?;
            // Built only to check that it can be; a gateway builds it again with its own notebook.
            credentials::sources(loaded, config, &spec, &notebook)?;
            upstreams.insert(id.clone(), spec);
        }
        if let Some(address) = door {
            loaded.admission_terms(address, &catalog)?;
        }
        let traces = telemetry::trace_settings(loaded)?;
        Ok(Self { catalog, callbacks, authorities, ledger, upstreams, traces })
    }

    /// Reads a ledger in a file without changing it: whether a gateway would accept it, and whether the names that tools had fit the
    /// contracts. A database is not read, because that would need a connection.
    pub(crate) async fn read_ledger(&self, loaded: &LoadedConfig) -> Result<(), CommandFailure> {
        if self.ledger.file().is_none() {
            return Ok(());
        }
        let status = self.ledger.upkeep().status().await?;
        if let Some(refused) = status.refused {
            return Err(LedgerError::Refused(Box::new(refused)).into());
        }
        if status.exists {
            remembered_names::require_names(loaded, &self.catalog).await?;
        }
        Ok(())
    }
}
