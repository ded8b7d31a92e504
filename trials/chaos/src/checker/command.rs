//! `chaos check`: the checker on recorded files.

use std::path::Path;

use super::{Listings, Verdict, check};

const USAGE: &str =
    "usage: chaos check --history FILE --books FILE [--books FILE]... [--ledger LISTING.json] [--grants LISTING.json]
  --history  what clients were told, one JSON line an event
  --books    an upstream's own file
  --ledger   what `servanda effects --json` printed when nothing was under way any more
  --grants   the uses of grants that `servanda grants show --json` printed then, by ticket";

/// Findings of each kind that are printed.
const EXAMPLES_MAX: usize = 5;

/// Reads the files, prints the findings, and returns whether there are none.
pub fn run(args: &[String]) -> Result<bool, String> {
    let (mut history, mut books, mut ledger, mut grants) = (None, Vec::new(), None, None);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut file = || args.next().ok_or_else(|| format!("{arg} needs a file\n{USAGE}")).and_then(|name| read(name));
        match arg.as_str() {
            "--history" => history = Some(file()?),
            "--books" => books.push(file()?),
            "--ledger" => ledger = Some(file()?),
            "--grants" => grants = Some(file()?),
            _ => return Err(format!("`{arg}` is not known\n{USAGE}")),
        }
    }
    let history = history.ok_or_else(|| format!("--history is missing\n{USAGE}"))?;
    if books.is_empty() {
        return Err(format!("--books is missing\n{USAGE}"));
    }
    let books: Vec<&str> = books.iter().map(String::as_str).collect();
    let verdict = check(&history, &books, Listings { effects: ledger.as_deref(), grants: grants.as_deref() })?;
    print(&verdict);
    Ok(verdict.is_clean())
}

fn print(verdict: &Verdict) {
    for finding in verdict.examples(EXAMPLES_MAX) {
        println!("LIE {finding}");
    }
    println!("{verdict}");
}

fn read(name: &str) -> Result<String, String> {
    std::fs::read_to_string(Path::new(name)).map_err(|error| format!("{name}: {error}"))
}
