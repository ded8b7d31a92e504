//! How much a door takes, whichever transport it is for: the limits of its dispatcher, and the values that both doors have by default. The
//! limits of one transport stand in its own options.

/// Tools on one page of `tools/list`.
pub(crate) const PAGE_SIZE: usize = 200;
/// The longest message.
pub(crate) const MESSAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Requests running at once.
pub(crate) const CALLS_IN_FLIGHT_MAX: usize = 1024;
/// Questions that one legacy client may have to answer at once.
pub(crate) const QUESTIONS_MAX: usize = 16;
/// Resources, or tasks, that one client may name to hear of them.
pub(crate) const WATCHES_MAX: usize = 64;
/// What a client says it can do, in JSON.
pub(crate) const CAPABILITIES_BYTES_MAX: usize = 16 * 1024;
/// One URI, or one task id, that a client names to hear of it.
pub(crate) const URI_BYTES_MAX: usize = 8 * 1024;
/// Messages in one batch.
pub(crate) const BATCH_MESSAGES_MAX: usize = 32;

/// How much a dispatcher takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DispatchLimits {
    pub(crate) page_size: usize,
    pub(crate) requests_in_flight_max: usize,
    /// Resources, or tasks, one subscription may name.
    pub(crate) watches_max: usize,
    pub(crate) capabilities_bytes_max: usize,
    /// One of what is named there.
    pub(crate) uri_bytes_max: usize,
}
