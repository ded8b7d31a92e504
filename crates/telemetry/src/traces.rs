//! Spans of finished calls, and their export by OTLP.
//!
//! A call pays for the decision whether it is sampled, and if it is, for a copy of its record in a bounded queue; spans are made and sent
//! in a task of their own. Deliberately not here: how a call's context travels, which is the engine's; arguments and results, which no
//! record has; and figures other than those of the export.

mod attributes;
mod client;
mod exporter;
mod figures;
mod grpc;
mod http;
mod names;
mod otlp;
mod queue;
mod sampling;
mod settings;
mod spans;
#[cfg(test)]
mod testing;
mod transport;

pub use exporter::SpanExporter;
pub use figures::TraceFigures;
pub use queue::CallTracer;
pub use settings::{CollectorAddress, OtlpProtocol, TraceSettings, TraceSettingsError};
