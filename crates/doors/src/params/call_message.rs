//! Reads an ordinary `tools/call` in one pass: envelope, parameters and `_meta` together.
//!
//! Only for ordinary messages. Any other is read in steps, which find out what is wrong with it and report it in one
//! place.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize,
    de::{Deserializer, Error as _, IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;
use servanda_mcp::{Id, fields::method};

use super::{Meta, ParamText, Params};

/// A call's message.
#[derive(Debug)]
pub(crate) struct CallMessage<'a> {
    pub(crate) id: Id,
    pub(crate) params: Params<'a>,
    pub(crate) meta: Meta<'a>,
}

/// The envelope of a request. Any further member makes a message unusual.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallEnvelope<'a> {
    #[serde(borrow)]
    jsonrpc: Cow<'a, str>,
    id: Id,
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow)]
    params: CallParams<'a>,
}

struct CallParams<'a> {
    params: Params<'a>,
    meta: Option<Meta<'a>>,
}

impl<'a> CallMessage<'a> {
    /// Reads a call; `None` if it is anything else, or unusual.
    pub(crate) fn read(bytes: &'a [u8]) -> Option<Self> {
        // Serde would also read an array, member by member.
        if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
            return None;
        }
        let CallEnvelope { jsonrpc, id, method, params } = serde_json::from_slice(bytes).ok()?;
        if jsonrpc != "2.0" || method != method::TOOLS_CALL {
            return None;
        }
        Some(Self { id, params: params.params, meta: params.meta.unwrap_or_default() })
    }
}

impl<'a> Params<'a> {
    /// The field for a member that a call may have.
    fn call_slot(&mut self, name: &str) -> Option<&mut Option<&'a RawValue>> {
        Some(match name {
            "name" => &mut self.name,
            "arguments" => &mut self.arguments,
            "task" => &mut self.task,
            "inputResponses" => &mut self.input_responses,
            "requestState" => &mut self.request_state,
            _ => return None,
        })
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for CallParams<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct CallParamsVisitor;
        impl<'de> Visitor<'de> for CallParamsVisitor {
            type Value = CallParams<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut read = CallParams { params: Params::default(), meta: None };
                while let Some(ParamText(name)) = map.next_key::<ParamText<'de>>()? {
                    let is_second = if name == "_meta" {
                        read.meta.replace(map.next_value::<Meta<'de>>()?).is_some()
                    } else if let Some(place) = read.params.call_slot(&name) {
                        place.replace(map.next_value::<&'de RawValue>()?).is_some()
                    } else if super::is_known(&name) {
                        // A call does not use this member; reading in steps finds out whether it is duplicate.
                        return Err(A::Error::custom("an unusual member"));
                    } else {
                        map.next_value::<IgnoredAny>()?;
                        false
                    };
                    if is_second {
                        return Err(A::Error::custom("a member appears twice"));
                    }
                }
                Ok(read)
            }
        }
        deserializer.deserialize_map(CallParamsVisitor)
    }
}

#[cfg(test)]
mod tests {
    use servanda_mcp::Message;

    use super::*;

    /// The result of reading in steps.
    fn in_steps(text: &str) -> Option<String> {
        let Ok(Message::Request { id, method, params }) = Message::parse(text.as_bytes()) else { return None };
        let params = Params::parse(params).ok()?;
        let meta = params.meta().ok()?;
        let params = Params { meta: None, whole: None, ..params };
        (method == method::TOOLS_CALL).then(|| format!("{id:?} {params:?} {meta:?}"))
    }

    fn in_one_pass(text: &str) -> Option<String> {
        let CallMessage { id, params, meta } = CallMessage::read(text.as_bytes())?;
        Some(format!("{id:?} {params:?} {meta:?}"))
    }

    #[test]
    fn one_pass_reads_what_steps_read() {
        for text in [
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"x":[1,{}]}}}"#,
            r#" {"params":{"_meta":{"progressToken":1,"x":{"y":1.0}},"arguments":null,"name":"\u0061"},"method":"tools/call","id":"i","jsonrpc":"2.0"} "#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools\/call","params":{"\u006eame":"a","other":1,"other":2,"task":{},"inputResponses":{},"requestState":"s"}}"#,
            r#"{"jsonrpc":"2.0","id":-3,"method":"tools/call","params":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","servanda/chain":"c","servanda/unknown":1}}}"#,
        ] {
            assert!(in_steps(text).is_some(), "{text}");
            assert_eq!(in_one_pass(text), in_steps(text), "{text}");
        }
    }

    #[test]
    fn unusual_messages_are_left_to_reading_in_steps() {
        for text in [
            "",
            "[]",
            r#"["2.0",1,"tools/call",{}]"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#,
            r#"{"jsonrpc":"2.0","id":null,"method":"tools/call","params":{}}"#,
            r#"{"jsonrpc":"2.0","id":1.5,"method":"tools/call","params":{}}"#,
            r#"{"jsonrpc":"2.0","method":"tools/call","params":{}}"#,
            r#"{"jsonrpc":"1.0","id":1,"method":"tools/call","params":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{},"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"id":1,"method":"tools/call","params":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","name":"b"}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","\u006eame":"b"}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{},"_meta":{}}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":[]}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"x":1,"x":2}}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"uri":"a","uri":"b"}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}} {}"#,
        ] {
            assert!(CallMessage::read(text.as_bytes()).is_none(), "{text}");
        }
    }
}
