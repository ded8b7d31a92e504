//! What a call costs: at the gates, and what of that are gates 6, 7 and 8; and as a whole, from the bytes at the door to the record.
//! Instructions and allocations are counted and not timed, so that a busy machine says the same as a quiet one. Without arguments it prints
//! the tables; `check` holds whole calls to the golden figures; with other arguments it makes the calls that are counted.

mod cases;
mod counted;
mod counting;
mod instructions;
#[cfg(test)]
mod resident;
mod rules;
#[cfg(test)]
mod tests;
mod whole_call;

use std::process::ExitCode;

use cases::Case;
use counted::Part;
use counting::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        [] => {
            report_all();
            Some(())
        }
        ["check"] => return whole_call::guard::check(),
        ["call", era, calls, log] => make_whole_calls(era, calls, log),
        [number, part] => make_call(number, part),
        _ => None,
    };
    if done.is_none() {
        eprintln!("usage: gate-cost [check | call legacy|modern COUNT log|no-log | NUMBER all|behaviour|scope|policy|marks]");
        return ExitCode::from(2);
    }
    ExitCode::SUCCESS
}

/// Makes whole calls, and says what they ask of the allocator: how often, and for how many bytes.
fn make_whole_calls(era: &str, calls: &str, log: &str) -> Option<()> {
    let era = whole_call::Era::of(era)?;
    let call = whole_call::MeasuredCall::ALL.into_iter().find(|call| call.era == era && call.log_word() == log)?;
    let asked = whole_call::make(call, calls.parse().ok()?);
    println!("{} {}", asked.allocations, asked.bytes);
    Some(())
}

/// Makes the call of a case at the gates.
fn make_call(number: &str, part: &str) -> Option<()> {
    let cases: Vec<Case> = cases::all().into_iter().chain(cases::ruled()).collect();
    let (case, part) = (cases.get(number.parse::<usize>().ok()?)?, instructions::part(part)?);
    for _ in 0..instructions::CALLS {
        counted::verdicts(case, part);
    }
    Some(())
}

/// Prints all tables.
fn report_all() {
    let (of_behaviour, of_rules) = (cases::all(), cases::ruled());
    report(&of_behaviour);
    println!();
    report_rules(&of_rules, of_behaviour.len());
    println!();
    report_whole_calls();
}

/// Prints what a whole call takes, from the door to the record.
fn report_whole_calls() {
    match whole_call::measure::all() {
        Ok(measured) => {
            println!("| whole call of a read | instructions | allocations | bytes asked for |");
            println!("|---|--:|--:|--:|");
            for (call, figures) in measured {
                let (instructions, bytes) = (grouped(figures.instructions), grouped(figures.bytes));
                println!("| {} | {instructions} | {} | {bytes} |", call.words(), figures.allocations);
            }
        }
        Err(error) => eprintln!("whole calls are not counted: {error}"),
    }
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
            let counted = marks.and_then(|marks| Some(instructions::of(number, part)?.saturating_sub(marks)));
            counted.map_or_else(|| "-".to_owned(), grouped)
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
            let counted = marks.and_then(|marks| Some(instructions::of(first + number, part)?.saturating_sub(marks)));
            counted.map_or_else(|| "-".to_owned(), grouped)
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
