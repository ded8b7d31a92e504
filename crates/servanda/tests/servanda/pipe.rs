//! `servanda stdio` as a running process, and the client at the other end of its pipes.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc,
    thread,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::{
    agent::{Reply, initialize, modern_meta},
    world::{PATIENCE, World, read_aside, wait_for},
};

/// A connection. At the end of the test its input is closed and the process must end cleanly.
pub(crate) struct Pipe {
    child: Child,
    input: Option<ChildStdin>,
    lines: mpsc::Receiver<String>,
    stderr: Option<thread::JoinHandle<String>>,
}

impl World {
    /// Starts the gateway on pipes.
    pub(crate) fn stdio(&self) -> Pipe {
        let config = self.path("servanda.yaml").display().to_string();
        self.pipe(self.command(&["stdio", "--config", &config]))
    }

    /// Starts any command on pipes.
    #[expect(clippy::unused_self, reason = "the world sees to it that nothing started in it is left")]
    pub(crate) fn pipe(&self, mut command: Command) -> Pipe {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = mpsc::sync_channel(1000);
        let stdout = child.stdout.take().unwrap();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let stderr = Some(read_aside(child.stderr.take().unwrap()));
        Pipe { input: child.stdin.take(), child, lines, stderr }
    }
}

impl Pipe {
    /// Writes these bytes in one write.
    pub(crate) fn write(&mut self, bytes: impl AsRef<[u8]>) {
        let input = self.input.as_mut().expect("the input is open");
        input.write_all(bytes.as_ref()).unwrap();
        input.flush().unwrap();
    }

    /// Writes one message.
    pub(crate) fn send(&mut self, message: &Value) {
        self.write(format!("{message}\n"));
    }

    /// The next message.
    #[track_caller]
    pub(crate) fn read(&self) -> Reply {
        Reply::of(self.lines.recv_timeout(PATIENCE).expect("a message"))
    }

    /// Sends a request and reads its answer.
    #[track_caller]
    pub(crate) fn ask(&mut self, message: &Value) -> Reply {
        self.send(message);
        let reply = self.read();
        assert_eq!(reply.message["id"], message["id"], "{}", reply.raw);
        reply
    }

    /// The legacy handshake.
    pub(crate) fn shake_hands(&mut self) {
        assert_eq!(self.ask(&initialize("hello")).result()["protocolVersion"], "2025-11-25");
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    }

    pub(crate) fn terminate(&self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
    }

    /// Ends the input.
    pub(crate) fn close(&mut self) {
        self.input = None;
    }

    /// Waits for the end: returns the exit code, the remaining output, and stderr.
    pub(crate) fn wait(mut self) -> (Option<i32>, Vec<String>, String) {
        let code = wait_for(&mut self.child);
        let rest = self.lines.iter().collect();
        let stderr = self.stderr.take().map(|stderr| stderr.join().unwrap());
        (code, rest, stderr.unwrap_or_default())
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.input = None;
        if thread::panicking() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        } else {
            assert_eq!(wait_for(&mut self.child), Some(0));
        }
    }
}

/// A request of the legacy era.
pub(crate) fn legacy(id: impl Into<Value>, method: &str, params: impl Into<Value>) -> Value {
    json!({ "jsonrpc": "2.0", "id": id.into(), "method": method, "params": params.into() })
}

/// A request of the modern era.
pub(crate) fn modern(id: impl Into<Value>, method: &str, mut params: Value) -> Value {
    params["_meta"] = modern_meta(params["_meta"].take());
    legacy(id, method, params)
}
