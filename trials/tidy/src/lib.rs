//! What the house looks like, as tests: crate edges are those ARCHITECTURE.md draws, modules refer to each
//! other without a cycle, files and functions stay small, nothing unwraps outside tests, every module says what it is for,
//! and every name means one thing.
//!
//! The rules are of the house style; an exception stands in a list here, with its reason.

#[cfg(test)]
mod edges;
#[cfg(test)]
mod modules;
#[cfg(test)]
mod source;
#[cfg(test)]
mod words;
