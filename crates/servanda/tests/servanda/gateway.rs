//! `servanda serve` as a running process.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::{
    agent::Agent,
    sightings::saw,
    world::{World, until, wait_for},
};

/// A listening gateway. At the end of the test it is told to stop and must do so cleanly.
pub(crate) struct Gateway {
    pub(crate) address: SocketAddr,
    child: Child,
    said: Arc<Mutex<String>>,
    listener: JoinHandle<()>,
    ended: bool,
}

impl World {
    /// Starts the gateway of this world.
    pub(crate) fn serve(&self) -> Gateway {
        self.serve_at("127.0.0.1:0")
    }

    /// The same at an address.
    pub(crate) fn serve_at(&self, address: &str) -> Gateway {
        self.start(address, &[], &[])
    }

    /// The same with more on its command line and in its environment.
    pub(crate) fn serve_with(&self, args: &[&str], env: &[(&str, &str)]) -> Gateway {
        self.start("127.0.0.1:0", args, env)
    }

    fn start(&self, address: &str, args: &[&str], env: &[(&str, &str)]) -> Gateway {
        let config = self.path("servanda.yaml").display().to_string();
        let mut command = self.command(&["serve", "--config", &config, "--listen", address]);
        command.args(args).envs(env.iter().copied());
        Gateway::begin(command)
    }
}

impl Gateway {
    /// Starts one with a command, and waits until it listens.
    pub(crate) fn begin(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let said = Arc::new(Mutex::new(String::new()));
        let (stderr, heard) = (child.stderr.take().unwrap(), said.clone());
        let listener = thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
                heard.push_str(&line);
                heard.push('\n');
            }
        });
        let address = until("the gateway to be ready", || {
            assert!(child.try_wait().unwrap().is_none(), "it ended: {}", said.lock().unwrap());
            let said = said.lock().unwrap();
            saw("the gateway's log", &said);
            let (_, rest) = said.split_once("ready at http://")?;
            rest.split_once("/mcp")?.0.parse().ok()
        });
        Self { address, child, said, listener, ended: false }
    }

    /// Its process.
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// A client of the legacy era with its own session.
    pub(crate) fn legacy(&self) -> Agent {
        Agent::legacy(self.address)
    }

    /// A legacy client with capabilities, so that servers can ask it questions.
    pub(crate) fn able(&self, capabilities: &serde_json::Value) -> Agent {
        Agent::able(self.address, capabilities)
    }

    /// A client of the modern era.
    pub(crate) fn modern(&self) -> Agent {
        Agent::modern(self.address)
    }

    /// Stops it and returns everything that it wrote to stderr.
    pub(crate) fn into_said(mut self) -> String {
        self.wait();
        self.ended = true;
        self.said()
    }

    /// What it has written to stderr so far.
    pub(crate) fn said(&self) -> String {
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner).clone();
        saw("the gateway's log", &said);
        said
    }

    /// Its peak memory in kibibytes.
    pub(crate) fn memory_kib_max(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// The kernel's limit for the size of its core file.
    pub(crate) fn core_file_bytes_max(&self) -> String {
        let limits = fs::read_to_string(format!("/proc/{}/limits", self.child.id())).unwrap();
        let line = limits.lines().find_map(|line| line.strip_prefix("Max core file size")).unwrap();
        line.split_whitespace().next().unwrap().to_owned()
    }

    /// Asks it to stop, without waiting.
    pub(crate) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Kills it, as a power cut would.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.ended = true;
    }

    /// Waits until it has ended and its output is read; returns its exit code.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        self.ended = true;
        let code = wait_for(&mut self.child);
        until("its last words", || self.listener.is_finished().then_some(()));
        code
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        if thread::panicking() {
            eprintln!("the gateway said:\n{}", self.said());
            let _ = self.child.kill();
            let _ = self.child.wait();
            return;
        }
        self.terminate();
        assert_eq!(self.wait(), Some(0), "{}", self.said());
    }
}
