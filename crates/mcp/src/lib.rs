//! The Model Context Protocol on the wire: envelopes, eras, names of methods and fields, lines, texts in headers,
//! tasks.
//!
//! Bytes in, bytes out, no sockets: the doors and the upstreams move them. Data that no decision needs stays raw and is
//! forwarded byte for byte, because a typed round trip would lose unknown members.

pub mod capabilities;
pub mod envelope;
pub mod era;
pub mod fields;
pub mod header_text;
pub mod lines;
pub mod log_level;
pub mod object;
pub mod param_headers;
pub mod shape;
pub mod task;

pub use capabilities::ClientCapabilities;
pub use envelope::{EnvelopeError, Id, Message, RpcError};
pub use era::{Era, ProtocolVersion};
pub use log_level::LogLevel;
pub use object::RawObject;
