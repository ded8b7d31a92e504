//! What this crate promises, tested from outside.

#[cfg(test)]
mod classifier;
#[cfg(test)]
mod effects;
