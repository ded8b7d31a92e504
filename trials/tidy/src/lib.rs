//! The house rules as tests: crate edges are those that ARCHITECTURE.md draws, modules refer to each other without a cycle,
//! calls await no `async fn` of another crate, files and functions stay small, nothing unwraps outside tests, every module says
//! what it is for, and every name means one thing. The threats that the documents answer have tests.
//!
//! The rules are those of the house style; every exception is in a list here, with its reason.

#[cfg(test)]
mod edges;
#[cfg(test)]
mod futures;
#[cfg(test)]
mod modules;
#[cfg(test)]
mod source;
#[cfg(test)]
mod threats;
#[cfg(test)]
mod words;
