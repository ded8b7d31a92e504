//! What this crate promises, from outside.

#[cfg(test)]
mod classifier;
#[cfg(test)]
mod effects;
