//! What this crate promises, from outside.

mod vectors;
