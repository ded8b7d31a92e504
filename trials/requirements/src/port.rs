//! A port for a server that a test starts, and perhaps restarts.

use std::{
    net::{Ipv4Addr, TcpListener},
    sync::atomic::{AtomicU16, Ordering},
};

/// Ports that no system gives to outgoing connections: Linux begins at 32768, others at 49152.
const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;

/// A port of this machine on which nothing listens. A port from the system could be taken by the next outgoing connection
/// before the server listens on it, or while the server is stopped; a port from this range stays free unless a server takes it.
#[must_use]
#[expect(clippy::panic, reason = "a test that lacks something fails by it")]
pub fn unused_port() -> u16 {
    static ASKED: AtomicU16 = AtomicU16::new(0);
    // Each process starts at a different place, because tests of several processes search at the same time.
    let start = std::process::id().wrapping_mul(7919) % u32::from(COUNT);
    for _ in 0..COUNT {
        let asked = u32::from(ASKED.fetch_add(1, Ordering::Relaxed));
        let port = FIRST + u16::try_from((start + asked) % u32::from(COUNT)).unwrap_or_default();
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
    panic!("every port from {FIRST} on is in use");
}
