//! Random numbers for pauses, so that callers do not come back at the same moment. They are not used for secrets.

/// A random number, or zero if the system has none. Then callers may come back at the same moment, and nothing else is lost.
pub(crate) fn random() -> u64 {
    let mut bytes = [0; 8];
    let _ = getrandom::fill(&mut bytes);
    u64::from_le_bytes(bytes)
}
