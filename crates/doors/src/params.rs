//! The members of `params` that any method needs, each still raw.
//!
//! One struct for every method, so that one parse finds both the era and the parameters. A duplicate member is refused:
//! the bytes that are judged and the bytes that are passed on must be the same. Members not named here are not read,
//! only passed on if the method's parameters are for a server.

mod call_message;

use std::borrow::Cow;

use serde::{
    Deserialize,
    de::{Deserializer, MapAccess, Visitor},
};
use serde_json::value::RawValue;
use servanda_engine::{Aims, AnswerDetail, OperationKeys};
use servanda_mcp::{Id, LogLevel, RawObject, fields::meta};

pub(crate) use self::call_message::CallMessage;
use crate::fault::ProtocolFault;

/// The longest chain name, which becomes a key.
const CHAIN_BYTES_MAX: usize = 256;
/// A W3C `traceparent` has 55; later versions may have more.
const TRACE_PARENT_BYTES_MAX: usize = 128;
/// Members of `_meta` that are passed on.
const OTHERS_MAX: usize = 64;
/// The prefix of our own members' names, including unknown ones: they are never passed on to a server.
const OURS: &str = "servanda/";

/// What stands in `params`.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Params<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    pub(crate) name: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub(crate) arguments: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub(crate) uri: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present", rename = "taskId")]
    pub(crate) task_id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub(crate) task: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub(crate) level: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub(crate) cursor: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub(crate) notifications: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present", rename = "requestId")]
    pub(crate) request_id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present", rename = "protocolVersion")]
    pub(crate) protocol_version: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub(crate) capabilities: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present", rename = "clientInfo")]
    pub(crate) client_info: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present", rename = "inputResponses")]
    pub(crate) input_responses: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present", rename = "requestState")]
    pub(crate) request_state: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present", rename = "_meta")]
    meta: Option<&'a RawValue>,
    /// The whole object, to be passed on.
    #[serde(skip)]
    whole: Option<&'a RawValue>,
}

/// What `params._meta` contains. No member is duplicate.
#[derive(Debug, Default)]
pub(crate) struct Meta<'a> {
    pub(crate) protocol_version: Option<&'a RawValue>,
    pub(crate) client_capabilities: Option<&'a RawValue>,
    pub(crate) client_info: Option<&'a RawValue>,
    log_level: Option<&'a RawValue>,
    progress_token: Option<&'a RawValue>,
    traceparent: Option<&'a RawValue>,
    caller_wait_ms: Option<&'a RawValue>,
    chain: Option<&'a RawValue>,
    detail: Option<&'a RawValue>,
    dry_run: Option<&'a RawValue>,
    idempotency_key: Option<&'a RawValue>,
    operation_id: Option<&'a RawValue>,
    step_id: Option<&'a RawValue>,
    workflow_id: Option<&'a RawValue>,
    run_id: Option<&'a RawValue>,
    task: Option<&'a RawValue>,
    intent: Option<&'a RawValue>,
    like: Option<&'a RawValue>,
    /// The members that mean nothing to the gateway, in order.
    others: Vec<(Cow<'a, str>, &'a RawValue)>,
}

/// Whether any method has a member of that name in `params`.
fn is_known(name: &str) -> bool {
    const NAMES: [&str; 15] = [
        "name",
        "arguments",
        "uri",
        "taskId",
        "task",
        "level",
        "cursor",
        "notifications",
        "requestId",
        "protocolVersion",
        "capabilities",
        "clientInfo",
        "inputResponses",
        "requestState",
        "_meta",
    ];
    NAMES.contains(&name)
}

/// Distinguishes `null` from absence, which `Option` alone would not.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

impl<'a> Params<'a> {
    pub(crate) fn parse(params: Option<&'a RawValue>) -> Result<Self, ProtocolFault> {
        let Some(raw) = params else { return Ok(Self::default()) };
        Ok(Self { whole: Some(raw), ..object(raw, "params")? })
    }

    /// The members in their order, without those that are about the exchange and not about the inquiry.
    pub(crate) fn inquiry_members(&self) -> Result<Vec<(String, Box<RawValue>)>, ProtocolFault> {
        let Some(whole) = self.whole else { return Ok(Vec::new()) };
        let members: RawObject<'_> = object(whole, "params")?;
        let members = members.without(&["_meta", "inputResponses", "requestState"]);
        Ok(members.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    /// A modern client's answers to an earlier round of the same request.
    pub(crate) fn input_responses(&self) -> Result<Option<Box<RawValue>>, ProtocolFault> {
        match self.input_responses {
            Some(raw) if raw.get().starts_with('{') => Ok(Some(raw.to_owned())),
            Some(_) => Err(ProtocolFault::invalid_params("`inputResponses` must be an object")),
            None => Ok(None),
        }
    }

    /// Our own state of an earlier round, as the client returned it.
    pub(crate) fn request_state(&self) -> Result<Option<String>, ProtocolFault> {
        let Some(raw) = self.request_state else { return Ok(None) };
        let state = text(raw).ok_or_else(|| ProtocolFault::invalid_params("`requestState` must be a string"))?;
        Ok(Some(state.into_owned()))
    }

    pub(crate) fn meta(&self) -> Result<Meta<'a>, ProtocolFault> {
        self.meta.map_or_else(|| Ok(Meta::default()), |raw| object(raw, "_meta"))
    }
}

impl<'a> Meta<'a> {
    /// From which level on the client wants the server's log.
    pub(crate) fn log_level(&self) -> Result<Option<LogLevel>, ProtocolFault> {
        let Some(raw) = self.log_level else { return Ok(None) };
        log_level(Some(raw), "_meta[\"io.modelcontextprotocol/logLevel\"]").map(Some)
    }

    /// The members that mean nothing to the gateway, for the server.
    pub(crate) fn others(&self) -> Vec<(String, Box<RawValue>)> {
        self.others.iter().map(|(name, value)| (name.clone().into_owned(), (*value).to_owned())).collect()
    }

    /// The field for a member that means something to the gateway.
    fn slot(&mut self, name: &str) -> Option<&mut Option<&'a RawValue>> {
        Some(match name {
            meta::PROTOCOL_VERSION => &mut self.protocol_version,
            meta::CLIENT_CAPABILITIES => &mut self.client_capabilities,
            meta::CLIENT_INFO => &mut self.client_info,
            meta::LOG_LEVEL => &mut self.log_level,
            meta::PROGRESS_TOKEN => &mut self.progress_token,
            meta::TRACEPARENT => &mut self.traceparent,
            meta::CALLER_WAIT_MS => &mut self.caller_wait_ms,
            meta::CHAIN => &mut self.chain,
            meta::DETAIL => &mut self.detail,
            meta::DRY_RUN => &mut self.dry_run,
            meta::IDEMPOTENCY_KEY => &mut self.idempotency_key,
            meta::OPERATION_ID => &mut self.operation_id,
            meta::STEP_ID => &mut self.step_id,
            meta::WORKFLOW_ID => &mut self.workflow_id,
            meta::RUN_ID => &mut self.run_id,
            meta::TASK => &mut self.task,
            meta::INTENT => &mut self.intent,
            meta::LIKE => &mut self.like,
            _ => return None,
        })
    }

    /// The token as it was written, to be sent back unchanged.
    pub(crate) fn progress_token(&self) -> Result<Option<&'a str>, ProtocolFault> {
        let Some(raw) = self.progress_token else { return Ok(None) };
        if serde_json::from_str::<Id>(raw.get()).is_err() {
            return Err(ProtocolFault::invalid_params("`_meta.progressToken` must be a string or an integer"));
        }
        Ok(Some(raw.get()))
    }

    pub(crate) fn caller_wait_ms(&self) -> Result<Option<u64>, ProtocolFault> {
        let Some(raw) = self.caller_wait_ms else { return Ok(None) };
        serde_json::from_str(raw.get()).map(Some).map_err(|_| {
            ProtocolFault::invalid_params("`_meta[\"servanda/timeout-ms\"]` must be a whole number of milliseconds")
        })
    }

    pub(crate) fn chain(&self) -> Result<Option<String>, ProtocolFault> {
        let Some(raw) = self.chain else { return Ok(None) };
        text(raw).filter(|chain| chain.len() <= CHAIN_BYTES_MAX).map(|chain| Some(chain.into_owned())).ok_or_else(
            || {
                ProtocolFault::invalid_params(format!(
                    "`_meta[\"servanda/chain\"]` must be a string of at most {CHAIN_BYTES_MAX} bytes"
                ))
            },
        )
    }

    /// How much detail about a call the client wants in its answer.
    pub(crate) fn detail(&self) -> Result<AnswerDetail, ProtocolFault> {
        match meta_text(self.detail, meta::DETAIL)?.as_deref() {
            None | Some("brief") => Ok(AnswerDetail::Brief),
            Some("full") => Ok(AnswerDetail::Full),
            Some(_) => Err(ProtocolFault::invalid_params("`_meta[\"servanda/detail\"]` must be `brief` or `full`")),
        }
    }

    /// Whether the client wants to know what the call would do, without making it. Read strictly: a call that is made because the wish was
    /// misread cannot be taken back.
    pub(crate) fn dry_run(&self) -> Result<bool, ProtocolFault> {
        match self.dry_run.map(RawValue::get) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(ProtocolFault::invalid_params("`_meta[\"servanda/dry-run\"]` must be true or false")),
        }
    }

    /// What the client says about which operation this is. The engine judges it together with the call.
    pub(crate) fn keys(&self, header_key: Option<String>) -> Result<OperationKeys, ProtocolFault> {
        Ok(OperationKeys {
            idempotency_key: meta_text(self.idempotency_key, meta::IDEMPOTENCY_KEY)?,
            header_key,
            operation_id: meta_text(self.operation_id, meta::OPERATION_ID)?,
            step_id: meta_text(self.step_id, meta::STEP_ID)?,
            workflow_id: meta_text(self.workflow_id, meta::WORKFLOW_ID)?,
            run_id: meta_text(self.run_id, meta::RUN_ID)?,
        })
    }

    /// What the client says the call is for. The engine judges it together with the call.
    pub(crate) fn aims(&self) -> Result<Aims, ProtocolFault> {
        Ok(Aims {
            task: meta_text(self.task, meta::TASK)?,
            intent: meta_text(self.intent, meta::INTENT)?,
            like: meta_text(self.like, meta::LIKE)?,
        })
    }

    fn take_other(&mut self, name: Cow<'a, str>, value: &'a RawValue) -> Result<(), &'static str> {
        if self.others.len() >= OTHERS_MAX {
            return Err("too many members");
        }
        if self.others.iter().any(|(other, _)| *other == name) {
            return Err("a member appears twice");
        }
        self.others.push((name, value));
        Ok(())
    }

    /// Invalid trace context is dropped, as W3C requires: it must never fail a call.
    pub(crate) fn trace_parent(&self) -> Option<String> {
        self.traceparent.and_then(text).and_then(|written| trace_parent(&written))
    }
}

fn meta_text(raw: Option<&RawValue>, name: &str) -> Result<Option<String>, ProtocolFault> {
    let Some(raw) = raw else { return Ok(None) };
    let said = text(raw).map(Cow::into_owned);
    said.map(Some).ok_or_else(|| ProtocolFault::invalid_params(format!("`_meta[\"{name}\"]` must be a string")))
}

impl<'de: 'a, 'a> Deserialize<'de> for Meta<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MetaVisitor;
        impl<'de> Visitor<'de> for MetaVisitor {
            type Value = Meta<'de>;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut read = Meta::default();
                while let Some((ParamText(name), value)) = map.next_entry::<ParamText<'de>, &'de RawValue>()? {
                    if let Some(place) = read.slot(&name) {
                        if place.replace(value).is_some() {
                            return Err(serde::de::Error::custom("a member appears twice"));
                        }
                    } else if !name.starts_with(OURS) {
                        read.take_other(name, value).map_err(serde::de::Error::custom)?;
                    }
                }
                Ok(read)
            }
        }
        deserializer.deserialize_map(MetaVisitor)
    }
}

/// Parses a log level by its name; `member` names where the client wrote it.
pub(crate) fn log_level(raw: Option<&RawValue>, member: &str) -> Result<LogLevel, ProtocolFault> {
    raw.and_then(text).and_then(|name| LogLevel::from_wire(&name)).ok_or_else(|| {
        let levels: Vec<&str> = LogLevel::ALL.iter().map(|level| level.as_str()).collect();
        ProtocolFault::invalid_params(format!("`{member}` must be one of {}", levels.join(", ")))
    })
}

/// The `traceparent`, if it is usable.
pub(crate) fn trace_parent(written: &str) -> Option<String> {
    let usable = written.len() <= TRACE_PARENT_BYTES_MAX && written.bytes().all(|byte| byte.is_ascii_graphic());
    (usable && !written.is_empty()).then(|| written.to_owned())
}

/// `Cow` borrows only through a field with `serde(borrow)`.
#[derive(Deserialize)]
#[serde(transparent)]
struct ParamText<'a>(#[serde(borrow)] Cow<'a, str>);

/// The string that the raw JSON is, if it is one.
pub(crate) fn text(raw: &RawValue) -> Option<Cow<'_, str>> {
    serde_json::from_str::<ParamText<'_>>(raw.get()).ok().map(|ParamText(text)| text)
}

fn object<'a, T: Deserialize<'a>>(raw: &'a RawValue, name: &str) -> Result<T, ProtocolFault> {
    // A derived struct would also read an array, member by member.
    if !raw.get().starts_with('{') {
        return Err(ProtocolFault::invalid_params(format!("`{name}` must be an object")));
    }
    serde_json::from_str(raw.get()).map_err(|error| ProtocolFault::invalid_params(format!("`{name}`: {error}")))
}

/// Refuses a text that would be kept and is too long.
pub(crate) fn require_short(text: &str, member: &str, bytes_max: usize) -> Result<(), ProtocolFault> {
    if text.len() <= bytes_max {
        return Ok(());
    }
    Err(ProtocolFault::invalid_params(format!("`{member}` has more than {bytes_max} bytes")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_is_not_absence() {
        let params: Params<'_> = serde_json::from_str(r#"{"arguments":null}"#).unwrap();
        assert_eq!(params.arguments.map(RawValue::get), Some("null"));
        assert!(params.name.is_none());
    }

    #[test]
    fn unknown_members_are_passed_on_in_order() {
        let text = r#"{"z":1.0,"progressToken":1,"traceparent":"t","tracestate":"s","servanda/x":1,"servanda/chain":"c","servanda/idempotency-key":"k",
            "io.modelcontextprotocol/protocolVersion":"v","io.modelcontextprotocol/clientCapabilities":{},
            "io.modelcontextprotocol/clientInfo":{},"io.modelcontextprotocol/logLevel":"info",
            "io.modelcontextprotocol/related-task":{"taskId":"7"},"a":{ "b":[] },"baggage":"b"}"#;
        let meta: Meta<'_> = serde_json::from_str(text).unwrap();
        let others: Vec<(String, String)> =
            meta.others().into_iter().map(|(name, value)| (name, value.get().to_owned())).collect();
        let expected = [
            ("z", "1.0"),
            ("tracestate", r#""s""#),
            ("io.modelcontextprotocol/related-task", r#"{"taskId":"7"}"#),
            ("a", r#"{ "b":[] }"#),
            ("baggage", r#""b""#),
        ];
        assert_eq!(others, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(meta.log_level().unwrap(), Some(LogLevel::Info));
        assert_eq!(meta.chain().unwrap().as_deref(), Some("c"));
        assert_eq!(meta.keys(None).unwrap().idempotency_key.as_deref(), Some("k"));
    }

    #[test]
    fn duplicate_and_too_many_members_are_refused() {
        let many = |count: usize| {
            let members: Vec<String> = (0..count).map(|number| format!(r#""{number}":0"#)).collect();
            format!("{{{}}}", members.join(","))
        };
        for (text, fits) in [
            (r#"{"x":1,"x":2}"#.to_owned(), false),
            (r#"{"x":1,"\u0078":2}"#.to_owned(), false),
            (r#"{"progressToken":1,"progressToken":2}"#.to_owned(), false),
            (many(OTHERS_MAX), true),
            (many(OTHERS_MAX + 1), false),
        ] {
            assert_eq!(serde_json::from_str::<Meta<'_>>(&text).is_ok(), fits, "{text}");
        }
    }

    #[test]
    fn what_is_asked_keeps_its_order_and_bytes() {
        let raw = r#"{"uri":"a:b","_meta":{},"z": 1.0 ,"requestState":"s","ref":{"type":"x"},"inputResponses":{}}"#;
        let raw = RawValue::from_string(raw.to_owned()).unwrap();
        let params = Params::parse(Some(&raw)).unwrap();
        let asked: Vec<(String, String)> =
            params.inquiry_members().unwrap().into_iter().map(|(name, value)| (name, value.get().to_owned())).collect();
        let expected = [("uri", r#""a:b""#), ("z", "1.0"), ("ref", r#"{"type":"x"}"#)];
        assert_eq!(asked, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(params.request_state().unwrap().as_deref(), Some("s"));
    }
}
