//! Reads the configuration for a command, and warns the user of permissions that were repaired on the way. What the file means, and
//! whether it is right, is decided by `servanda_config`.

use std::path::Path;

use servanda_config::{ConfigError, LoadedConfig, ledger_place::LedgerPlace, state_folder};
use servanda_files::ModeRepair;

use crate::{failure::CommandFailure, screen};

/// Reads and checks the configuration at `file`.
pub(crate) fn read(file: &Path) -> Result<LoadedConfig, CommandFailure> {
    warned(|repaired| LoadedConfig::read(file, repaired))
}

/// The place of the configuration's ledger.
pub(crate) fn ledger_place(loaded: &LoadedConfig) -> Result<LedgerPlace, CommandFailure> {
    warned(|repaired| loaded.ledger_place(repaired))
}

/// Refuses a state folder that is a link, and takes other users' permissions away from it.
pub(crate) fn guard_state_folder(root: &Path) -> Result<(), CommandFailure> {
    warned(|repaired| Ok(state_folder::guard(root, repaired)?))
}

fn warned<T>(prepare: impl FnOnce(&mut Vec<ModeRepair>) -> Result<T, ConfigError>) -> Result<T, CommandFailure> {
    let mut repaired = Vec::new();
    let outcome = prepare(&mut repaired);
    repaired.iter().for_each(screen::warn);
    Ok(outcome?)
}
