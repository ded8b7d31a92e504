//! The driver's side of the hostile upstream: starts it, sets its scripts, reads its books.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    process::Stdio,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::{
    process::{Child, Command},
    sync::Mutex,
    time::sleep,
};

use crate::{
    http::{Wire, post},
    upstream::{Account, Books},
};

const PATIENCE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(10);

/// The hostile upstream as a process.
#[derive(Debug)]
pub struct Hostile {
    pub address: SocketAddr,
    pub books_file: PathBuf,
    syncs: bool,
    child: Mutex<Child>,
}

impl Hostile {
    pub async fn start(folder: &std::path::Path, syncs: bool) -> Result<Self, String> {
        Self::start_with_books(folder.join("upstream-books.jsonl"), syncs).await
    }

    /// The same, with its books in this file.
    pub async fn start_with_books(books_file: PathBuf, syncs: bool) -> Result<Self, String> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, servanda_requirements::unused_port()));
        let child = spawn(address, &books_file, syncs)?;
        let hostile = Self { address, books_file, syncs, child: Mutex::new(child) };
        hostile.wait_until_up().await?;
        Ok(hostile)
    }

    /// Kills it; from then on its port refuses connections.
    pub async fn kill(&self) {
        let _ = self.child.lock().await.kill().await;
    }

    /// Kills it and starts it again, with the same books.
    pub async fn restart(&self) -> Result<(), String> {
        let mut child = self.child.lock().await;
        let _ = child.kill().await;
        *child = spawn(self.address, &self.books_file, self.syncs)?;
        drop(child);
        self.wait_until_up().await
    }

    /// Sets the script for the calls of a name; it overrides the call's own script.
    pub async fn plan(&self, name: &str, script: &str) -> Result<(), String> {
        self.order("plan", &json!({ "name": name, "script": script })).await.map(drop)
    }

    /// Releases every call that holds under that name.
    pub async fn release(&self, name: &str) -> Result<(), String> {
        self.order("release", &json!({ "name": name })).await.map(drop)
    }

    /// What happened to a business id so far.
    pub async fn account(&self, name: &str) -> Result<Account, String> {
        let said = self.order("look", &json!({ "name": name })).await?;
        let receipts = said["receipts"].as_array().map(Vec::as_slice).unwrap_or_default();
        Ok(Account {
            calls: said["calls"].as_u64().unwrap_or(0),
            receipts: receipts.iter().filter_map(|receipt| receipt.as_str().map(str::to_owned)).collect(),
        })
    }

    /// Waits until a call of that name holds; false if none comes.
    pub async fn holds(&self, name: &str, patience: Duration) -> Result<bool, String> {
        let started = Instant::now();
        while started.elapsed() < patience {
            if self.order("look", &json!({ "name": name })).await?["held"].as_u64() > Some(0) {
                return Ok(true);
            }
            sleep(POLL).await;
        }
        Ok(false)
    }

    /// What really happened, read from the file.
    pub fn books(&self) -> Result<Books, String> {
        Books::read(&self.books_file).map_err(|error| error.to_string())
    }

    async fn order(&self, what: &str, order: &Value) -> Result<Value, String> {
        let request = post(&format!("/admin/{what}"), self.address, &[], &order.to_string());
        let said = Wire::new(self.address).ask(&request, PATIENCE).await;
        let said = said.map_err(|error| format!("the upstream does not answer its driver: {error}"))?;
        serde_json::from_slice(&said.body).map_err(|error| error.to_string())
    }

    async fn wait_until_up(&self) -> Result<(), String> {
        let started = Instant::now();
        while started.elapsed() < PATIENCE {
            if tokio::net::TcpStream::connect(self.address).await.is_ok() {
                return Ok(());
            }
            sleep(POLL).await;
        }
        Err("the upstream does not start".to_owned())
    }
}

fn spawn(address: SocketAddr, books: &std::path::Path, syncs: bool) -> Result<Child, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(own);
    command.arg("upstream").arg(address.to_string()).arg(books);
    if syncs {
        command.arg("--sync");
    }
    command.stdin(Stdio::null()).kill_on_drop(true).spawn().map_err(|error| error.to_string())
}
