//! Writes messages as bytes. Parameters and results are inserted unchanged: the bytes that were judged are the bytes
//! that are sent.

use std::{io::Write as _, ops::Range};

use serde::Serialize;

use super::{Id, RpcError};
use crate::{fields::method, lines::push_on_one_line};

/// A request that is being written, without intermediate strings. Everything inserted is put on one line.
#[derive(Debug)]
pub struct RequestBody {
    bytes: Vec<u8>,
    first: bool,
}

impl RequestBody {
    /// Begins a request. `bytes_expected` is the size of the members to come.
    pub fn new(id: i64, method: &str, bytes_expected: usize) -> Self {
        let mut bytes = Vec::with_capacity(method.len() + bytes_expected + 512);
        bytes.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
        // Writing into memory does not fail, here and below.
        let _ = write!(bytes, "{id}");
        bytes.extend_from_slice(br#","method":"#);
        let _ = serde_json::to_writer(&mut bytes, method);
        bytes.extend_from_slice(br#","params":{"#);
        Self { bytes, first: true }
    }

    /// Adds a member of `params` and returns its range. `json` must be JSON.
    pub fn add(&mut self, name: &str, json: &[u8]) -> Range<usize> {
        let start = self.begin(name);
        push_on_one_line(&mut self.bytes, json);
        start..self.bytes.len()
    }

    /// The same with a string.
    pub fn add_text(&mut self, name: &str, text: &str) -> Range<usize> {
        let start = self.begin(name);
        let _ = serde_json::to_writer(&mut self.bytes, text);
        start..self.bytes.len()
    }

    fn begin(&mut self, name: &str) -> usize {
        if !std::mem::take(&mut self.first) {
            self.bytes.push(b',');
        }
        let _ = serde_json::to_writer(&mut self.bytes, name);
        self.bytes.push(b':');
        self.bytes.len()
    }

    /// Adds `_meta`, if there is any, and ends the request.
    pub fn finish(mut self, meta: Option<&str>) -> Vec<u8> {
        if let Some(meta) = meta {
            self.add("_meta", meta.as_bytes());
        }
        self.bytes.extend_from_slice(b"}}");
        self.bytes
    }
}

/// The bytes of a request. `params` must be JSON.
pub fn request(id: &Id, method: &str, params: Option<&str>) -> Vec<u8> {
    let (id, method) = (to_json(id), to_json(method));
    close([r#"{"jsonrpc":"2.0","id":"#, &id, r#","method":"#, &method].concat(), params)
}

/// The bytes of a notification. `params` must be JSON.
pub fn notification(method: &str, params: Option<&str>) -> Vec<u8> {
    let method = to_json(method);
    close([r#"{"jsonrpc":"2.0","method":"#, &method].concat(), params)
}

/// The notification that a request of ours needs no answer any more.
pub fn cancelled(id: &Id, reason: Option<&str>) -> Vec<u8> {
    let reason = reason.map_or_else(String::new, |reason| format!(r#","reason":{}"#, to_json(reason)));
    notification(method::CANCELLED, Some(&format!(r#"{{"requestId":{}{reason}}}"#, to_json(id))))
}

/// The bytes of an answer. `result` must be JSON.
pub fn response(id: &Id, result: &str) -> Vec<u8> {
    let id = to_json(id);
    [r#"{"jsonrpc":"2.0","id":"#, &id, r#","result":"#, result, "}"].concat().into_bytes()
}

/// The bytes of a failure. It has no id if the request's id could not be read: the protocol's schemas forbid a null id.
pub fn failure(id: Option<&Id>, error: &RpcError) -> Vec<u8> {
    let id = id.map_or_else(String::new, |id| format!(r#""id":{},"#, to_json(id)));
    format!(r#"{{"jsonrpc":"2.0",{id}"error":{}}}"#, to_json(error)).into_bytes()
}

/// Messages as one JSON array.
pub fn batch(messages: &[Vec<u8>]) -> Vec<u8> {
    [b"[".as_slice(), &messages.join(b",".as_slice()), b"]"].concat()
}

/// Serializes a value that always has a JSON form: our own ids, names and error objects.
pub fn to_json<T: Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned())
}

fn close(mut opening: String, params: Option<&str>) -> Vec<u8> {
    if let Some(params) = params {
        opening.extend([r#","params":"#, params]);
    }
    opening.push('}');
    opening.into_bytes()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Message;

    fn check(bytes: &[u8], expected: &str) {
        assert_eq!(std::str::from_utf8(bytes).unwrap(), expected);
        serde_json::from_slice::<serde_json::Value>(bytes).unwrap();
    }

    #[test]
    fn members_are_spliced_in_as_they_are_but_on_one_line() {
        let mut body = RequestBody::new(7, "tools/call", 0);
        body.add_text("name", "a \"b\"\n");
        body.add("arguments", b"{\"a\":12345678901234567890123,\r\n\"b\":1.0}");
        check(
            &body.finish(Some(r#"{"x":1}"#)),
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"a \"b\"\n","arguments":{"a":12345678901234567890123,  "b":1.0},"_meta":{"x":1}}}"#,
        );
        check(
            &RequestBody::new(1, "tools/list", 0).finish(None),
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#,
        );
    }

    #[test]
    fn parameters_and_reasons_may_be_missing() {
        check(&request(&Id::Number(1), "m", None), r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#);
        check(&notification("m", None), r#"{"jsonrpc":"2.0","method":"m"}"#);
        check(
            &cancelled(&Id::Number(3), Some("the deadline passed")),
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3,"reason":"the deadline passed"}}"#,
        );
        check(
            &cancelled(&Id::Text("a".to_owned()), None),
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}}"#,
        );
        check(&batch(&[b"1".to_vec(), b"{}".to_vec()]), "[1,{}]");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(number: i64, text: String, method: String, params: bool) {
            let params = if params { "{}" } else { "[1]" };
            for id in [Id::Number(number), Id::Text(text.clone())] {
                let bytes = request(&id, &method, Some(params));
                let Ok(Message::Request { id: read, method: read_method, params: read_params }) = Message::parse(&bytes) else {
                    panic!("not a request");
                };
                prop_assert_eq!((&read, read_method.as_ref(), read_params.unwrap().get()), (&id, method.as_str(), params));
                let answer = response(&id, "{}");
                let answered = matches!(Message::parse(&answer), Ok(Message::Response { id: read, .. }) if read == id);
                prop_assert!(answered);
                let failed = failure(Some(&id), &RpcError::new(-32603, text.clone()));
                let failed = matches!(Message::parse(&failed), Ok(Message::Failure { id: Some(read), .. }) if read == id);
                prop_assert!(failed);
            }
            let bytes = notification(&method, Some(params));
            let read_back = matches!(Message::parse(&bytes), Ok(Message::Notification { .. }));
            prop_assert!(read_back);
        }
    }
}
