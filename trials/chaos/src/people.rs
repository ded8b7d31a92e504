//! The agent and the people of trials about approvals: their keys, made by the binary's own command, and decisions on its command line.

use std::{path::Path, process::Stdio, time::Duration};

use serde_json::Value;
use tokio::{io::AsyncWriteExt as _, time::timeout};

use crate::{
    effects,
    gateway::{Launch, command},
    world::Setup,
};

/// The tenant of everybody.
pub const TENANT: &str = "acme";
/// The people who may approve.
pub const APPROVERS: [&str; 2] = ["olga", "oscar"];

const AGENT: &str = "ada";
const PATIENCE: Duration = Duration::from_secs(30);

/// The keys of a deployment.
#[derive(Debug, Clone)]
pub struct Keys {
    /// The agent's.
    pub agent: String,
    /// An approver's.
    pub approver: String,
}

impl Keys {
    /// Makes the keys in the store of the gateway whose configuration is in the folder.
    pub async fn make(setup: &Setup, folder: &Path) -> Result<Self, String> {
        Ok(Self {
            agent: key(setup, folder, AGENT, "chaos:pay").await?,
            approver: key(setup, folder, APPROVERS[0], "servanda:console").await?,
        })
    }
}

async fn key(setup: &Setup, folder: &Path, name: &str, scope: &str) -> Result<String, String> {
    let of = ["--tenant", TENANT, "--principal", name, "--label", name, "--scope", scope];
    let words: Vec<&str> = ["keys", "create", "--json"].into_iter().chain(of).collect();
    let made = effects::run(setup, folder, &words).await?;
    made["key"].as_str().map(str::to_owned).ok_or_else(|| format!("`keys create` printed no key: {made}"))
}

/// A ticket, as the gateway prints it.
pub async fn ticket(setup: &Setup, folder: &Path, id: &str) -> Result<Value, String> {
    effects::run(setup, folder, &["approvals", "show", id, "--json"]).await
}

/// Approves the call of a ticket with a person's key. The error is what the command said.
pub async fn approve(setup: &Setup, folder: &Path, id: &str, key: &str) -> Result<(), String> {
    let shown = ticket(setup, folder, id).await?;
    let payload = shown["payload_hash"].as_str().ok_or_else(|| format!("the ticket shows no hash: {shown}"))?;
    with_credential(setup, folder, &["approvals", "approve", id, "--payload", payload], key).await.map(drop)
}

/// The grant of a ticket, as the gateway prints it.
pub async fn grant(setup: &Setup, folder: &Path, id: &str) -> Result<Value, String> {
    effects::run(setup, folder, &["grants", "show", id, "--json"]).await
}

/// Takes a grant back with a person's key, and returns the grant as it was at that moment. The error is what the command said.
pub async fn revoke(setup: &Setup, folder: &Path, id: &str, key: &str) -> Result<Value, String> {
    let words = ["grants", "revoke", id, "--reason", "the trial is over", "--json"];
    let shown = with_credential(setup, folder, &words, key).await?;
    serde_json::from_str(&shown).map_err(|_| format!("`grants revoke` printed no JSON: {shown}"))
}

/// Runs a command of a person, whose credential it reads from its input, and returns what it prints.
async fn with_credential(setup: &Setup, folder: &Path, words: &[&str], key: &str) -> Result<String, String> {
    let mut command = command(setup, folder, &Launch::default(), Path::new(""))?;
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(key.as_bytes()).await.map_err(|error| error.to_string())?;
    }
    let ran =
        timeout(PATIENCE, child.wait_with_output()).await.map_err(|_| format!("`{}` does not end", words.join(" ")))?;
    let ran = ran.map_err(|error| error.to_string())?;
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if ran.status.success() { Ok(said(&ran.stdout)) } else { Err(said(&ran.stderr)) }
}
