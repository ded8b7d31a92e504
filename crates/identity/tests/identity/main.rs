//! What this crate promises, from outside.

mod classifier;
mod effects;
mod vectors;
