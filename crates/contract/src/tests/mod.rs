//! The nouns against the specification, read in place, and against golden files.

mod admission;
mod pages;
mod shapes;
mod sharing;
mod specification;
mod taxonomy;
