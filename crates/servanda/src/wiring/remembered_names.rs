//! The exposed names that a gateway remembers, for commands that run without a gateway: they show and accept the names that agents see.

use std::time::Duration;

use servanda_catalog::{Catalog, names::NameTable};
use servanda_config::LoadedConfig;
use servanda_engine::{NoteKind, names};
use servanda_gates::CompiledContract;

use super::catalogs;
use crate::{configuration, failure::CommandFailure};

/// A command that shows names waits no longer than this for an unreachable database.
const READING_MS_MAX: u64 = 2_000;

/// The catalog of a configuration, with the names that its gateway gives.
pub(crate) async fn catalog(
    loaded: &LoadedConfig,
    contracts: Vec<CompiledContract>,
) -> Result<Catalog, CommandFailure> {
    with_remembered_names(loaded, catalogs::catalog(loaded, contracts)?).await
}

/// The same catalog with those names. If they cannot be read, tools are named as if they had never had other names.
pub(crate) async fn with_remembered_names(loaded: &LoadedConfig, catalog: Catalog) -> Result<Catalog, CommandFailure> {
    let reading = tokio::time::timeout(Duration::from_millis(READING_MS_MAX), recall(loaded)).await;
    let recalled = reading.unwrap_or_else(|_| Err("there was no answer in time".to_owned()));
    match recalled {
        Ok(Some(names)) => catalog.with_names_after(&names).map_err(|error| catalogs::bad_names(&error)),
        Ok(None) => Ok(catalog),
        Err(error) => {
            tracing::debug!(%error, "names from before could not be read");
            Ok(catalog)
        }
    }
}

/// Fails if the names that tools had conflict with those of the contracts.
pub(crate) async fn require_names(loaded: &LoadedConfig, catalog: &Catalog) -> Result<(), CommandFailure> {
    let recalled =
        recall(loaded).await.map_err(|why| CommandFailure::failed(format!("the ledger cannot be read: {why}")))?;
    let after = recalled.map(|names| catalog.with_names_after(&names)).transpose();
    after.map(|_| ()).map_err(|error| catalogs::bad_names(&error))
}

async fn recall(loaded: &LoadedConfig) -> Result<Option<NameTable>, String> {
    let place = configuration::ledger_place(loaded).map_err(|failure| failure.to_string())?;
    if place.is_missing() {
        return Ok(None);
    }
    let reader = place.read().await.map_err(|error| error.to_string())?;
    let note = reader.note(NoteKind::Names, names::TOOLS).await.map_err(|error| error.to_string())?;
    Ok(note.and_then(|note| names::read(&note.value)))
}
