//! The crate from outside.

#[cfg(test)]
mod classifier;
