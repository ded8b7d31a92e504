//! The verifiable log after a trial: the binary copies it, and verifies the copy with nothing but its key. Whatever was killed, paused or cut
//! off, the log has to hold, and no call may be dispatched, approved or ended in it in a way that is not legal.

use std::path::Path;

use crate::{effects, world::Setup};

/// What is wrong with the log of a folder's ledger; how many leaves hold if nothing is.
pub async fn verify(setup: &Setup, folder: &Path) -> Result<u64, String> {
    let copy = folder.join("verified-log");
    let place = copy.to_string_lossy().into_owned();
    let status = effects::run(setup, folder, &["audit", "--json"]).await?;
    let key = status["key"].as_str().ok_or("the log has no key")?;
    effects::run(setup, folder, &["audit", "copy", &place, "--json"]).await?;
    let verified = effects::run(setup, folder, &["audit", "verify", &place, "--key", key, "--json"]).await?;
    // Half a minute of calls is many megabytes.
    let _ = std::fs::remove_dir_all(&copy);
    verified["leaves"].as_u64().ok_or_else(|| "the check says no number of leaves".to_owned())
}
