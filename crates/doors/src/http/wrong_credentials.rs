//! Log lines about credentials that were not accepted: the address they came from and the reason, never anything of the
//! credential. A client can send thousands a second, so an address gets one line per interval, which says how many were
//! left out before it.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// The time between two lines about one address.
const INTERVAL: Duration = Duration::from_secs(10);
/// Addresses that are told apart within an interval; all others share one line.
const ADDRESSES_MAX: usize = 256;

/// The addresses that were logged recently.
#[derive(Debug, Default)]
pub(super) struct WrongCredentialLog(Mutex<BTreeMap<Option<IpAddr>, AddressLogEntry>>);

#[derive(Debug)]
struct AddressLogEntry {
    last: Instant,
    left_out: u64,
}

impl WrongCredentialLog {
    /// Logs that a credential was not accepted, unless a line about its address was just written. Behind a proxy, the
    /// address is the proxy's.
    pub(super) fn warn(&self, peer: IpAddr, why: &str) {
        if let Some(left_out) = self.due_line(Some(peer), Instant::now()) {
            let address = peer.to_string();
            tracing::warn!(address, why, left_out, "a credential was not accepted");
        }
    }

    /// How many attempts from that address were left out since its last line, if a line is due.
    fn due_line(&self, address: Option<IpAddr>, now: Instant) -> Option<u64> {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = |told: &AddressLogEntry| now.duration_since(told.last) >= INTERVAL;
        if told.len() >= ADDRESSES_MAX && !told.contains_key(&address) {
            told.retain(|_, told| !is_over(told));
        }
        let is_full = told.len() >= ADDRESSES_MAX && !told.contains_key(&address);
        let place = if is_full { None } else { address };
        match told.get_mut(&place) {
            Some(told) if !is_over(told) => {
                told.left_out += 1;
                None
            }
            Some(told) => {
                told.last = now;
                Some(std::mem::take(&mut told.left_out))
            }
            None => {
                told.insert(place, AddressLogEntry { last: now, left_out: 0 });
                Some(0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn address(number: u32) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from(number))
    }

    #[test]
    fn a_flood_of_one_address_is_one_line_for_each_interval_and_hides_no_other() {
        let wrong = WrongCredentialLog::default();
        let start = Instant::now();
        assert_eq!(wrong.due_line(Some(address(1)), start), Some(0));
        for _ in 0..1_000 {
            assert_eq!(wrong.due_line(Some(address(1)), start), None);
        }
        assert_eq!(wrong.due_line(Some(address(2)), start), Some(0));
        assert_eq!(wrong.due_line(Some(address(1)), start + INTERVAL), Some(1_000));
        assert_eq!(wrong.due_line(Some(address(1)), start + INTERVAL), None);
    }

    #[test]
    fn a_flood_of_many_addresses_is_bounded() {
        let wrong = WrongCredentialLog::default();
        let start = Instant::now();
        let lines = (0..10_000).filter(|number| wrong.due_line(Some(address(*number)), start).is_some()).count();
        assert_eq!(lines, ADDRESSES_MAX + 1, "one for each place, and one for all the others");
        assert!(wrong.0.lock().unwrap().len() <= ADDRESSES_MAX + 1);
        assert_eq!(wrong.due_line(Some(address(20_000)), start + INTERVAL), Some(0), "places are free again");
    }
}
