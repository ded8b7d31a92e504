//! Child processes: the only place that starts one, and the place that makes sure it ends, with everything it started.
//!
//! What is said on the pipes is not known here.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt as _,
    path::Path,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group};
use servanda_authority::Secret;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio_util::sync::CancellationToken;

/// What every child may know of our environment. Everything else has to be named in the configuration.
const BASELINE: [&str; 11] =
    ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TERM", "TMPDIR", "TZ"];
/// How long a child may take to end after its input was closed, and again after it was asked to.
const END_MS_MAX: u64 = 2_000;

/// What is started. Borrowed from the configuration.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Program<'a> {
    pub(crate) command: &'a str,
    pub(crate) args: &'a [String],
    pub(crate) env: &'a BTreeMap<String, String>,
    pub(crate) env_pass: &'a [String],
    /// Variables with what it is shown.
    pub(crate) shown: &'a [(String, Secret)],
    pub(crate) cwd: Option<&'a Path>,
}

/// A running child and the process group it leads.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    group: Option<Pid>,
}

/// The child's standard streams.
#[derive(Debug)]
pub(crate) struct Pipes {
    pub(crate) input: ChildStdin,
    pub(crate) output: ChildStdout,
    pub(crate) errors: ChildStderr,
}

impl Process {
    /// Starts a program in a process group of its own.
    pub(crate) fn start(program: Program<'_>) -> Result<(Self, Pipes), String> {
        #[expect(clippy::disallowed_methods, reason = "this module is where children are started")]
        let mut command = Command::new(program.command);
        command
            .args(program.args)
            .env_clear()
            .envs(environment(program, |name| std::env::var_os(name)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            // The last resort, for a runtime that is torn down under us.
            .kill_on_drop(true);
        if let Some(cwd) = program.cwd {
            command.current_dir(cwd);
        }
        let mut child =
            command.spawn().map_err(|error| format!("`{}` could not be started: {error}", program.command))?;
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        match (child.stdin.take(), child.stdout.take(), child.stderr.take()) {
            (Some(input), Some(output), Some(errors)) => Ok((Self { child, group }, Pipes { input, output, errors })),
            _ => Err(format!("`{}` was started without its pipes", program.command)),
        }
    }

    /// Waits until the child has ended by itself, then ends what it left behind. Cancel safe.
    pub(crate) async fn ended(&mut self) -> String {
        let status = self.child.wait().await;
        // The child is reaped, but its group's id is not given away while a member lives; without one there is nobody.
        self.signal_group(Signal::KILL);
        describe(status.ok())
    }

    /// Ends the child, whose input must be closed already: waits, asks, kills; or kills at once, in a hurry.
    pub(crate) async fn end(&mut self, hurry: &CancellationToken) -> String {
        if let Some(ended) = self.ended_soon(hurry).await {
            return ended;
        }
        if !hurry.is_cancelled() {
            self.signal_group(Signal::TERM);
        }
        if let Some(ended) = self.ended_soon(hurry).await {
            return ended;
        }
        self.signal_group(Signal::KILL);
        // Not bounded by time: a killed process ends, and leaving now would leave a zombie.
        self.ended().await
    }

    async fn ended_soon(&mut self, hurry: &CancellationToken) -> Option<String> {
        tokio::select! {
            biased;
            () = hurry.cancelled() => None,
            ended = tokio::time::timeout(Duration::from_millis(END_MS_MAX), self.ended()) => ended.ok(),
        }
    }

    fn signal_group(&self, signal: Signal) {
        if let Some(group) = self.group
            && let Err(error) = kill_process_group(group, signal)
            && error != rustix::io::Errno::SRCH
        {
            tracing::debug!(%error, "a process group could not be signalled");
        }
    }
}

/// The whole environment of a child: the baseline, what is passed on, what is set, what it is shown; the later wins.
fn environment(program: Program<'_>, ours: impl Fn(&str) -> Option<OsString>) -> BTreeMap<OsString, OsString> {
    let inherited: BTreeSet<&str> = BASELINE.into_iter().chain(program.env_pass.iter().map(String::as_str)).collect();
    let inherited = inherited.into_iter().filter_map(|name| Some((name.into(), ours(name)?)));
    let set = program.env.iter().map(|(name, value)| (name.into(), value.into()));
    let shown = program.shown.iter().map(|(name, value)| (name.into(), OsStr::from_bytes(value.expose()).to_owned()));
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
        let program = Program { command: "x", args: &[], env: &env, env_pass: &env_pass, shown: &shown, cwd: None };
        let expected: BTreeMap<OsString, OsString> =
            [("GITHUB_TOKEN", "token"), ("HOME", "/elsewhere"), ("MODE", "y"), ("PATH", "/bin")]
                .map(|(name, value)| (name.into(), value.into()))
                .into();
        assert_eq!(environment(program, ours), expected);
    }

    #[tokio::test]
    async fn what_cannot_be_started_says_so() {
        let env = BTreeMap::new();
        let program =
            Program { command: "/nonexistent/server", args: &[], env: &env, env_pass: &[], shown: &[], cwd: None };
        let why = Process::start(program).unwrap_err();
        assert!(why.starts_with("`/nonexistent/server` could not be started: "), "{why}");
    }
}
