//! What a call costs at the gates, and what of that are gates 6, 7 and 8: instructions and allocations, counted and not timed, so that a
//! busy machine says the same as a quiet one. Without arguments it prints the tables; with a case's number and a part it makes that call.

mod cases;
mod counted;
mod counting;
mod instructions;
#[cfg(test)]
mod resident;
mod rules;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

use cases::Case;
use counted::Part;
use counting::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (of_behaviour, of_rules) = (cases::all(), cases::ruled());
    let Some(number) = arguments.first() else {
        report(&of_behaviour);
        println!();
        report_rules(&of_rules, of_behaviour.len());
        return ExitCode::SUCCESS;
    };
    let cases: Vec<Case> = of_behaviour.into_iter().chain(of_rules).collect();
    let case = number.parse().ok().and_then(|number: usize| cases.get(number));
    let part = arguments.get(1).and_then(|word| instructions::part(word));
    let Some((case, part)) = case.zip(part) else {
        eprintln!("usage: gate-cost [NUMBER all|behaviour|scope|policy|marks]");
        return ExitCode::from(2);
    };
    for _ in 0..instructions::CALLS {
        counted::verdicts(case, part);
    }
    ExitCode::SUCCESS
}

/// Prints the table.
fn report(cases: &[Case]) {
    let marks = instructions::of(0, Part::Marks);
    if marks.is_none() {
        eprintln!("there is no valgrind here: instructions are not counted");
    }
    println!("| call | all gates: instructions | allocations | gate 6: instructions | allocations |");
    println!("|---|--:|--:|--:|--:|");
    for (number, case) in cases.iter().enumerate() {
        let counted = |part| {
            let counted = instructions::of(number, part).zip(marks);
            counted.map_or_else(|| "-".to_owned(), |(counted, marks)| grouped(counted.saturating_sub(marks)))
        };
        let allocations = counted::allocations_of(case);
        let (all, behaviour) = (counted(Part::All), counted(Part::Behaviour));
        println!("| {} | {all} | {} | {behaviour} | {} |", case.what, allocations.all, allocations.behaviour);
    }
}

/// Prints the table of gates 7 and 8; the numbers of its cases begin after the others.
fn report_rules(cases: &[Case], first: usize) {
    let marks = instructions::of(0, Part::Marks);
    println!("| call | gate 7: instructions | allocations | gate 8: instructions | allocations |");
    println!("|---|--:|--:|--:|--:|");
    for (number, case) in cases.iter().enumerate() {
        let counted = |part| {
            let counted = instructions::of(first + number, part).zip(marks);
            counted.map_or_else(|| "-".to_owned(), |(counted, marks)| grouped(counted.saturating_sub(marks)))
        };
        let allocations = counted::allocations_of(case);
        let (scope, policy) = (counted(Part::Scope), counted(Part::Policy));
        println!("| {} | {scope} | {} | {policy} | {} |", case.what, allocations.scope, allocations.policy);
    }
}

/// A number that can be read.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let first = digits.len() % 3;
    let (head, tail) = digits.split_at(first);
    let groups = tail.as_bytes().chunks(3).filter_map(|group| std::str::from_utf8(group).ok());
    Some(head).filter(|head| !head.is_empty()).into_iter().chain(groups).collect::<Vec<_>>().join(" ")
}
