//! Limits that both transports share: those of the dispatcher, and the default values of both doors. The limits of one
//! transport are in its own options.

/// Tools on one page of `tools/list`.
pub(crate) const PAGE_SIZE: usize = 200;
/// The longest message.
pub(crate) const MESSAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Requests running at once.
pub(crate) const CALLS_IN_FLIGHT_MAX: usize = 1024;
/// Questions that one legacy client may have to answer at once.
pub(crate) const QUESTIONS_MAX: usize = 16;
/// Resources, or tasks, that one client may watch.
pub(crate) const WATCHES_MAX: usize = 64;
/// The longest capabilities of a client, in bytes of JSON.
pub(crate) const CAPABILITIES_BYTES_MAX: usize = 16 * 1024;
/// The longest URI or task id that a client may watch.
pub(crate) const URI_BYTES_MAX: usize = 8 * 1024;
/// Messages in one batch.
pub(crate) const BATCH_MESSAGES_MAX: usize = 32;

/// The limits of a dispatcher.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DispatchLimits {
    pub(crate) page_size: usize,
    pub(crate) requests_in_flight_max: usize,
    /// Resources, or tasks, that one subscription may name.
    pub(crate) watches_max: usize,
    pub(crate) capabilities_bytes_max: usize,
    /// The longest URI or task id.
    pub(crate) uri_bytes_max: usize,
}
