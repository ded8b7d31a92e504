//! Which eras a server has, and which connection a request uses because of that. Pure functions and shared state: the connections do the
//! connecting.
//!
//! The shared connection shows whether a server is modern. It does not show whether the server has the legacy era too: some servers of both
//! eras list only modern versions. So the legacy handshake is tried when a legacy client needs it. Its result is remembered until the
//! shared connection is made again.

pub(crate) mod handshake;
pub(crate) mod notes;

use std::sync::{Mutex, PoisonError};

use servanda_mcp::Era;
use tokio::sync::Notify;

/// The eras of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Eras {
    /// It is not modern.
    Legacy,
    /// It is modern; the legacy era has not been tried yet.
    Modern,
    /// It has both.
    Both,
    /// It is modern, and the legacy handshake failed.
    ModernOnly,
}

/// The outcome of a legacy handshake on a connection that is not the shared one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HandshakeOutcome {
    /// Both sides agreed.
    Agreed,
    /// The server refused.
    SaidNo,
    /// It began, but there was no agreement: the server went away, did not answer, or sent something unreadable.
    Failed,
    /// The server was not reachable, or too busy.
    NotBegun,
}

/// The properties of a client that decide which connection it uses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EraClient {
    pub(crate) era: Era,
    /// Whether the server can ask it anything.
    pub(crate) answers: bool,
}

/// The connection that a client's requests use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionChoice {
    /// The one that all clients share.
    Shared,
    /// A legacy one, shared by the legacy clients that cannot be asked anything.
    SharedByLegacy,
    /// Its own.
    Own,
}

/// What is known about a server's eras, shared by its connections.
#[derive(Debug, Default)]
pub(crate) struct KnownEras {
    eras: Mutex<Option<Eras>>,
    doubts: Notify,
}

impl Eras {
    /// The eras that the shared connection shows.
    pub(crate) fn of_shared(era: Era) -> Self {
        match era {
            Era::Legacy => Self::Legacy,
            Era::Modern => Self::Modern,
        }
    }

    /// The era of the shared connection.
    pub(crate) fn shared(self) -> Era {
        match self {
            Self::Legacy => Era::Legacy,
            Self::Modern | Self::Both | Self::ModernOnly => Era::Modern,
        }
    }

    /// What is known after a legacy handshake; none if the shared connection has to find out again.
    ///
    /// A server that never accepted a legacy handshake is not asked again after any failure, because its requests can use the shared
    /// connection. A server that accepted one before loses its legacy era only when it refuses.
    fn after(self, handshake: HandshakeOutcome) -> Option<Self> {
        match (self, handshake) {
            (Self::Legacy, HandshakeOutcome::SaidNo) => None,
            (Self::Modern | Self::ModernOnly, HandshakeOutcome::Agreed) => Some(Self::Both),
            (Self::Modern, HandshakeOutcome::SaidNo | HandshakeOutcome::Failed)
            | (Self::Both, HandshakeOutcome::SaidNo) => Some(Self::ModernOnly),
            (known, _) => Some(known),
        }
    }

    /// Chooses the connection for a client's requests. The client's era is used if the server has it. Standard streams carry one era, so a
    /// second process is worth it only for a client that can be asked something.
    pub(crate) fn choose_connection(self, client: EraClient, has_sessions: bool) -> ConnectionChoice {
        match (self, client.era, client.answers) {
            (Self::Legacy, _, true) | (Self::Modern | Self::Both, Era::Legacy, true) => ConnectionChoice::Own,
            (Self::Modern | Self::Both, Era::Legacy, false) if has_sessions => ConnectionChoice::SharedByLegacy,
            _ => ConnectionChoice::Shared,
        }
    }
}

impl KnownEras {
    pub(crate) fn get(&self) -> Option<Eras> {
        *self.eras.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the era that the shared connection shows; none if there is no such connection.
    pub(crate) fn set(&self, era: Option<Era>) {
        *self.eras.lock().unwrap_or_else(PoisonError::into_inner) = era.map(Eras::of_shared);
    }

    /// Records the outcome of a legacy handshake on another connection. If a legacy server refuses it, what the shared connection shows is
    /// wrong, and the shared connection has to ask again.
    pub(crate) fn learn(&self, handshake: HandshakeOutcome) {
        let mut eras = self.eras.lock().unwrap_or_else(PoisonError::into_inner);
        let before = *eras;
        *eras = before.and_then(|known| known.after(handshake));
        if before.is_some() && eras.is_none() {
            self.doubts.notify_waiters();
        }
    }

    /// Waits until the eras are in doubt. Cancel safe, except that a doubt between two waits is lost; it comes again with the next failure.
    pub(crate) async fn doubted(&self) {
        self.doubts.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_keeps_its_era_where_the_server_has_it() {
        use ConnectionChoice::{Own, Shared, SharedByLegacy};
        let (legacy, modern) = (Era::Legacy, Era::Modern);
        // The client, then its connection at a server of only the legacy era, of both (tried or not), and of only the modern one.
        let table = [
            (legacy, true, true, [Own, Own, Own, Shared]),
            (legacy, true, false, [Own, Own, Own, Shared]),
            (legacy, false, true, [Shared, SharedByLegacy, SharedByLegacy, Shared]),
            (legacy, false, false, [Shared, Shared, Shared, Shared]),
            (modern, true, true, [Own, Shared, Shared, Shared]),
            (modern, true, false, [Own, Shared, Shared, Shared]),
            (modern, false, true, [Shared, Shared, Shared, Shared]),
            (modern, false, false, [Shared, Shared, Shared, Shared]),
        ];
        for (era, answers, has_sessions, places) in table {
            let found = [Eras::Legacy, Eras::Modern, Eras::Both, Eras::ModernOnly]
                .map(|eras| eras.choose_connection(EraClient { era, answers }, has_sessions));
            assert_eq!(found, places, "{era:?}, answers: {answers}, sessions: {has_sessions}");
        }
    }

    #[test]
    fn a_legacy_handshake_tells_which_eras_there_are() {
        use Eras::{Both, Legacy, Modern, ModernOnly};
        // Agreed, refused, failed, not begun.
        let table = [
            (Legacy, [Some(Legacy), None, Some(Legacy), Some(Legacy)]),
            (Modern, [Some(Both), Some(ModernOnly), Some(ModernOnly), Some(Modern)]),
            (Both, [Some(Both), Some(ModernOnly), Some(Both), Some(Both)]),
            (ModernOnly, [Some(Both), Some(ModernOnly), Some(ModernOnly), Some(ModernOnly)]),
        ];
        for (eras, expected) in table {
            let found = [
                HandshakeOutcome::Agreed,
                HandshakeOutcome::SaidNo,
                HandshakeOutcome::Failed,
                HandshakeOutcome::NotBegun,
            ]
            .map(|handshake| eras.after(handshake));
            assert_eq!(found, expected, "{eras:?}");
        }
    }

    #[test]
    fn what_was_tried_is_forgotten_with_the_shared_connection() {
        let known = KnownEras::default();
        known.learn(HandshakeOutcome::Agreed);
        assert_eq!(known.get(), None, "nothing is known of a server without its shared connection");
        known.set(Some(Era::Modern));
        known.learn(HandshakeOutcome::SaidNo);
        assert_eq!(known.get(), Some(Eras::ModernOnly));
        known.set(None);
        known.set(Some(Era::Modern));
        assert_eq!(known.get(), Some(Eras::Modern));
    }
}
