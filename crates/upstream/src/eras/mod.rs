//! Which eras a server has, and on whose connection a request is made because of it. Values in, values out: connecting is
//! the connections' business.
//!
//! The shared connection says whether a server is modern. It does not say whether the server has the legacy era too: some
//! servers of both list only modern versions. So the legacy handshake is tried when a legacy client needs it, and what comes
//! of it is known until the shared connection is made again.

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
    /// It is modern; whether it has the legacy era too was not tried.
    Modern,
    /// It has both.
    Both,
    /// It is modern, and did not take the legacy handshake.
    ModernOnly,
}

/// What came of a legacy handshake on a connection that is not the shared one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HandshakeOutcome {
    /// Both sides agreed.
    Agreed,
    /// The server said no.
    SaidNo,
    /// It began, and there was no agreement: the server went away, said nothing, or said what cannot be read.
    Failed,
    /// The server was not there, or had no time for it.
    NotBegun,
}

/// A client, as far as the choice of its connection goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EraClient {
    pub(crate) era: Era,
    /// Whether it can be asked anything.
    pub(crate) answers: bool,
}

/// On whose connection a client's requests are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionChoice {
    /// On the one that everybody shares.
    Shared,
    /// On a legacy one that legacy clients share which cannot be asked anything.
    SharedByLegacy,
    /// On its own.
    Own,
}

/// What is known of a server's eras, shared by its connections.
#[derive(Debug, Default)]
pub(crate) struct KnownEras {
    eras: Mutex<Option<Eras>>,
    doubts: Notify,
}

impl Eras {
    /// What the shared connection shows.
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

    /// What is known after a legacy handshake; none where the shared connection has to find out anew.
    ///
    /// A server that never took one is not asked again after any failure, because requests have another way. One that took
    /// one before has to say no.
    fn after(self, handshake: HandshakeOutcome) -> Option<Self> {
        match (self, handshake) {
            (Self::Legacy, HandshakeOutcome::SaidNo) => None,
            (Self::Modern | Self::ModernOnly, HandshakeOutcome::Agreed) => Some(Self::Both),
            (Self::Modern, HandshakeOutcome::SaidNo | HandshakeOutcome::Failed)
            | (Self::Both, HandshakeOutcome::SaidNo) => Some(Self::ModernOnly),
            (known, _) => Some(known),
        }
    }

    /// On whose connection requests of a client are made. A client's era is used where the server has it. Standard streams
    /// carry one era, and a second process is worth it only for a client that can be asked something.
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

    /// What the shared connection shows, or that there is none.
    pub(crate) fn set(&self, era: Option<Era>) {
        *self.eras.lock().unwrap_or_else(PoisonError::into_inner) = era.map(Eras::of_shared);
    }

    /// Learns what came of a legacy handshake on another connection. A legacy server that says no is not what the shared
    /// connection says: the shared one asks again.
    pub(crate) fn learn(&self, handshake: HandshakeOutcome) {
        let mut eras = self.eras.lock().unwrap_or_else(PoisonError::into_inner);
        let before = *eras;
        *eras = before.and_then(|known| known.after(handshake));
        if before.is_some() && eras.is_none() {
            self.doubts.notify_waiters();
        }
    }

    /// Waits for a doubt. Cancel safe, except that a doubt between two waits is lost; it comes again with the next failure.
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
        // The client, then the place at a server of only the legacy era, of both (tried or not), and of only the modern one.
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
        // Agreed, said no, failed, not begun.
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
