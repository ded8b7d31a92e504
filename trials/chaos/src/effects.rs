//! What the gateway says about effects, read with its own command: `servanda effects list --json`.

use std::{collections::BTreeMap, path::Path, process::Stdio, time::Duration};

use serde_json::Value;
use tokio::time::timeout;

use crate::{
    gateway::{Launch, command},
    world::Setup,
};

const PATIENCE: Duration = Duration::from_mins(2);

/// One effect, limited to what an oracle needs.
#[derive(Debug, Clone)]
pub struct Seen {
    pub id: String,
    pub state: String,
    pub epoch: u64,
    pub dispatches: u64,
    pub call_id: String,
    pub reason: String,
}

/// The effects by the client's key.
pub type Listing = BTreeMap<String, Seen>;

/// The newest effects in these states (in all, if none is named), up to a limit. Tries the options of each version of the
/// command.
pub async fn list(setup: &Setup, folder: &Path, states: &[&str], limit: usize) -> Result<Listing, String> {
    let rows = rows(setup, folder, states, limit).await?;
    Ok(rows.iter().filter_map(seen).collect())
}

/// The same, as the gateway prints it.
pub async fn rows(setup: &Setup, folder: &Path, states: &[&str], limit: usize) -> Result<Vec<Value>, String> {
    let limit = limit.to_string();
    let wanted = states.iter().flat_map(|state| ["--state", state]);
    let plain: Vec<&str> = ["effects", "--json"].into_iter().chain(wanted.clone()).collect();
    let limited: Vec<&str> = plain.iter().copied().chain(["--limit", &limit]).collect();
    let named: Vec<&str> = ["effects", "list", "--json", "--limit", &limit].into_iter().chain(wanted).collect();
    let mut why = None;
    // Without a limit the command lists the newest few, which is enough for a case of the matrix.
    for way in [limited, named, plain] {
        match run(setup, folder, &way).await {
            Ok(listed) => {
                let rows = listed.as_array().or_else(|| listed["effects"].as_array());
                return rows.cloned().ok_or_else(|| "`effects` is not a list".to_owned());
            }
            Err(error) => why = why.or(Some(error)),
        }
    }
    Err(why.unwrap_or_default())
}

/// One recorded call.
pub async fn record(setup: &Setup, folder: &Path, call_id: &str) -> Result<Value, String> {
    run(setup, folder, &["explain", call_id, "--json"]).await
}

/// Runs the binary's own command and reads what it prints.
pub async fn run(setup: &Setup, folder: &Path, args: &[&str]) -> Result<Value, String> {
    let mut command = command(setup, folder, &Launch::default(), Path::new(""))?;
    command.args(args).stdin(Stdio::null()).kill_on_drop(true);
    let ran = timeout(PATIENCE, command.output()).await.map_err(|_| "it does not end".to_owned());
    let ran = ran.and_then(|ran| ran.map_err(|error| error.to_string()));
    let ran = ran.map_err(|error| format!("`servanda {}`: {error}", args.join(" ")))?;
    let stdout = String::from_utf8_lossy(&ran.stdout);
    serde_json::from_str(&stdout).map_err(|_| {
        let stderr = String::from_utf8_lossy(&ran.stderr);
        let first = stderr.lines().next().unwrap_or("it printed no JSON").to_owned();
        format!("`servanda {}`: {first}", args.join(" "))
    })
}

/// The part of a row that an oracle needs.
pub fn seen(row: &Value) -> Option<(String, Seen)> {
    let key = row["key"]["client_key"].as_str().or(row["client_key"].as_str())?;
    let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
    let seen = Seen {
        id: text("id"),
        state: text("state"),
        epoch: row["epoch"].as_u64().unwrap_or(0),
        dispatches: row["dispatches"].as_u64().unwrap_or(0),
        call_id: text("call_id"),
        reason: text("reason"),
    };
    Some((key.strip_prefix("key:").unwrap_or(key).to_owned(), seen))
}
