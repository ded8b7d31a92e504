//! Instructions of a part of a call, counted by callgrind: the same program is run in it, and everything between the marks of the
//! last call is counted.

use std::{path::Path, process::Command};

use crate::counted::Part;

/// How often a call is made: the last is counted, when everything is there that is made once.
pub(crate) const CALLS: usize = 3;

/// Instructions of that part of the case of that number; none where there is no callgrind.
pub(crate) fn of(case: usize, part: Part) -> Option<u64> {
    let folder = std::env::temp_dir().join(format!("gate-cost-{}", std::process::id()));
    std::fs::create_dir_all(&folder).ok()?;
    let counted = counted_in(&folder, case, part);
    let _ = std::fs::remove_dir_all(&folder);
    counted
}

fn counted_in(folder: &Path, case: usize, part: Part) -> Option<u64> {
    let dump = folder.join("dump");
    let ran = Command::new("valgrind")
        .args(["--tool=callgrind", "--zero-before=*part_begins*", "--dump-before=*part_ends*"])
        .arg(format!("--callgrind-out-file={}", dump.display()))
        .arg(std::env::current_exe().ok()?)
        .args([case.to_string().as_str(), word(part)])
        .output()
        .ok()?;
    if !ran.status.success() {
        eprintln!("callgrind: {}", String::from_utf8_lossy(&ran.stderr));
        return None;
    }
    let text = std::fs::read_to_string(folder.join(format!("dump.{CALLS}"))).ok()?;
    text.lines().find_map(|line| line.strip_prefix("totals:")?.trim().parse().ok())
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
