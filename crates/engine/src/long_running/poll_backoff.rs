//! How often an upstream is asked about its work: at first as often as it suggests, then less and less, and with a random part, so that
//! not all gateways ask at the same moment. Pure.

/// The first pause if the upstream suggests none, and the limits of what it may suggest.
const FIRST_MS: u64 = 500;
const NAMED_MS: (u64, u64) = (100, 60_000);
/// The longest pause, unless the upstream suggests a longer one.
const PAUSE_MS_MAX: u64 = 10_000;

/// How long to wait before the next time.
#[derive(Debug, Default)]
pub(super) struct PollBackoff {
    last_ms: Option<u64>,
}

impl PollBackoff {
    /// The next pause. `named_ms` is the shortest pause that the upstream suggests, `random` any number.
    pub(super) fn next_ms(&mut self, named_ms: Option<u64>, random: u64) -> u64 {
        let (least, most) = NAMED_MS;
        let named_ms = named_ms.map_or(FIRST_MS, |ms| ms.clamp(least, most));
        let grown_ms = self.last_ms.map_or(named_ms, |last_ms| last_ms.saturating_mul(3) / 2);
        let pause_ms = grown_ms.clamp(named_ms, PAUSE_MS_MAX.max(named_ms));
        self.last_ms = Some(pause_ms);
        // The random part only makes the pause longer, never shorter than the upstream suggests.
        pause_ms.saturating_add(random % (pause_ms / 5 + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::PollBackoff;

    fn pauses(named_ms: Option<u64>, random: u64) -> Vec<u64> {
        let mut pace = PollBackoff::default();
        (0..12).map(|_| pace.next_ms(named_ms, random)).collect()
    }

    #[test]
    fn pauses_grow_to_a_bound_and_are_never_shorter_than_named() {
        assert_eq!(pauses(None, 0)[..4], [500, 750, 1_125, 1_687]);
        assert_eq!(pauses(None, 0).last(), Some(&10_000));
        assert_eq!(pauses(Some(30_000), 0), [30_000; 12], "a longer pause that the upstream names is kept");
        assert_eq!((pauses(Some(1), 0)[0], pauses(Some(u64::MAX), 0)[0]), (100, 60_000), "within reason");
        for (plain, moved) in pauses(None, 0).into_iter().zip(pauses(None, u64::MAX)) {
            assert!((plain..=plain + plain / 5).contains(&moved), "{plain} {moved}");
        }
    }
}
