//! The stages of a call, one line each. What a line says comes from the record's own words, which pages show too.

use servanda_contract::{
    CallRecord, GateName,
    record::{CallStage, StageStanding},
};

use crate::screen::{TextStyle, paint};

/// The line of one stage.
pub(super) fn stage(gate: GateName, record: &CallRecord) -> String {
    let number = gate.number().map_or_else(|| "  ".to_owned(), |number| format!("{number:>2}"));
    let stage = CallStage::new(gate, record);
    // A question that was answered is followed by how long that took.
    let took =
        stage.took().filter(|_| stage.detail == gate.question()).map_or_else(String::new, |took| format!(" ({took})"));
    let CallStage { standing, word, detail, .. } = stage;
    let (style, word) = match standing {
        StageStanding::Silent => (TextStyle::Quiet, word.to_owned()),
        StageStanding::Passed => (TextStyle::Good, format!("{word:<7}")),
        StageStanding::Ended => (TextStyle::Bad, format!("{:<7}", word.to_uppercase())),
        StageStanding::Open => (TextStyle::Careful, format!("{:<7}", word.to_uppercase())),
    };
    format!("  {number} {:<13} {}  {detail}{took}", gate.to_string(), paint(&word, style)).trim_end().to_owned()
}
