//! Instructions of a part of a call, or of whole calls, counted by callgrind: the same program is run in it, and everything between two
//! marks is counted, on all threads.

use std::{path::Path, process::Command};

use crate::counted::Part;

/// How often a call is made: the last is counted, when everything is there that is made once.
pub(crate) const CALLS: usize = 3;

/// Functions that callgrind begins and ends at, and which of the times that the second is entered is the one.
struct Marks {
    begin: &'static str,
    end: &'static str,
    time: usize,
}

/// Around a part of a call at the gates.
const PART: Marks = Marks { begin: "*part_begins*", end: "*part_ends*", time: CALLS };
/// Around all whole calls after those that warm up.
const WHOLE_CALLS: Marks = Marks { begin: "*calls_begin*", end: "*calls_end*", time: 1 };

/// Instructions of that part of the case of that number; none where there is no callgrind.
pub(crate) fn of(case: usize, part: Part) -> Option<u64> {
    counted(&PART, &[case.to_string(), word(part).to_owned()]).map_err(|error| eprintln!("{error}")).ok()
}

/// Instructions of the whole calls that the program makes with those arguments.
pub(crate) fn of_whole_calls(arguments: &[String]) -> Result<u64, String> {
    counted(&WHOLE_CALLS, arguments)
}

fn counted(marks: &Marks, arguments: &[String]) -> Result<u64, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    counted_in(folder.path(), marks, arguments)
}

fn counted_in(folder: &Path, marks: &Marks, arguments: &[String]) -> Result<u64, String> {
    let dump = folder.join("dump");
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let ran = Command::new("valgrind")
        .arg("--tool=callgrind")
        .arg(format!("--zero-before={}", marks.begin))
        .arg(format!("--dump-before={}", marks.end))
        .arg(format!("--callgrind-out-file={}", dump.display()))
        .arg(program)
        .args(arguments)
        .output()
        .map_err(|error| format!("valgrind cannot be run: {error}\nhint: apt-get install valgrind"))?;
    if !ran.status.success() {
        return Err(format!("callgrind: {}", String::from_utf8_lossy(&ran.stderr)));
    }
    let text =
        std::fs::read_to_string(folder.join(format!("dump.{}", marks.time))).map_err(|error| error.to_string())?;
    let totals = text.lines().find_map(|line| line.strip_prefix("totals:")?.trim().parse().ok());
    totals.ok_or_else(|| "callgrind counted nothing".to_owned())
}

/// The part, as an argument.
const fn word(part: Part) -> &'static str {
    match part {
        Part::All => "all",
        Part::Behaviour => "behaviour",
        Part::Scope => "scope",
        Part::Policy => "policy",
        Part::Marks => "marks",
    }
}

/// The part that an argument means.
pub(crate) fn part(word: &str) -> Option<Part> {
    [Part::All, Part::Behaviour, Part::Scope, Part::Policy, Part::Marks]
        .into_iter()
        .find(|part| self::word(*part) == word)
}
