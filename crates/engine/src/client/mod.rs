//! What a client hands in through a door and what it is told: its requests, its answers, news, and what servers say meanwhile. Doors and
//! every room of the engine share these types. Deliberately not here: wire formats of doors, and anything that decides about a request.

mod answer;
mod guest;
mod news;
mod remark;
mod request;
pub(crate) mod strict;
mod watch;

pub(crate) use self::{answer::Rest, guest::on_record};
pub use self::{
    answer::{CallAnswer, InquiryAnswer, ToolResult},
    guest::{Guest, local_authority},
    news::News,
    remark::{Ask, Remark, RemarkSink},
    request::{CallRequest, Detail, Inquiry, JUDGED_AT_ONCE_BYTES_MAX, Subject, Terms},
    watch::Watch,
};
