//! What a client hands in through a door and what it is told: its requests, its answers, news, and what servers say meanwhile. Doors and
//! every room of the engine share these types. Deliberately not here: wire formats of doors, and anything that decides about a request.

mod answer;
mod requester;
mod change_event;
mod client_message;
mod request;
pub(crate) mod strict_json;
mod watch;

pub(crate) use self::{answer::CallDetail, requester::for_recorded_caller};
pub use self::{
    answer::{CallAnswer, InquiryAnswer, ToolResult},
    requester::{Requester, local_authority},
    change_event::ChangeEvent,
    client_message::{PendingQuestion, ClientMessage, ClientMessageSink},
    request::{CallRequest, AnswerDetail, Inquiry, JUDGED_AT_ONCE_BYTES_MAX, InquirySubject, RequestTerms},
    watch::ResourceWatchGuard,
};
