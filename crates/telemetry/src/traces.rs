//! Spans of finished calls, and their export by OTLP.
//!
//! Deliberately not here: how a call's context travels; the engine passes it on.
