//! A door on pipes, and the other ends of them.

use std::sync::Arc;

use serde_json::Value;
use servanda_doors::{StdioOptions, stdio};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines},
    sync::mpsc,
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use crate::{
    fixture::{Fixture, Started, fixture, identity, within},
    schema::{self, Era},
};

pub(crate) struct Pipe {
    pub(crate) fixture: Arc<Fixture>,
    pub(crate) started: mpsc::Receiver<Started>,
    pub(crate) shutdown: CancellationToken,
    pub(crate) task: JoinHandle<std::io::Result<()>>,
    /// `None` once it is closed.
    pub(crate) input: Option<DuplexStream>,
    pub(crate) output: Option<Lines<BufReader<DuplexStream>>>,
}

impl Pipe {
    pub(crate) fn open() -> Self {
        Self::open_with(|_| {})
    }

    pub(crate) fn open_with(adjust: impl FnOnce(&mut StdioOptions)) -> Self {
        let (fixture, started) = fixture();
        let mut options = StdioOptions::new(identity());
        adjust(&mut options);
        let (input, door_input) = tokio::io::duplex(1024);
        let (door_output, output) = tokio::io::duplex(1024);
        let shutdown = CancellationToken::new();
        let door = stdio::serve(Arc::clone(&fixture), options, door_input, door_output, shutdown.clone());
        let output = Some(BufReader::new(output).lines());
        Self { fixture, started, shutdown, task: tokio::spawn(door), input: Some(input), output }
    }

    pub(crate) async fn write(&mut self, line: &str) {
        let input = self.input.as_mut().expect("open");
        within(input.write_all(format!("{line}\n").as_bytes())).await.unwrap();
    }

    pub(crate) async fn send(&mut self, message: &Value) {
        self.write(&message.to_string()).await;
    }

    /// The next message, or `None` at the end. `method` is that of the request it may answer.
    pub(crate) async fn read(&mut self, era: Era, method: &str) -> Option<Value> {
        let line = within(self.output.as_mut().expect("open").next_line()).await.unwrap()?;
        let message = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        schema::check(era, method, &message);
        Some(message)
    }

    pub(crate) async fn ask(&mut self, era: Era, message: &Value) -> Value {
        self.send(message).await;
        self.read(era, message["method"].as_str().unwrap()).await.unwrap()
    }

    pub(crate) async fn started(&mut self) -> Started {
        within(self.started.recv()).await.unwrap()
    }
}
