//! The catalog of a configuration: its contracts by exposed names, with their pins and which of them are held back.

use std::sync::Arc;

use servanda_catalog::{Catalog, CatalogError, pins::Pins};
use servanda_config::LoadedConfig;
use servanda_contract::time::Clock as _;
use servanda_effects::Notebook;
use servanda_engine::{
    SystemClock, names,
    quarantine::{self, QuarantineHistory},
};
use servanda_gates::CompiledContract;

use crate::{configuration, contracts::lock, failure::CommandFailure};

/// The catalog of a configuration: its contracts and pins.
pub(crate) fn catalog(loaded: &LoadedConfig, contracts: Vec<CompiledContract>) -> Result<Catalog, CommandFailure> {
    catalog_by(loaded, contracts, lock::pins(loaded)?)
}

/// The same with pins that were already read.
pub(super) fn catalog_by(
    loaded: &LoadedConfig,
    contracts: Vec<CompiledContract>,
    pins: Pins,
) -> Result<Catalog, CommandFailure> {
    Catalog::pinned(contracts, loaded.config.name_policy(), pins).map_err(|error| bad_names(&error))
}

/// The error for contracts that cannot be served together.
pub(super) fn bad_names(error: &CatalogError) -> CommandFailure {
    CommandFailure::bad_input(error.to_string()).hint("rename one of the two, or remove its contract")
}

/// Marks the quarantined tools in a catalog, as a gateway of this configuration would.
pub(crate) async fn hold_quarantined(loaded: &LoadedConfig, catalog: &Catalog) -> Result<(), CommandFailure> {
    let place = configuration::ledger_place(loaded)?;
    if place.is_missing() {
        return Ok(());
    }
    let ledger = place.open().await?;
    let known = quarantine::histories(ledger.as_ref(), SystemClock.now()).await;
    ledger.close().await;
    let known = known.map_err(|error| CommandFailure::failed(error.reason()))?;
    let held: Vec<_> = known.iter().filter_map(QuarantineHistory::held).collect();
    catalog.quarantine(&held);
    Ok(())
}

/// The same catalog with the names that its tools had when the gateway last ran, because agents outlive restarts.
pub(super) async fn named_as_before(
    catalog: Arc<Catalog>,
    notebook: &dyn Notebook,
) -> Result<Arc<Catalog>, CommandFailure> {
    let recalled = names::recall(notebook, SystemClock.now()).await;
    let recalled = recalled.map_err(|error| CommandFailure::failed(format!("the ledger cannot be read: {error}")))?;
    match recalled {
        Some(names) => catalog.with_names_after(&names).map(Arc::new).map_err(|error| bad_names(&error)),
        None => Ok(catalog),
    }
}
