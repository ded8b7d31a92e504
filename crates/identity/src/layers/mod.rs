//! The layers of a tool's identity and the rules between them. The only place that has them.
