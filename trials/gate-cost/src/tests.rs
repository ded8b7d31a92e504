//! What is said about the cost of gate 6 holds. Instructions depend on the compiler and are only reported; allocations do not.

use crate::{cases, cases::Case, counted::allocations_of};

fn case(what: &str) -> Case {
    let mut found: Vec<Case> = cases::all().into_iter().filter(|case| case.what == what).collect();
    assert_eq!(found.len(), 1, "{what}");
    found.remove(0)
}

#[test]
fn a_gate_that_has_nothing_to_read_asks_for_no_memory() {
    for what in [
        "nothing expected, no program among the arguments",
        "expected by a task, no program",
        "expected by a task, 2 kB of SQL with CTEs, not read",
    ] {
        assert_eq!(allocations_of(&case(what)).behaviour, 0, "{what}");
    }
}

#[test]
fn an_expectation_adds_nothing_to_the_other_gates() {
    for (with, without) in [
        ("expected by a task, no program", "nothing expected, no program among the arguments"),
        ("expected by a task, short SELECT", "nothing expected, short SELECT"),
    ] {
        assert_eq!(allocations_of(&case(with)), allocations_of(&case(without)), "{with}");
    }
}

/// The count would notice: whoever reads a program asks for memory, and asks for more the longer it is.
#[test]
fn reading_a_program_is_counted() {
    let short = allocations_of(&case("nothing expected, short SELECT"));
    let long = allocations_of(&case("expected by a task, 2 kB of SQL with CTEs"));
    assert!(0 < short.behaviour && short.behaviour < long.behaviour, "{short:?} {long:?}");
    assert!(short.behaviour < short.all && long.behaviour < long.all);
}

#[test]
fn counts_are_the_same_every_time() {
    for case in cases::all() {
        assert_eq!(allocations_of(&case), allocations_of(&case), "{}", case.what);
    }
}
