//! The clients that a gateway can be connected to: where each keeps its list of servers, and how it writes an entry. Their files are edited
//! in place, byte for byte, with a backup and a record, so that every change can be undone.
//!
//! Deliberately absent: importing servers from these files (`servanda_import`), deciding what to change, and messages to a person. An error
//! says what is wrong; the binary says what to do next.

pub mod allow_rule;
mod client_locations;
mod client_table;
pub mod connections;
pub mod entry;
pub mod file;
pub mod json;
pub mod likely_secrets;
pub mod masking;
pub mod notation;
pub mod record_check;
pub mod search_path;
#[cfg(test)]
mod tests;
pub mod toml;

pub use self::{
    client_locations::{ClientFileScope, ClientFolders},
    client_table::{ClientName, HttpStyle, KnownClient, client_of},
};
