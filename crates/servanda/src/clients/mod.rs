//! Clients.

pub(crate) mod json;
pub(crate) mod toml;
