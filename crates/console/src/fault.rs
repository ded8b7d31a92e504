//! Why a request is not answered with what it asked for.

use servanda_effects::JournalError;
use servanda_engine::approvals::DecideError;

/// Why a page is not shown, or a form not acted on.
#[derive(Debug)]
pub(crate) enum PageFault {
    /// There is no such page, or it is not this person's.
    NotFound,
    /// The page does not support this method.
    Method(&'static str),
    /// The person's role does not include the page.
    NoRole,
    /// Another site sent the request.
    Foreign,
    /// The form has not the token of this session.
    NoFormToken,
    /// The form is not one of ours.
    BadForm(&'static str),
    /// The person signed out, or the session ended.
    SignedOut,
    /// The store does not answer.
    StoreAway(String),
}

impl From<JournalError> for PageFault {
    fn from(error: JournalError) -> Self {
        Self::StoreAway(error.to_string())
    }
}

impl From<DecideError> for PageFault {
    /// The fault of looking at a ticket; a decision has more to say about itself.
    fn from(error: DecideError) -> Self {
        match error {
            DecideError::NoTicket(_) => Self::NotFound,
            error => Self::StoreAway(error.to_string()),
        }
    }
}
