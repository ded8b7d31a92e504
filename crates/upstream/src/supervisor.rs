//! The process between the gateway and a stdio server: this same program, started again in another role.
//!
//! A server must not outlive its gateway, and neither must anything the server started, whether the gateway ends by itself or is killed. A
//! killed gateway can do nothing any more, so each server has a supervisor. The supervisor is the server's parent, adopts every descendant
//! whose own parent ended (a subreaper, on Linux), and notices when the gateway ends. If the supervisor is killed, the kernel kills the
//! server.
//!
//! The supervisor does not slow a call: the server inherits the gateway's pipes, and the supervisor closes its own ends. It does not decide
//! what is said on the pipes, when a living gateway ends its server, or what is reported about that.

mod descendants;
mod watch;

use std::{
    ffi::{OsStr, OsString},
    io::Write as _,
    os::unix::process::CommandExt as _,
    path::PathBuf,
    process::{Command, ExitCode},
    sync::OnceLock,
};

use rustix::process::{Pid, Signal, getppid};

/// The first argument of a program that supervises a server. It is followed by the gateway's process id, the server's program and its
/// arguments.
const SUPERVISE: &str = "supervise-stdio-server";
/// The first argument of a program that becomes the server. It is followed by the supervisor's process id, the server's program and its
/// arguments.
const BECOME: &str = "become-stdio-server";
/// The most ancestors of a process that are looked at.
const ANCESTORS_MAX: usize = 64;
/// The exit status with which a shell reports that a program could not be started.
const NOT_STARTED: u8 = 127;

/// The signal that tells a supervisor to end the server and everything it started, now.
pub(crate) const KILL_ALL: Signal = Signal::USR1;

/// This program, if it can be started again as a supervisor.
static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// If the arguments say so, acts as a supervisor or as a server about to start, and returns how that ended. Otherwise the servers that this
/// process starts from now on are supervised. Call it first in `main`.
pub fn run_if_supervisor(args: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut args = args.into_iter().skip(1);
    match args.next().as_deref().and_then(OsStr::to_str) {
        Some(SUPERVISE) => {
            Some(SupervisorRole::parse(args).map_or(ExitCode::from(NOT_STARTED), |role| watch::run(&role)))
        }
        Some(BECOME) => {
            Some(SupervisorRole::parse(args).map_or(ExitCode::from(NOT_STARTED), |role| role.become_server()))
        }
        _ => {
            if let Some(program) = this_program() {
                // A second call sets the same value.
                let _ = PROGRAM.set(program);
            }
            None
        }
    }
}

/// Whether this process runs below a server that some gateway started, however it was started there: a supervisor adopts the orphans of its
/// server, so a program cannot leave it by forking. Only known on Linux; elsewhere the answer is no.
pub fn is_below_server() -> bool {
    let mut process = getppid().map_or(0, |parent| parent.as_raw_nonzero().get());
    for _ in 0..ANCESTORS_MAX {
        if process <= 1 {
            return false;
        }
        if has_role(process, SUPERVISE) || has_role(process, BECOME) {
            return true;
        }
        let Some(parent) = parent_of(process) else { return false };
        process = parent;
    }
    // A chain of processes that is longer than any shell makes is not a person's.
    true
}

fn has_role(process: i32, role: &str) -> bool {
    let words = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    words.split(|byte| *byte == 0).nth(1) == Some(role.as_bytes())
}

fn parent_of(process: i32) -> Option<i32> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

/// How a server is started under a supervisor: the program to start, and its arguments before the server's own command. None if this
/// program cannot be a supervisor.
pub(crate) fn prefix() -> Option<(&'static PathBuf, [String; 2])> {
    let program = PROGRAM.get()?;
    Some((program, [SUPERVISE.to_owned(), std::process::id().to_string()]))
}

/// The process that started this one, and the server to run.
#[derive(Debug)]
struct SupervisorRole {
    parent: Pid,
    command: OsString,
    args: Vec<OsString>,
}

impl SupervisorRole {
    fn parse(mut args: impl Iterator<Item = OsString>) -> Option<Self> {
        let parent = args.next()?.to_str()?.parse().ok().and_then(Pid::from_raw)?;
        Some(Self { parent, command: args.next()?, args: args.collect() })
    }

    /// Whether the process that started this one is still its parent.
    fn has_parent(&self) -> bool {
        getppid() == Some(self.parent)
    }

    /// The command that becomes the server. It inherits this process's streams.
    #[expect(
        clippy::disallowed_methods,
        reason = "the supervisor is the part of the process module that starts servers"
    )]
    fn to_become(&self) -> Option<Command> {
        let mut command = Command::new(this_program()?);
        command.arg(BECOME).arg(std::process::id().to_string()).arg(&self.command).args(&self.args);
        Some(command)
    }

    /// Replaces this process by the server, which the kernel kills when its supervisor ends. Returns only if that fails.
    #[expect(
        clippy::disallowed_methods,
        reason = "the supervisor is the part of the process module that starts servers"
    )]
    fn become_server(&self) -> ExitCode {
        #[cfg(target_os = "linux")]
        if let Err(error) = rustix::process::set_parent_process_death_signal(Some(Signal::KILL)) {
            write_error(&format!("this server may outlive its supervisor: {error}"));
        }
        // Upholds: the kernel reports only an end that comes later, so a parent that is already gone must be noticed here.
        if !self.has_parent() {
            return ExitCode::from(NOT_STARTED);
        }
        let error = Command::new(&self.command).args(&self.args).exec();
        write_error(&format!("`{}` could not be started: {error}", self.command.to_string_lossy()));
        ExitCode::from(NOT_STARTED)
    }
}

/// The path of this program. On Linux it stays valid even when the program's file is replaced by a newer one.
fn this_program() -> Option<PathBuf> {
    let own = PathBuf::from("/proc/self/exe");
    if cfg!(target_os = "linux") && own.exists() { Some(own) } else { std::env::current_exe().ok() }
}

/// Writes a line to the server's standard error, which the gateway reads.
fn write_error(what: &str) {
    // There is nowhere else to report a failure.
    let _ = writeln!(std::io::stderr(), "servanda: {what}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> impl Iterator<Item = OsString> {
        line.split(' ').map(OsString::from)
    }

    #[test]
    fn a_role_needs_a_parent_and_a_command() {
        let role = SupervisorRole::parse(args("17 node server.js --port 1")).unwrap();
        assert_eq!((role.parent.as_raw_nonzero().get(), role.command.to_str()), (17, Some("node")));
        assert_eq!(role.args, ["server.js", "--port", "1"]);
        for wrong in ["", "0 node", "x node", "17"] {
            assert!(SupervisorRole::parse(args(wrong)).is_none(), "{wrong}");
        }
    }
}
