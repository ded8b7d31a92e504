//! Random and repeated texts for every reader of what agents, servers and operators send: words of its grammar in any order,
//! the same unit thousands of times, nested brackets, and changed copies of real texts.
//!
//! A reader passes if it returns: without a panic, within the stack of a worker thread, and within 50 ms of processor time for
//! every started 64 KB. This trial deliberately does not check whether its answers are right: the tests of the crates and the
//! red team do that.

mod drawing;
mod grammar;
mod json_text;
pub mod readers;
mod run;

pub use grammar::{Grammar, TEXT_BYTES_MAX, Texts};
pub use run::{CURRENT, Failure, Figures, LIMIT, on_a_small_stack, read_one, run};
