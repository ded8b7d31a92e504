//! Rebuilds the tables of `docs/behavioural-identity.md` from the lists of the paper's four servers:
//! `cargo run -p servanda-identity --example paper_tables -- PAPER-SERVERS.json docs/behavioural-identity.md`.
//!
//! The lists are read in place. What stands between the two marks of the document is replaced, and nothing else.
#![allow(clippy::print_stderr, reason = "the output of a program")]
#![allow(clippy::indexing_slicing, reason = "what a JSON value does not have is null")]

mod declared;
mod tables;

use std::{error::Error, fs, process::ExitCode};

const BEGIN: &str = "<!-- tables: begin, made by `make identity-tables` -->\n";
const END: &str = "<!-- tables: end -->\n";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [servers, document] = arguments.as_slice() else {
        eprintln!("error: two files are needed\nhint: paper_tables PAPER-SERVERS.json docs/behavioural-identity.md");
        return ExitCode::from(2);
    };
    match rebuild(servers, document) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn rebuild(servers: &str, document: &str) -> Result<(), Box<dyn Error>> {
    let read = |file: &str| fs::read_to_string(file).map_err(|error| format!("{file}: {error}"));
    let tools = tables::read(&serde_json::from_str(&read(servers)?)?)?;
    let text = read(document)?;
    let (before, rest) = text.split_once(BEGIN).ok_or("the document has no mark where the tables begin")?;
    let (_, after) = rest.split_once(END).ok_or("the document has no mark where the tables end")?;
    fs::write(document, format!("{before}{BEGIN}{}{END}{after}", tables::write(&tools)?))?;
    Ok(())
}
