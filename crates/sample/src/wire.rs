//! The wire: JSON-RPC 2.0 messages, one per line, and the only place where output is written.
//!
//! Responsible for telling requests from notifications and noise, and for keeping lines whole when several threads
//! write. Knows nothing of MCP: `server` and `dialect` decide about methods and eras.

use std::io::{self, BufRead, Read, Write};
use std::sync::{Mutex, PoisonError};

use serde_json::{Map, Value, json};

use crate::SampleError;

/// The longest accepted message; a peer that exceeds it does not speak this protocol.
pub(crate) const LINE_BYTES_MAX: u64 = 16 * 1024 * 1024;

pub(crate) const PARSE_ERROR: i64 = -32700;
pub(crate) const INVALID_REQUEST: i64 = -32600;
pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
pub(crate) const INVALID_PARAMS: i64 = -32602;
pub(crate) const INTERNAL_ERROR: i64 = -32603;

/// One line of input, by what it asks of us.
#[derive(Debug)]
pub(crate) enum IncomingLine {
    Request(SampleRequest),
    Notification(SampleNotification),
    /// Not a message that we can serve; the answer has the id if one could be read.
    Malformed(Option<Value>, SampleRpcError),
    /// An empty line, or an answer to a request we never sent.
    Ignored,
}

#[derive(Debug)]
pub(crate) struct SampleRequest {
    pub(crate) id: Value,
    pub(crate) method: String,
    pub(crate) params: Map<String, Value>,
}

#[derive(Debug)]
pub(crate) struct SampleNotification {
    pub(crate) method: String,
    pub(crate) params: Map<String, Value>,
}

/// A JSON-RPC error object.
#[derive(Debug)]
pub(crate) struct SampleRpcError {
    pub(crate) code: i64,
    pub(crate) message: String,
    pub(crate) data: Option<Value>,
}

impl SampleRpcError {
    pub(crate) fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    pub(crate) fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(INVALID_PARAMS, message)
    }
}

impl IncomingLine {
    pub(crate) fn parse(line: &[u8]) -> Self {
        if line.trim_ascii().is_empty() {
            return Self::Ignored;
        }
        match serde_json::from_slice(line) {
            Ok(Value::Object(message)) => Self::from_object(message),
            Ok(_) => Self::Malformed(None, SampleRpcError::new(INVALID_REQUEST, "a message is one JSON object")),
            Err(_) => Self::Malformed(None, SampleRpcError::new(PARSE_ERROR, "a line is not JSON")),
        }
    }

    fn from_object(mut message: Map<String, Value>) -> Self {
        let id = message.remove("id");
        // The protocol narrows JSON-RPC: an id is a string or an integer, never null.
        let usable_id = id.clone().filter(|id| id.is_string() || id.is_i64() || id.is_u64());
        let malformed = |text: &str| Self::Malformed(usable_id.clone(), SampleRpcError::new(INVALID_REQUEST, text));
        if message.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            return malformed("`jsonrpc` must be \"2.0\"");
        }
        let Some(Value::String(method)) = message.remove("method") else {
            return if message.contains_key("result") || message.contains_key("error") {
                Self::Ignored
            } else {
                malformed("`method` must be a string")
            };
        };
        let params = match message.remove("params") {
            None => Map::new(),
            Some(Value::Object(params)) => params,
            Some(_) => return malformed("`params` must be an object"),
        };
        match (id, usable_id.clone()) {
            (None, _) => Self::Notification(SampleNotification { method, params }),
            (Some(_), Some(id)) => Self::Request(SampleRequest { id, method, params }),
            (Some(_), None) => malformed("`id` must be a string or an integer"),
        }
    }
}

/// Reads one line, or `None` at the end of the input; a last line without a newline still counts.
pub(crate) fn read_line(input: &mut impl BufRead) -> Result<Option<Vec<u8>>, SampleError> {
    let mut line = Vec::new();
    let length = input.by_ref().take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut line).map_err(SampleError::Input)?;
    if length as u64 > LINE_BYTES_MAX {
        return Err(SampleError::LineTooLong { line_bytes_max: LINE_BYTES_MAX });
    }
    Ok((length > 0).then_some(line))
}

/// The server's only output. The thread that holds the lock writes whole lines.
pub(crate) struct SampleOutput {
    writer: Mutex<Box<dyn Write + Send>>,
}

impl SampleOutput {
    pub(crate) fn new(writer: impl Write + Send + 'static) -> Self {
        Self { writer: Mutex::new(Box::new(writer)) }
    }

    pub(crate) fn answer(&self, id: &Value, result: &Value) -> Result<(), SampleError> {
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "result": result }))
    }

    pub(crate) fn refuse(&self, id: Option<&Value>, error: SampleRpcError) -> Result<(), SampleError> {
        let mut message = Map::new();
        message.insert("jsonrpc".into(), "2.0".into());
        if let Some(id) = id {
            message.insert("id".into(), id.clone());
        }
        let mut body = json!({ "code": error.code, "message": error.message });
        if let (Some(data), Some(body)) = (error.data, body.as_object_mut()) {
            body.insert("data".into(), data);
        }
        message.insert("error".into(), body);
        self.send(&Value::Object(message))
    }

    pub(crate) fn notify(&self, method: &str, params: &Value) -> Result<(), SampleError> {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }))
    }

    /// Writes arbitrary bytes, which only the misbehaving tools need.
    pub(crate) fn write_raw(&self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), SampleError> {
        // A panic of ours never leaves a writer in the middle of a line, so a poisoned lock is still usable.
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        write(writer.as_mut()).and_then(|()| writer.flush()).map_err(SampleError::Output)
    }

    fn send(&self, message: &Value) -> Result<(), SampleError> {
        self.write_raw(|writer| writeln!(writer, "{message}"))
    }
}
