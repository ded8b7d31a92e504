//! Sessions: who is behind a browser, since when, and until when.
//!
//! A session is a random token in a cookie; the store has its hash. Whatever a browser sends that the gateway did not give it is no session.
//! Deliberately not here: how people sign in, and what they may do.

mod record;
mod sessions;
mod token;

pub use self::sessions::SESSIONS_PER_PERSON_MAX;
pub(crate) use self::{
    record::SessionRecord,
    sessions::{Sessions, SignedIn},
    token::SessionToken,
};
