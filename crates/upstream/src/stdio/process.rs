//! Child processes: the only place that starts one, and the place that makes sure it ends, with everything it started. If this program can
//! be a [`supervisor`], a server is the supervisor's child. Otherwise it is the gateway's own child, and only its process group is known.
//!
//! This module does not know what is said on the pipes.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt as _,
    path::Path,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use servanda_authority::Secret;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

use super::executable;
use crate::{shared::end_pace::EndPace, supervisor};

/// The environment variables that every child inherits. Any other has to be named in the configuration.
const BASELINE: [&str; 11] =
    ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TERM", "TMPDIR", "TZ"];
/// How long a supervisor may take to kill everything before it is killed itself.
const KILL_MS_MAX: u64 = 1_000;

/// The program to start. Borrowed from the configuration.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServerProgram<'a> {
    pub(crate) command: &'a str,
    pub(crate) args: &'a [String],
    pub(crate) env: &'a BTreeMap<String, String>,
    pub(crate) env_pass: &'a [String],
    /// Environment variables with credentials.
    pub(crate) credentials: &'a [(String, Secret)],
    pub(crate) cwd: Option<&'a Path>,
}

/// A running child, the leader of a process group: the server, or its supervisor.
#[derive(Debug)]
pub(crate) struct ServerProcess {
    child: Child,
    leader: Option<Pid>,
    supervised: bool,
}

/// The child's standard streams.
#[derive(Debug)]
pub(crate) struct ChildPipes {
    pub(crate) input: ChildStdin,
    pub(crate) output: ChildStdout,
    pub(crate) errors: ChildStderr,
}

impl ServerProcess {
    /// Starts a program in a process group of its own.
    pub(crate) fn start(program: ServerProgram<'_>) -> Result<(Self, ChildPipes), String> {
        let environment = environment(program, |name| std::env::var_os(name));
        let not_started = |error| format!("`{}` could not be started: {error}", program.command);
        let prefix = supervisor::prefix();
        let supervised = prefix.is_some();
        #[expect(clippy::disallowed_methods, reason = "this module is where children are started")]
        let mut command = match prefix {
            Some((supervisor, role)) => {
                // Checked now, because the supervisor would find out only after the caller stopped waiting for it.
                executable::find(program.command, environment.get(OsStr::new("PATH")), program.cwd)
                    .map_err(not_started)?;
                let mut command = Command::new(supervisor);
                command.arg0("servanda").args(role).arg(program.command);
                command
            }
            None => Command::new(program.command),
        };
        command
            .args(program.args)
            .env_clear()
            .envs(environment)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            // The last resort, for a runtime that is torn down. A supervisor knows by itself what to do then.
            .kill_on_drop(!supervised);
        if let Some(cwd) = program.cwd {
            command.current_dir(cwd);
        }
        let mut child = command.spawn().map_err(not_started)?;
        let leader = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        match (child.stdin.take(), child.stdout.take(), child.stderr.take()) {
            (Some(input), Some(output), Some(errors)) => {
                Ok((Self { child, leader, supervised }, ChildPipes { input, output, errors }))
            }
            _ => Err(format!("`{}` was started without its pipes", program.command)),
        }
    }

    /// Waits until the child has ended by itself, then ends what it left behind. Cancel safe.
    pub(crate) async fn ended(&mut self) -> String {
        let status = self.child.wait().await;
        // The child is reaped, but the kernel keeps its group's id while a member lives; without members the signal reaches no process.
        self.signal_group(Signal::KILL);
        describe(status.ok())
    }

    /// Ends the child, whose input must be closed already: waits, asks, kills, at the given pace.
    pub(crate) async fn end(&mut self, pace: &EndPace) -> String {
        if let Some(ended) = pace.step(self.ended()).await {
            return ended;
        }
        if !pace.is_hurried() {
            self.terminate();
        }
        if let Some(ended) = pace.step(self.ended()).await {
            return ended;
        }
        self.kill().await
    }

    /// Asks the server, and everything it started, to end.
    fn terminate(&self) {
        if self.supervised { self.signal_leader(Signal::TERM) } else { self.signal_group(Signal::TERM) }
    }

    /// Kills the server and everything it started.
    async fn kill(&mut self) -> String {
        if self.supervised {
            self.signal_leader(supervisor::KILL_ALL);
            if let Ok(ended) = tokio::time::timeout(Duration::from_millis(KILL_MS_MAX), self.ended()).await {
                return ended;
            }
        }
        self.signal_group(Signal::KILL);
        // Not bounded by time: a killed process ends, and returning now would leave a zombie.
        self.ended().await
    }

    fn signal_leader(&self, signal: Signal) {
        // Only before it is reaped: afterwards another process may have its id.
        if self.child.id().is_some() {
            send_signal(self.leader, signal, kill_process);
        }
    }

    fn signal_group(&self, signal: Signal) {
        send_signal(self.leader, signal, kill_process_group);
    }
}

fn send_signal(whom: Option<Pid>, signal: Signal, send: impl Fn(Pid, Signal) -> rustix::io::Result<()>) {
    if let Some(whom) = whom
        && let Err(error) = send(whom, signal)
        && error != rustix::io::Errno::SRCH
    {
        tracing::debug!(%error, "a process could not be signalled");
    }
}

/// The whole environment of a child: the baseline, what is passed on, what is set, the credentials; a later value overrides an earlier one.
fn environment(program: ServerProgram<'_>, ours: impl Fn(&str) -> Option<OsString>) -> BTreeMap<OsString, OsString> {
    let inherited: BTreeSet<&str> = BASELINE.into_iter().chain(program.env_pass.iter().map(String::as_str)).collect();
    let inherited = inherited.into_iter().filter_map(|name| Some((name.into(), ours(name)?)));
    let set = program.env.iter().map(|(name, value)| (name.into(), value.into()));
    let shown =
        program.credentials.iter().map(|(name, value)| (name.into(), OsStr::from_bytes(value.expose()).to_owned()));
    inherited.chain(set).chain(shown).collect()
}

fn describe(status: Option<ExitStatus>) -> String {
    status.map_or_else(|| "it ended".to_owned(), |status| format!("it ended with {status}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_named_variables_are_inherited() {
        let ours = |name: &str| match name {
            "PATH" => Some("/bin".into()),
            "HOME" => Some("/home/x".into()),
            "GITHUB_TOKEN" => Some("token".into()),
            "AWS_SECRET_ACCESS_KEY" => Some("secret".into()),
            _ => None,
        };
        let env = BTreeMap::from([("HOME".to_owned(), "/elsewhere".to_owned()), ("MODE".to_owned(), "x".to_owned())]);
        let env_pass = ["GITHUB_TOKEN".to_owned(), "UNSET".to_owned()];
        let shown = [("MODE".to_owned(), Secret::from("y".to_owned()))];
        let program =
            ServerProgram { command: "x", args: &[], env: &env, env_pass: &env_pass, credentials: &shown, cwd: None };
        let expected: BTreeMap<OsString, OsString> =
            [("GITHUB_TOKEN", "token"), ("HOME", "/elsewhere"), ("MODE", "y"), ("PATH", "/bin")]
                .map(|(name, value)| (name.into(), value.into()))
                .into();
        assert_eq!(environment(program, ours), expected);
    }

    #[tokio::test]
    async fn what_cannot_be_started_says_so() {
        let env = BTreeMap::new();
        let program = ServerProgram {
            command: "/nonexistent/server",
            args: &[],
            env: &env,
            env_pass: &[],
            credentials: &[],
            cwd: None,
        };
        let why = ServerProcess::start(program).unwrap_err();
        assert!(why.starts_with("`/nonexistent/server` could not be started: "), "{why}");
    }
}
