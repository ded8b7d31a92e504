//! One gateway as a running process: started, armed, paused, starved of disk, killed.

use std::{
    fs,
    io::Write as _,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::AsyncReadExt as _,
    process::{Child, Command},
    time::{sleep, timeout},
};

use crate::world::{Setup, USUAL_SILENCE_MS};

const START_PATIENCE: Duration = Duration::from_secs(30);
const END_PATIENCE: Duration = Duration::from_secs(15);
const POLL: Duration = Duration::from_millis(10);

/// What a gateway is started with, besides its configuration.
#[derive(Debug, Clone, Default)]
pub struct Launch {
    /// `SERVANDA_FAULTS`.
    pub faults: Option<String>,
    /// Whether faults wait until the trial arms them.
    pub waits_for_arm: bool,
    pub seed: u64,
    /// The offset of its clock: `+1h`, `-1h`.
    pub clock: Option<String>,
}

impl Launch {
    /// How long it may stall at one of its failpoints.
    pub fn stall_ms(&self) -> u64 {
        let rules = self.faults.as_deref().unwrap_or_default().split(',');
        let pause = |rule: &str| rule.split_once("pause:")?.1.split('@').next()?.parse().ok();
        rules.filter_map(pause).max().unwrap_or(0)
    }
}

/// Why a gateway did not start.
#[derive(Debug)]
pub struct NotStarted {
    /// How it ended, if it ended by itself.
    pub status: Option<std::process::ExitStatus>,
    /// Its last output.
    pub words: String,
}

/// A gateway that was started.
#[derive(Debug)]
pub struct Gateway {
    pub address: SocketAddr,
    child: Child,
    pub pid: Pid,
    arm: PathBuf,
    log: PathBuf,
}

impl Gateway {
    /// Starts the gateway whose configuration is in the folder, and waits until it listens.
    pub async fn start(setup: &Setup, folder: &Path, launch: &Launch) -> Result<Self, String> {
        Self::try_start(setup, folder, launch).await.map_err(String::from)
    }

    /// The same, for a gateway that may be right to refuse to start.
    pub async fn try_start(setup: &Setup, folder: &Path, launch: &Launch) -> Result<Self, NotStarted> {
        let number = fs::read_dir(folder).map_or(0, Iterator::count);
        let (log, arm) = (folder.join(format!("gateway-{number}.log")), folder.join(format!("armed-{number}")));
        let mut command = command(setup, folder, launch, &arm)?;
        command.args(["serve", "--listen", "127.0.0.1:0"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().map_err(|error| format!("{}: {error}", setup.servanda.display()))?;
        if let Some(stderr) = child.stderr.take() {
            // A pipe, because a file would be as full as its disk.
            tokio::spawn(keep(stderr, log.clone()));
        }
        let pid = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)).ok_or("it has no process id")?;
        let started = Instant::now();
        loop {
            let said = fs::read_to_string(&log).unwrap_or_default();
            let address = said.split_once("ready at http://").and_then(|(_, rest)| rest.split_once("/mcp"));
            if let Some(address) = address.and_then(|(address, _)| address.parse().ok()) {
                return Ok(Self { address, child, pid, arm, log });
            }
            if let Ok(Some(status)) = child.try_wait() {
                // Its last output may still be in the pipe.
                sleep(POLL * 10).await;
                return Err(NotStarted { status: Some(status), words: last_lines(&log) });
            }
            if started.elapsed() > START_PATIENCE {
                return Err(NotStarted { status: None, words: last_lines(&log) });
            }
            sleep(POLL).await;
        }
    }

    /// Enables its faults.
    pub fn arm(&self) -> Result<(), String> {
        fs::write(&self.arm, "armed\n").map_err(|error| error.to_string())
    }

    /// Disables its faults.
    pub fn disarm(&self) -> Result<(), String> {
        fs::remove_file(&self.arm).map_err(|error| error.to_string())
    }

    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Kills it, like a power cut would.
    pub async fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.child.start_kill();
        let _ = timeout(END_PATIENCE, self.child.wait()).await;
    }

    /// Waits for an end that the trial did not cause itself.
    pub async fn ended(&mut self, patience: Duration) -> bool {
        timeout(patience, self.child.wait()).await.is_ok()
    }

    /// Asks it to end, as a supervisor does.
    pub fn terminate(&self) {
        let _ = kill_process(self.pid, Signal::TERM);
    }

    pub fn pause(&self) {
        let _ = kill_process(self.pid, Signal::STOP);
    }

    pub fn resume(&self) {
        let _ = kill_process(self.pid, Signal::CONT);
    }

    /// Limits the size of every file it writes; `None` removes the limit.
    pub async fn limit_files(&self, bytes: Option<u64>) -> Result<(), String> {
        let limit = bytes.map_or_else(|| "unlimited".to_owned(), |bytes| bytes.to_string());
        let pid = self.pid.as_raw_nonzero().to_string();
        let limited = Command::new("prlimit").args(["--pid", &pid, &format!("--fsize={limit}:unlimited")]).output();
        let limited = limited.await.map_err(|error| format!("prlimit: {error}"))?;
        if limited.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&limited.stderr).into_owned()) }
    }

    /// Its last output.
    pub fn said(&self) -> String {
        last_lines(&self.log)
    }
}

impl From<String> for NotStarted {
    fn from(words: String) -> Self {
        Self { status: None, words }
    }
}

impl From<&str> for NotStarted {
    fn from(words: &str) -> Self {
        words.to_owned().into()
    }
}

impl From<NotStarted> for String {
    fn from(NotStarted { status, words }: NotStarted) -> Self {
        match status {
            Some(status) => format!("the gateway ended at its start ({status}): {words}"),
            None => format!("the gateway is not ready: {words}"),
        }
    }
}

/// The command for the binary with a configuration, without any variable of the tester's environment that could change its
/// behaviour.
pub fn command(setup: &Setup, folder: &Path, launch: &Launch, arm: &Path) -> Result<Command, String> {
    // A full disk gives a write error. A limit on file sizes also sends a signal, which this ignores.
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "trap '' XFSZ; exec \"$@\"", "sh"]).arg(&setup.servanda);
    command.arg("--config").arg(folder.join("servanda.yaml")).current_dir(folder).env_clear();
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", folder);
    // Gateways of one ledger have one key, or only the first of them could read what approvals are signed with. It is 32 zero bytes.
    command.env("SERVANDA_SECRET_KEY", format!("{}=", "A".repeat(43)));
    if setup.silence_ms != USUAL_SILENCE_MS {
        command.env("SERVANDA_OWNER_SILENCE_MS", setup.silence_ms.to_string());
    }
    if let Some(faults) = &launch.faults {
        command.env("SERVANDA_FAULTS", faults).env("SERVANDA_FAULTS_SEED", launch.seed.to_string());
        if launch.waits_for_arm {
            command.env("SERVANDA_FAULTS_ARMED", arm);
        }
    }
    if let Some(clock) = &launch.clock {
        let library = faketime().ok_or("libfaketime is not installed: apt-get install faketime")?;
        command.env("LD_PRELOAD", library).env("FAKETIME", clock);
        // Waits use the monotonic clock, which must not be faked.
        command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("DONT_FAKE_MONOTONIC", "1");
    }
    Ok(command)
}

/// The library that fakes a process's clock, if it is installed.
pub fn faketime() -> Option<PathBuf> {
    let folders = fs::read_dir("/usr/lib").ok()?.filter_map(Result::ok);
    folders.map(|folder| folder.path().join("faketime/libfaketimeMT.so.1")).find(|library| library.exists())
}

/// Writes a gateway's output to a file for as long as the gateway lives.
async fn keep(mut stderr: tokio::process::ChildStderr, log: PathBuf) {
    let Ok(mut file) = fs::File::create(&log) else { return };
    let mut said = [0; 4096];
    while let Ok(count @ 1..) = stderr.read(&mut said).await {
        let _ = file.write_all(&said[..count]);
    }
}

fn last_lines(log: &Path) -> String {
    let said = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = said.lines().collect();
    lines[lines.len().saturating_sub(6)..].join(" / ")
}
