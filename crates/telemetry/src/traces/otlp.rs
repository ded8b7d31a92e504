//! The messages of OTLP that are sent, as `opentelemetry/proto/collector/trace/v1` and `trace/v1` define them: field numbers and types are
//! theirs. Members that are never sent are left out; the trial `telemetry/traces` reads what is sent with the official definitions.

use prost::{Enumeration, Message, Oneof};

#[derive(Clone, PartialEq, Message)]
pub(super) struct OtlpExportRequest {
    #[prost(message, repeated, tag = "1")]
    pub(super) resource_spans: Vec<OtlpResourceSpans>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct OtlpResourceSpans {
    #[prost(message, optional, tag = "1")]
    pub(super) resource: Option<OtlpResource>,
    #[prost(message, repeated, tag = "2")]
    pub(super) scope_spans: Vec<OtlpScopeSpans>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct OtlpResource {
    #[prost(message, repeated, tag = "1")]
    pub(super) attributes: Vec<OtlpAttribute>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct OtlpScopeSpans {
    #[prost(message, optional, tag = "1")]
    pub(super) scope: Option<OtlpScope>,
    #[prost(message, repeated, tag = "2")]
    pub(super) spans: Vec<OtlpSpan>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct OtlpScope {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) version: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct OtlpSpan {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) span_id: Vec<u8>,
    /// Empty if the span is the first of its trace.
    #[prost(bytes = "vec", tag = "4")]
    pub(super) parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    pub(super) name: String,
    #[prost(enumeration = "OtlpSpanKind", tag = "6")]
    pub(super) kind: i32,
    #[prost(fixed64, tag = "7")]
    pub(super) start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    pub(super) end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    pub(super) attributes: Vec<OtlpAttribute>,
    #[prost(message, optional, tag = "15")]
    pub(super) status: Option<OtlpStatus>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub(super) enum OtlpSpanKind {
    Unspecified = 0,
    Internal = 1,
    Server = 2,
    Client = 3,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct OtlpStatus {
    #[prost(string, tag = "2")]
    pub(super) message: String,
    #[prost(enumeration = "OtlpStatusCode", tag = "3")]
    pub(super) code: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub(super) enum OtlpStatusCode {
    Unset = 0,
    Ok = 1,
    Error = 2,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct OtlpAttribute {
    #[prost(string, tag = "1")]
    pub(super) key: String,
    #[prost(message, optional, tag = "2")]
    pub(super) value: Option<OtlpValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct OtlpValue {
    #[prost(oneof = "OtlpScalar", tags = "1, 2, 3")]
    pub(super) value: Option<OtlpScalar>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum OtlpScalar {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(bool, tag = "2")]
    Flag(bool),
    #[prost(int64, tag = "3")]
    Number(i64),
}

/// What a collector answers.
#[derive(Clone, PartialEq, Message)]
pub(super) struct OtlpExportResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) partial_success: Option<OtlpPartialSuccess>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct OtlpPartialSuccess {
    #[prost(int64, tag = "1")]
    pub(super) rejected_spans: i64,
}

impl OtlpExportResponse {
    /// How many spans the collector rejected. An answer that cannot be read rejects none.
    pub(super) fn rejected_spans(body: &[u8]) -> u64 {
        let answer = Self::decode(body).ok().and_then(|answer| answer.partial_success);
        answer.map_or(0, |partial| u64::try_from(partial.rejected_spans).unwrap_or_default())
    }
}
