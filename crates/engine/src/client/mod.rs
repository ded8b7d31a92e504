//! What a client sends through a door and what it is told: its requests, its answers, changes, and what servers say meanwhile. Doors and
//! all parts of the engine share these types. Deliberately not here: wire formats of doors, and anything that decides about a request.

mod answer;
mod change_event;
mod client_message;
mod request;
mod requester;
pub(crate) mod strict_json;
mod watch;

pub(crate) use self::{answer::CallDetail, requester::for_recorded_caller};
pub use self::{
    answer::{CallAnswer, InquiryAnswer, ToolResult},
    change_event::ChangeEvent,
    client_message::{ClientMessage, ClientMessageSink, PendingQuestion},
    request::{AnswerDetail, CallRequest, Inquiry, InquirySubject, JUDGED_AT_ONCE_BYTES_MAX, RequestTerms},
    requester::{Requester, local_authority},
    watch::ResourceWatchGuard,
};
