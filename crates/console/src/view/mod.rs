//! What every page has: its frame, and times in words.

mod frame;
mod moment;

pub(crate) use self::{
    frame::{PageFrame, PageNotice},
    moment::{Moment, duration_in_words},
};
