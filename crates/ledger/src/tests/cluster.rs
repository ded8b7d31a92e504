//! A PostgreSQL cluster for one test: made in a temporary folder, reached by a Unix socket, stopped with the
//! test. Root may not run PostgreSQL, so under root it runs as the user `nobody`.
#![allow(clippy::disallowed_methods, reason = "a database is a child process of this test, not of the gateway")]

use std::{
    os::unix::fs::{MetadataExt as _, chown},
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
};

const NOBODY: u32 = 65_534;

/// A running cluster.
#[derive(Debug)]
pub(crate) struct Cluster {
    folder: tempfile::TempDir,
    bin: PathBuf,
    schemas: AtomicU32,
    /// The TCP port, if it is also reached by TCP on this machine.
    port: Option<u16>,
}

impl Cluster {
    /// Starts a cluster. None if PostgreSQL is not installed: the test is then skipped and counted, and fails
    /// in CI.
    pub(crate) fn start() -> Option<Self> {
        let cluster = Self::prepare(None)?;
        cluster.start_server("primary");
        Some(cluster)
    }

    /// Prepares a cluster that is also reached by TCP. The caller starts it.
    pub(crate) fn prepare_with_tcp() -> Option<Self> {
        Self::prepare(Some(servanda_requirements::unused_port()))
    }

    fn prepare(port: Option<u16>) -> Option<Self> {
        let Some(bin) = bin() else {
            servanda_requirements::missing("no PostgreSQL is in PATH or /usr/lib/postgresql");
            return None;
        };
        let cluster = Self { folder: tempfile::tempdir().unwrap(), bin, schemas: AtomicU32::new(0), port };
        if is_root() {
            chown(cluster.folder.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        cluster.run("initdb", &["-D", &cluster.data("primary"), "-U", "servanda", "-A", "trust", "-E", "UTF8", "-N"]);
        // These tests do not crash the machine, so nothing has to reach the disk.
        cluster.run_shell(&format!("printf 'fsync = off\\n' >> {}/postgresql.conf", cluster.data("primary")));
        Some(cluster)
    }

    /// A second server that follows the first, as a standby.
    pub(crate) fn start_standby(&self) {
        let socket = self.socket("primary");
        let data = self.data("standby");
        self.run("pg_basebackup", &["-h", &socket, "-U", "servanda", "-D", &data, "-R", "-X", "stream", "-c", "fast"]);
        self.start_server("standby");
    }

    pub(crate) fn start_server(&self, name: &str) {
        let (socket, log) = (self.socket(name), format!("{}.log", self.data(name)));
        self.run_shell(&format!("mkdir -p {socket}"));
        let tcp = self.port.map_or_else(
            || "-c listen_addresses=''".to_owned(),
            |port| format!("-c listen_addresses=127.0.0.1 -c port={port}"),
        );
        let options = format!("-k {socket} {tcp} -c max_connections=200");
        self.run("pg_ctl", &["-D", &self.data(name), "-o", &options, "-l", &log, "-w", "-t", "60", "start"]);
    }

    /// Stops a server as a crash would.
    pub(crate) fn crash(&self, name: &str) {
        self.run("pg_ctl", &["-D", &self.data(name), "-m", "immediate", "-w", "stop"]);
    }

    /// Makes an empty schema and returns its URL.
    pub(crate) async fn schema(&self) -> String {
        let schema = format!("ledger_{}", self.schemas.fetch_add(1, Ordering::SeqCst));
        self.sql(&format!("create schema {schema}")).await;
        format!("{}&options=-csearch_path%3D{schema}", self.url("primary"))
    }

    /// The URL of a server.
    pub(crate) fn url(&self, name: &str) -> String {
        let port = self.port.map_or_else(String::new, |port| format!("&port={port}"));
        format!("postgres:///postgres?host={}{port}&user=servanda", self.socket(name).replace('/', "%2F"))
    }

    /// Runs statements as the administrator.
    pub(crate) async fn sql(&self, sql: &str) {
        let (client, connection) = tokio_postgres::connect(&self.url("primary"), tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute(sql).await.unwrap();
    }

    /// The TCP port.
    pub(crate) fn port(&self) -> u16 {
        self.port.unwrap()
    }

    /// The folder of its files, where tests may put other files that it needs.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn data(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn socket(&self, name: &str) -> String {
        self.folder.path().join(format!("{name}-socket")).display().to_string()
    }

    /// Runs one of PostgreSQL's programs.
    pub(crate) fn run(&self, program: &str, arguments: &[&str]) {
        let mut command = self.as_nobody();
        command.arg(self.bin.join(program)).args(arguments);
        finish(command);
    }

    pub(crate) fn run_shell(&self, script: &str) {
        let mut command = self.as_nobody();
        command.args(["sh", "-c", script]);
        finish(command);
    }

    fn as_nobody(&self) -> Command {
        let mut command = Command::new(if is_root() { "setpriv" } else { "env" });
        if is_root() {
            command.args([&format!("--reuid={NOBODY}"), &format!("--regid={NOBODY}"), "--clear-groups"]);
        }
        command.current_dir(self.folder.path()).stdin(std::process::Stdio::null());
        command
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for name in ["standby", "primary"] {
            if Path::new(&self.data(name)).join("postmaster.pid").exists() {
                self.crash(name);
            }
        }
    }
}

/// Output goes to a file, because a server that is left running would keep a pipe open.
fn finish(mut command: Command) {
    let output = tempfile::NamedTempFile::new().unwrap();
    let [out, err] = [output.reopen().unwrap(), output.reopen().unwrap()];
    let status = command.stdout(out).stderr(err).status().unwrap();
    assert!(status.success(), "{command:?}: {}", std::fs::read_to_string(output.path()).unwrap());
}

fn bin() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&path).map(|folder| folder.join("initdb"));
    let in_path = in_path.filter_map(|initdb| Some(initdb.canonicalize().ok()?.parent()?.to_owned()));
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let packaged = versions.map(|version| version.path().join("bin"));
    in_path.chain(packaged).find(|bin| ["initdb", "pg_ctl", "postgres"].iter().all(|name| bin.join(name).is_file()))
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}
