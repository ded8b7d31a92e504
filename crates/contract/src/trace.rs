//! W3C trace context: where a call stands in a trace, and the ids of its spans.
//!
//! The ids of a call's spans are digests of the call's id. So the span that an upstream was told as its parent can be named again from
//! the record alone. Deliberately not here: what a span says, and which calls are exported.

use std::fmt;

use crate::{CallId, Digest, digest::DigestDomain};

/// The bit of the flags that says that the caller may have recorded its span.
const SAMPLED: u8 = 1;
/// The flags that are passed on: sampled, and that the trace id is random.
const FLAGS_KNOWN: u8 = 3;

/// The id of a span; never all zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpanId([u8; 8]);

/// A span of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallSpan {
    /// The whole call, from the door to the answer.
    Server,
    /// The call at its upstream. The upstream is told this span as its parent.
    Client,
    /// The stage at that position among the record's verdicts.
    Stage(usize),
    /// The end of a task that the call became.
    Sequel,
}

/// The span that a caller sent as the parent of its call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParentSpan {
    /// Its id.
    pub id: SpanId,
    /// The flags that are passed on.
    flags: u8,
}

/// Where a call stands in its trace, as far as its id does not say it. It is known only in the process that runs the call and is not
/// stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TraceStanding {
    /// The caller's span.
    pub parent: Option<ParentSpan>,
    /// Whether the record is of the end of a task, whose call has a record of its own.
    pub is_sequel: bool,
}

impl SpanId {
    /// The id of a span of a call.
    pub fn of_call(call_id: &CallId, span: CallSpan) -> Self {
        let (kind, position) = match span {
            CallSpan::Server => ("server", 0),
            CallSpan::Client => ("client", 0),
            CallSpan::Stage(position) => ("stage", position),
            CallSpan::Sequel => ("sequel", 0),
        };
        let parts: [&[u8]; 3] = [call_id.as_str().as_bytes(), kind.as_bytes(), &(position as u64).to_be_bytes()];
        let digest = Digest::compute(DigestDomain::Span, &parts);
        let mut id = [0; 8];
        for (to, from) in id.iter_mut().zip(digest.as_bytes()) {
            *to = *from;
        }
        // All zeros would mean that there is no span.
        if id == [0; 8] { Self([1; 8]) } else { Self(id) }
    }

    /// Reads 16 lower-case hex digits.
    pub fn parse(text: &str) -> Option<Self> {
        let is_hex = text.len() == 16 && is_lower_hex(text);
        let number = is_hex.then(|| u64::from_str_radix(text, 16).ok())??;
        (number != 0).then(|| Self(number.to_be_bytes()))
    }

    /// The eight bytes.
    pub const fn as_bytes(&self) -> &[u8; 8] {
        &self.0
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}", u64::from_be_bytes(self.0))
    }
}

impl ParentSpan {
    /// The parent that a `traceparent` names, if it is valid.
    pub fn parse(trace_parent: &str) -> Option<Self> {
        trace_id(trace_parent)?;
        let mut parts = trace_parent.split('-');
        let (version, _, id, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let is_version = version.len() == 2 && is_lower_hex(version) && version != "ff";
        // Later versions may have more parts.
        let is_whole = version != "00" || parts.next().is_none();
        let is_flags = flags.len() == 2 && is_lower_hex(flags);
        if !(is_version && is_whole && is_flags) {
            return None;
        }
        Some(Self { id: SpanId::parse(id)?, flags: u8::from_str_radix(flags, 16).ok()? & FLAGS_KNOWN })
    }

    /// The span of a call of ours that another call takes up again, with its approval. Calls that wait for people are always exported.
    pub fn of_call(call_id: &CallId) -> Self {
        Self { id: SpanId::of_call(call_id, CallSpan::Server), flags: SAMPLED }
    }

    /// Whether the caller may have recorded it.
    pub const fn is_sampled(self) -> bool {
        self.flags & SAMPLED != 0
    }
}

/// The trace id of a `traceparent`, if it is valid.
pub fn trace_id(trace_parent: &str) -> Option<&str> {
    let mut parts = trace_parent.split('-');
    let (_, trace_id) = (parts.next()?, parts.next()?);
    let is_hex = trace_id.len() == 32 && is_lower_hex(trace_id);
    (is_hex && trace_id.bytes().any(|byte| byte != b'0')).then_some(trace_id)
}

/// The `traceparent` that an upstream gets for a call: the call's client span in its trace. The caller's flags are passed on; where the
/// caller sent no parent, `is_sampled` says them.
pub fn trace_parent_for_upstream(
    trace_id: &str,
    call_id: &CallId,
    parent: Option<ParentSpan>,
    is_sampled: bool,
) -> String {
    let flags = parent.map_or(u8::from(is_sampled), |parent| parent.flags);
    format!("00-{trace_id}-{}-{flags:02x}", SpanId::of_call(call_id, CallSpan::Client))
}

fn is_lower_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit() && !byte.is_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

    #[test]
    fn only_a_good_trace_id_is_taken() {
        assert_eq!(trace_id(&format!("00-{TRACE}-b7ad6b7169203331-01")), Some(TRACE));
        for bad in [
            "",
            "00",
            "00-xyz-1-01",
            &format!("00-{}-b-01", TRACE.to_uppercase()),
            &format!("00-{}-b-01", "0".repeat(32)),
        ] {
            assert_eq!(trace_id(bad), None, "{bad}");
        }
    }

    #[test]
    fn only_a_good_parent_is_taken() {
        let id = "b7ad6b7169203331";
        let table = [
            (format!("00-{TRACE}-{id}-01"), Some(true)),
            (format!("00-{TRACE}-{id}-03"), Some(true)),
            (format!("00-{TRACE}-{id}-00"), Some(false)),
            (format!("00-{TRACE}-{id}-fe"), Some(false)),
            (format!("01-{TRACE}-{id}-01-more"), Some(true)),
            (format!("00-{TRACE}-{id}-01-more"), None),
            (format!("ff-{TRACE}-{id}-01"), None),
            (format!("00-{TRACE}-{id}"), None),
            (format!("00-{TRACE}-{}-01", "0".repeat(16)), None),
            (format!("00-{TRACE}-{}-01", id.to_uppercase()), None),
            (format!("00-{TRACE}-+7ad6b7169203331-01"), None),
            (format!("00-{TRACE}-{id}-1"), None),
            (format!("00-{TRACE}-{id}-+1"), None),
            (format!("00-{}-{id}-01", "0".repeat(32)), None),
        ];
        for (text, sampled) in table {
            let parent = ParentSpan::parse(&text);
            assert_eq!(parent.map(ParentSpan::is_sampled), sampled, "{text}");
            assert!(parent.is_none_or(|parent| parent.id.to_string() == id), "{text}");
        }
    }

    #[test]
    fn spans_of_a_call_have_ids_that_its_id_tells() {
        let call_id = CallId::from("call_0193a5b2c3d4e5f60718293a4b5c6d7e".to_owned());
        let spans = [CallSpan::Server, CallSpan::Client, CallSpan::Sequel, CallSpan::Stage(0), CallSpan::Stage(1)];
        let ids: BTreeSet<String> = spans.map(|span| SpanId::of_call(&call_id, span).to_string()).into();
        assert_eq!(ids.len(), spans.len());
        // Stored calls are looked up by these ids in other systems, so they never change.
        assert_eq!(SpanId::of_call(&call_id, CallSpan::Client).to_string(), "36bd5b93987a4afb");
        assert_ne!(SpanId::of_call(&CallId::new(), CallSpan::Client), SpanId::of_call(&call_id, CallSpan::Client));
    }

    #[test]
    fn an_upstream_gets_our_span_and_the_callers_flags() {
        let call_id = CallId::new();
        let client = SpanId::of_call(&call_id, CallSpan::Client);
        let parent = |flags: &str| ParentSpan::parse(&format!("00-{TRACE}-b7ad6b7169203331-{flags}"));
        for (parent, is_sampled, flags) in [
            (None, true, "01"),
            (None, false, "00"),
            (parent("00"), true, "00"),
            (parent("01"), false, "01"),
            (parent("03"), false, "03"),
            (parent("ff"), false, "03"),
        ] {
            let sent = trace_parent_for_upstream(TRACE, &call_id, parent, is_sampled);
            assert_eq!(sent, format!("00-{TRACE}-{client}-{flags}"));
        }
    }
}
