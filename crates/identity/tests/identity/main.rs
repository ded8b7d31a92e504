//! The crate from outside, on the shared corpora.

#[cfg(test)]
mod effects;
