//! The address of the HTTP door, as it is written. Whether it may be listened on without credentials is decided by `auth`.

use std::net::SocketAddr;

/// Why an address cannot be listened on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ListenError {
    /// It is not an address.
    #[error("`{0}` is not an address to listen on")]
    NotAnAddress(String),
    /// Other machines can reach it, and callers need no credential.
    #[error("`{0}` is not a loopback address, and callers there would need no credential")]
    Unguarded(SocketAddr),
    /// Other machines can reach it, and the configuration does not say under which address.
    #[error("`{0}` is not a loopback address, and `auth.resource` does not say what clients call the gateway")]
    NoResource(SocketAddr),
}

/// Reads a listening address. A host name is not resolved, because it could lead to an unexpected interface.
pub fn parse_listen(text: &str) -> Result<SocketAddr, ListenError> {
    let address = text.replace("localhost", "127.0.0.1").parse();
    address.map_err(|_| ListenError::NotAnAddress(text.to_owned()))
}
