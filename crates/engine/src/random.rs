//! Random numbers for pauses, so that callers do not come back at the same moment. Nothing secret is made of them.

/// Any number. Where there is none to be had, callers come back at the same moment, which is all that is lost.
pub(crate) fn random() -> u64 {
    let mut bytes = [0; 8];
    let _ = getrandom::fill(&mut bytes);
    u64::from_le_bytes(bytes)
}
