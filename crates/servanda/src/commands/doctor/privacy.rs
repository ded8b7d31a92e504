//! `doctor`'s check of who may read the gateway's own files, which tell who called what.

use std::path::Path;

use servanda_config::{LoadedConfig, ledger_place::is_url, state_folder};
use servanda_files::ModeRepair;

use super::DoctorFindings;

/// Files that other users may read or write, listed before any code repairs their permissions.
pub(super) fn exposed(config: &Path) -> Vec<ModeRepair> {
    let folder = config.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    state_folder::exposed(folder)
}

/// The same for a ledger outside the state folder.
pub(super) fn exposed_ledger(loaded: &LoadedConfig) -> Vec<ModeRepair> {
    let ledger = &loaded.config.ledger;
    if is_url(ledger) {
        return Vec::new();
    }
    let file = loaded.beside(Path::new(ledger)).into_os_string();
    let names = ["", "-wal", "-shm", "-lock"].map(|ending| {
        let mut name = file.clone();
        name.push(ending);
        name.into()
    });
    let exposed =
        |path: std::path::PathBuf| servanda_files::open_to_others(&path).map(|mode| ModeRepair { path, mode });
    names.into_iter().filter_map(exposed).collect()
}

/// Adds a finding for each of these files.
pub(super) fn tell(exposed: &[ModeRepair], findings: &mut DoctorFindings) {
    for one in exposed {
        let path = one.path.display();
        if state_folder::is_key(&one.path) {
            findings.bad(
                "secrets",
                format!("others can read the key of the store, `{path}` (mode {:o})", one.mode),
                format!(
                    "`chmod 600 {path}`; users who could read it may know the secrets: set them anew at their sources"
                ),
            );
        } else {
            let hint = "others may know who called what: run `servanda keys rotate`, and find out what opened it";
            findings.bad("state", one.to_string(), hint);
        }
    }
}
