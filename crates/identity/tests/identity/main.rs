//! What this crate promises, from outside.

mod effects;
mod vectors;
