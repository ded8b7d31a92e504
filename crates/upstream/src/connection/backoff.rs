//! How long to pause between attempts at something that fails.

use crate::UpstreamLimits;

/// The pause before the next attempt: none after the first failure, then doubling up to the maximum.
pub(crate) fn pause_ms(failures: u32, limits: &UpstreamLimits) -> u64 {
    match failures {
        0 | 1 => 0,
        failures => {
            let doublings = (failures - 2).min(63);
            limits.restart_backoff_ms.saturating_mul(1 << doublings).min(limits.restart_backoff_ms_max)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_maximum() {
        let limits = UpstreamLimits::default();
        let pauses: Vec<u64> = (0..12).map(|failures| pause_ms(failures, &limits)).collect();
        assert_eq!(pauses, [0, 0, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000]);
        assert_eq!(pause_ms(u32::MAX, &limits), 30_000);
    }
}
