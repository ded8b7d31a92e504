//! What every page has: its frame, and times in words.

mod frame;
mod moment;

pub(crate) use self::{
    frame::{FilterLink, PageFrame, PageNotice},
    moment::{Moment, duration_in_words},
};
