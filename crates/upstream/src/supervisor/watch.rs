//! What a supervisor does while its server runs, and how it ends everything below it: first it asks, then it kills.

use std::{
    fs::{File, OpenOptions},
    process::ExitCode,
    time::Duration,
};

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, wait};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::Instant,
};

use super::{KILL_ALL, NOT_STARTED, SupervisorRole, descendants, write_error};

/// How long the descendants of a supervisor whose gateway is gone may take to end after they were asked to.
const ASKED_MS_MAX: u64 = 2_000;
/// How long a supervisor keeps killing: some processes cannot be killed, for example those of another user.
const KILLING_MS_MAX: u64 = 5_000;
/// How often it looks for survivors while it kills.
const KILL_EVERY_MS: u64 = 20;
/// How often it checks for its gateway if the system does not report the gateway's end.
const LOOK_EVERY_MS: u64 = 250;
/// A thread that only waits needs little.
const WAITING_STACK_BYTES: usize = 64 << 10;

/// How far the shutdown has come.
#[derive(Debug, Clone, Copy)]
struct ShutdownProgress {
    asked: bool,
    /// When everything is killed, once the gateway is gone.
    kill_at: Option<Instant>,
    /// When killing is given up, once it has begun.
    give_up_at: Option<Instant>,
}

/// Starts the server and stays until it, and everything it started, has ended.
pub(super) fn run(role: &SupervisorRole) -> ExitCode {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::set_child_subreaper(Some(rustix::process::getpid())) {
        write_error(&format!("processes that this server starts may outlive it: {error}"));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime.and_then(|runtime| runtime.block_on(watch(role))) {
        Ok(Some(status)) => end_like(status),
        Ok(None) => ExitCode::from(NOT_STARTED),
        Err(error) => {
            write_error(&format!("`{}` could not be started: {error}", role.command.to_string_lossy()));
            ExitCode::from(NOT_STARTED)
        }
    }
}

/// Returns how the server ended; none if it was not started, or still runs after every attempt to end it.
async fn watch(role: &SupervisorRole) -> std::io::Result<Option<WaitStatus>> {
    // Signal handlers are installed before there is anything to end.
    let mut asked = [signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?, signal(SignalKind::hangup())?];
    let mut told_to_kill = signal(SignalKind::from_raw(KILL_ALL.as_raw()))?;
    let mut ended_below = signal(SignalKind::child())?;
    let mut gone = std::pin::pin!(gateway_gone(role));
    let Some(mut command) = role.to_become() else { return Ok(None) };
    if !role.has_parent() {
        return Ok(None);
    }
    let server = command.spawn()?;
    let server = i32::try_from(server.id()).ok().and_then(Pid::from_raw);
    let_go_of_streams()?;

    let mut ending = ShutdownProgress { asked: false, kill_at: None, give_up_at: None };
    let mut status = None;
    loop {
        let nobody_left = reap(server, &mut status);
        if nobody_left || ending.give_up_at.is_some_and(|at| Instant::now() >= at) {
            return Ok(status);
        }
        if status.is_some() || ending.kill_at.is_some_and(|at| Instant::now() >= at) {
            ending.kill();
        }
        let [terminate, interrupt, hang_up] = &mut asked;
        tokio::select! {
            _ = terminate.recv() => ending.ask(),
            _ = interrupt.recv() => ending.ask(),
            _ = hang_up.recv() => ending.ask(),
            _ = told_to_kill.recv() => ending.kill_now(),
            _ = ended_below.recv() => {}
            () = &mut gone, if ending.kill_at.is_none() => ending.gateway_is_gone(),
            () = ending.next_check() => {}
        }
    }
}

impl ShutdownProgress {
    fn ask(&mut self) {
        // On other systems the signal comes back to this process, which is a member of the group.
        if cfg!(target_os = "linux") || !self.asked {
            descendants::signal_all(Signal::TERM);
        }
        self.asked = true;
    }

    fn gateway_is_gone(&mut self) {
        self.ask();
        self.kill_at = Some(Instant::now() + Duration::from_millis(ASKED_MS_MAX));
    }

    fn kill_now(&mut self) {
        self.kill_at = Some(Instant::now());
    }

    /// Called repeatedly: a killed process may have started another one at the last moment.
    fn kill(&mut self) {
        self.give_up_at.get_or_insert_with(|| Instant::now() + Duration::from_millis(KILLING_MS_MAX));
        descendants::signal_all(Signal::KILL);
    }

    /// Waits until it is time to kill, or to check whether that was enough.
    async fn next_check(self) {
        match (self.give_up_at, self.kill_at) {
            (Some(_), _) => tokio::time::sleep(Duration::from_millis(KILL_EVERY_MS)).await,
            (None, Some(kill_at)) => tokio::time::sleep_until(kill_at).await,
            (None, None) => std::future::pending().await,
        }
    }
}

/// Reaps everything below that has ended: the server, and adopted orphans. Returns true if nothing is left.
fn reap(server: Option<Pid>, status: &mut Option<WaitStatus>) -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, ended))) if Some(pid) == server => *status = Some(ended),
            Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
            Ok(None) => return false,
            // There is no child to wait for.
            Err(_) => return true,
        }
    }
}

/// Waits for the end of the gateway.
async fn gateway_gone(role: &SupervisorRole) {
    #[cfg(target_os = "linux")]
    if let Some(told) = told_of_end(role.parent) {
        // Upholds: the handle was opened while the gateway was running, if the gateway is still the parent.
        if role.has_parent() && told.await.is_ok() {
            return;
        }
    }
    while role.has_parent() {
        tokio::time::sleep(Duration::from_millis(LOOK_EVERY_MS)).await;
    }
}

/// Lets the kernel report the end of a process, on a thread of its own; none if it cannot.
#[cfg(target_os = "linux")]
fn told_of_end(process: Pid) -> Option<tokio::sync::oneshot::Receiver<()>> {
    use rustix::event::{PollFd, PollFlags, poll};

    let handle = rustix::process::pidfd_open(process, rustix::process::PidfdFlags::empty()).ok()?;
    let (ended, told) = tokio::sync::oneshot::channel();
    let wait = move || {
        let mut handles = [PollFd::new(&handle, PollFlags::IN)];
        while poll(&mut handles, None) == Err(rustix::io::Errno::INTR) {}
        // The receiver may be gone.
        let _ = ended.send(());
    };
    std::thread::Builder::new().stack_size(WAITING_STACK_BYTES).spawn(wait).ok()?;
    Some(told)
}

/// Closes this process's ends of the pipes: the gateway must notice when the server closes one.
fn let_go_of_streams() -> std::io::Result<()> {
    let nowhere: File = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nowhere)?;
    rustix::stdio::dup2_stdout(&nowhere)?;
    rustix::stdio::dup2_stderr(&nowhere)?;
    Ok(())
}

/// Ends as the server did, as far as a process can choose how it ends; otherwise with the exit status a shell would report.
fn end_like(status: WaitStatus) -> ExitCode {
    if let Some(code) = status.exit_status() {
        return ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX));
    }
    let signal = status.terminating_signal().unwrap_or_default();
    if let Some(signal) = Signal::from_named_raw(signal) {
        // If this process handles that signal, it survives.
        let _ = kill_process(rustix::process::getpid(), signal);
    }
    ExitCode::from(u8::try_from(signal.saturating_add(128)).unwrap_or(u8::MAX))
}
