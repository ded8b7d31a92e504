//! The process between the gateway and a stdio server: this same program, started again in another role.
//!
//! A server must not outlive its gateway, and neither must anything the server started, whether the gateway ends politely or is
//! killed. A killed gateway can do nothing any more, so each server has a supervisor that can: it is the server's parent, it adopts
//! every descendant whose own parent ended (a subreaper, on Linux), and it sees the gateway's end. The server itself is killed by the
//! kernel should its supervisor be killed.
//!
//! The supervisor is not in the way of a call: the server inherits the gateway's pipes, and the supervisor closes its own ends. What
//! is said on the pipes, when to end a living gateway's server and what to tell about it is not decided here.

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

/// The first argument of a program that is to supervise a server; then come the gateway's process id, the server's program and its
/// arguments.
const SUPERVISE: &str = "supervise-stdio-server";
/// The first argument of a program that is to become the server; then come the same, with the supervisor's process id.
const BECOME: &str = "become-stdio-server";
/// How a shell tells that a program could not be started.
const NOT_STARTED: u8 = 127;

/// What a supervisor takes for: end the server and everything it started, now.
pub(crate) const KILL_ALL: Signal = Signal::USR1;

/// This program, where it can be started again as a supervisor.
static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// Plays the role of a supervisor or of a server about to start, if the arguments say so, and returns how that ended. Otherwise the
/// servers that this process starts from now on are supervised. Meant to be the first thing that `main` does.
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
                // The same every time.
                let _ = PROGRAM.set(program);
            }
            None
        }
    }
}

/// How a server is started under a supervisor: the program to start, and its arguments before the server's own command. None if
/// this program cannot be a supervisor.
pub(crate) fn prefix() -> Option<(&'static PathBuf, [String; 2])> {
    let program = PROGRAM.get()?;
    Some((program, [SUPERVISE.to_owned(), std::process::id().to_string()]))
}

/// Which process started this one, and which server is meant.
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

    /// The command that becomes the server. Its streams are this process's own.
    #[expect(
        clippy::disallowed_methods,
        reason = "the supervisor is the part of the process module that starts servers"
    )]
    fn to_become(&self) -> Option<Command> {
        let mut command = Command::new(this_program()?);
        command.arg(BECOME).arg(std::process::id().to_string()).arg(&self.command).args(&self.args);
        Some(command)
    }

    /// Replaces this process by the server, which the kernel kills when its supervisor is gone. Returns only if that fails.
    #[expect(
        clippy::disallowed_methods,
        reason = "the supervisor is the part of the process module that starts servers"
    )]
    fn become_server(&self) -> ExitCode {
        #[cfg(target_os = "linux")]
        if let Err(error) = rustix::process::set_parent_process_death_signal(Some(Signal::KILL)) {
            write_error(&format!("this server may outlive its supervisor: {error}"));
        }
        // Upholds: the kernel tells only of an end that is still to come.
        if !self.has_parent() {
            return ExitCode::from(NOT_STARTED);
        }
        let error = Command::new(&self.command).args(&self.args).exec();
        write_error(&format!("`{}` could not be started: {error}", self.command.to_string_lossy()));
        ExitCode::from(NOT_STARTED)
    }
}

/// On Linux a name of this program that holds even when its file was replaced by a newer one.
fn this_program() -> Option<PathBuf> {
    let own = PathBuf::from("/proc/self/exe");
    if cfg!(target_os = "linux") && own.exists() { Some(own) } else { std::env::current_exe().ok() }
}

/// Says something on the server's standard error, whose lines the gateway reads.
fn write_error(what: &str) {
    // There is nowhere else to say it.
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
