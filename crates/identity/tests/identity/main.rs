//! The crate from outside, on the shared corpora.

mod effects;
