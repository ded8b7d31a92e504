//! Tests run whole conversations with `serve`, because the wire is the only promise that this crate makes.

mod contracts;
mod misbehaviour;
mod protocol;
mod schemas;
mod tools;

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::{SampleError, SampleOptions, ServedEras, serve};

const HONEST: SampleOptions = SampleOptions { database: None, misbehaviour: false, era: ServedEras::Both };
const MISBEHAVING: SampleOptions = SampleOptions { misbehaviour: true, ..HONEST };

/// What the server sent until its input ended, or until it stopped.
struct Conversation {
    ended: Result<(), SampleError>,
    lines: Vec<String>,
}

impl Conversation {
    /// All JSON messages, in order.
    fn messages(&self) -> Vec<Value> {
        let messages = self.lines.iter().map(|line| serde_json::from_str(line));
        messages.filter_map(Result::ok).collect()
    }

    /// The one answer to a request.
    fn answer(&self, id: i64) -> Value {
        let mut answers = self.messages();
        answers.retain(|message| message["id"] == id);
        assert_eq!(answers.len(), 1, "answers to {id}: {answers:?}");
        answers.remove(0)
    }

    fn result(&self, id: i64) -> Value {
        let answer = self.answer(id);
        assert!(answer["error"].is_null(), "refused: {answer}");
        answer["result"].clone()
    }

    fn error_code(&self, id: i64) -> i64 {
        self.answer(id)["error"]["code"].as_i64().unwrap()
    }

    fn notifications(&self, method: &str) -> Vec<Value> {
        let mut messages = self.messages();
        messages.retain(|message| message["method"] == method);
        messages
    }
}

#[derive(Clone, Default)]
struct Tape(Arc<Mutex<Vec<u8>>>);

impl Write for Tape {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn converse(options: SampleOptions, messages: &[Value]) -> Conversation {
    let lines: Vec<String> = messages.iter().map(Value::to_string).collect();
    converse_raw(options, &lines.join("\n"))
}

fn converse_raw(options: SampleOptions, input: &str) -> Conversation {
    let tape = Tape::default();
    let ended = serve(options, input.as_bytes(), tape.clone());
    let said = tape.0.lock().unwrap().clone();
    let lines = String::from_utf8(said).unwrap();
    Conversation { ended, lines: lines.lines().map(String::from).collect() }
}

fn legacy(id: i64, method: &str, params: Value) -> Value {
    let mut request = json!({ "jsonrpc": "2.0", "id": id, "method": method });
    request["params"] = params;
    request
}

fn modern(id: i64, method: &str, mut params: Value) -> Value {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    legacy(id, method, params)
}

/// The handshake, as request 0.
fn initialize() -> Value {
    let client = json!({ "name": "test", "version": "1" });
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
    legacy(0, "initialize", params)
}

fn call(id: i64, tool: &str, arguments: Value) -> Value {
    let mut params = json!({ "name": tool });
    params["arguments"] = arguments;
    modern(id, "tools/call", params)
}
