//! Holds whole calls to the golden figures, in both directions: a call that takes more has become slower, and one that takes less has
//! become faster, which the golden figures have to say before somebody takes it back unnoticed.

use std::process::ExitCode;

use super::{
    MeasuredCall,
    golden::{self, Tolerance},
    measure,
};
use crate::grouped;

/// Where the golden figures are.
const PLACE: &str = "trials/gate-cost/src/whole_call/golden.rs";

/// One figure of a call.
struct Figure {
    what: &'static str,
    golden: u64,
    measured: u64,
    tolerance: Tolerance,
}

/// Measures and compares. What is wrong is told on standard error.
pub(crate) fn check() -> ExitCode {
    if !cfg!(debug_assertions) {
        eprintln!("error: the golden figures are those of a debug build\nhint: `make gate-cost-check` makes one");
        return ExitCode::from(2);
    }
    let measured = match measure::all() {
        Ok(measured) => measured,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    let complaints: Vec<String> =
        measured.into_iter().flat_map(|(call, figures)| compared(call, figures)).filter_map(Result::err).collect();
    for complaint in &complaints {
        eprintln!("{complaint}");
    }
    if complaints.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What is to be said about each figure of a call.
fn compared(call: MeasuredCall, measured: measure::Figures) -> Vec<Result<(), String>> {
    let golden = golden::of(call);
    let figure = |what, golden, measured, tolerance| Figure { what, golden, measured, tolerance };
    let mut figures = vec![
        figure("allocations", golden.allocations, measured.allocations, golden::ALLOCATIONS),
        figure("bytes asked for", golden.bytes, measured.bytes, golden::BYTES),
    ];
    if cfg!(target_arch = "x86_64") {
        figures.push(figure("instructions", golden.instructions, measured.instructions, golden::INSTRUCTIONS));
    } else {
        eprintln!("instructions are not compared: the golden ones are those of x86-64");
    }
    for Figure { what, golden, measured, .. } in &figures {
        println!("a call ({}): {} {what}, golden {}", call.words(), grouped(*measured), grouped(*golden));
    }
    figures.iter().map(|figure| figure.judge(call)).collect()
}

impl Figure {
    fn judge(&self, call: MeasuredCall) -> Result<(), String> {
        let Self { what, golden, measured, tolerance } = *self;
        if measured.abs_diff(golden) * 1_000 <= golden * tolerance.permille {
            return Ok(());
        }
        let (golden_text, measured_text) = (grouped(golden), grouped(measured));
        let (whole, tenth) = (tolerance.permille / 10, tolerance.permille % 10);
        let hint = if measured > golden {
            format!(
                "the path of a call became slower: look for what was added to it; if it is worth that, write {measured} in {PLACE}"
            )
        } else {
            format!("the path of a call became faster: write {measured} in {PLACE}, so that it stays so")
        };
        Err(format!(
            "error: a whole call ({}) takes {measured_text} {what}; golden are {golden_text}, and {whole}.{tenth} % more or less are \
             let pass\nhint: {hint}",
            call.words()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(measured: u64) -> Result<(), String> {
        let tolerance = Tolerance { permille: 30 };
        Figure { what: "instructions", golden: 1_000_000, measured, tolerance }.judge(MeasuredCall::ALL[0])
    }

    #[test]
    fn a_figure_within_the_tolerance_passes() {
        for measured in [970_000, 1_000_000, 1_030_000] {
            assert_eq!(judged(measured), Ok(()), "{measured}");
        }
    }

    #[test]
    fn a_slower_call_and_a_faster_one_are_told_with_what_to_do() {
        let slower = judged(1_030_001).unwrap_err();
        assert!(slower.contains("takes 1 030 001 instructions; golden are 1 000 000, and 3.0 %"), "{slower}");
        assert!(slower.contains("\nhint: the path of a call became slower"), "{slower}");
        let faster = judged(969_999).unwrap_err();
        assert!(faster.contains("\nhint: the path of a call became faster: write 969999 in trials/"), "{faster}");
    }

    /// One allocation is more than is let pass.
    #[test]
    fn one_allocation_is_noticed() {
        for call in MeasuredCall::ALL {
            assert!(golden::of(call).allocations * golden::ALLOCATIONS.permille < 1_000, "{call:?}");
        }
    }
}
