//! The clients that a gateway can be connected to: where each keeps its list of servers, and how it writes an entry. Their files are edited
//! in place, byte for byte, with a backup and a record, so that every change can be undone. Importing servers from these files is
//! `import`'s task.

mod client_table;
pub(crate) mod connections;
pub(crate) mod difference;
pub(crate) mod entry;
pub(crate) mod file;
pub(crate) mod json;
pub(crate) mod likely_secrets;
pub(crate) mod masking;
pub(crate) mod notation;
pub(crate) mod record_check;
pub(crate) mod search_path;
#[cfg(test)]
mod tests;
pub(crate) mod toml;

pub(crate) use self::client_table::{ClientFileScope, ClientFolders, ClientName, HttpStyle, KnownClient, client_of};
