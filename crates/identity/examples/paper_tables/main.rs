//! Rebuilds the tables of `docs/behavioural-identity.md` from the lists of the paper's four servers and the corpus of tools:
//! `cargo run -p servanda-identity --example paper_tables -- PAPER-SERVERS.json TOOLS.jsonl docs/behavioural-identity.md`.
//!
//! The lists are read in place. Only the text between the two marks of the document is replaced.
#![allow(clippy::print_stderr, reason = "the output of a program")]
#![allow(clippy::indexing_slicing, reason = "what a JSON value does not have is null")]

mod declared;
mod groups;
mod tables;

use std::{error::Error, fs, process::ExitCode};

const BEGIN: &str = "<!-- tables: begin, made by `make identity-tables` -->\n";
const END: &str = "<!-- tables: end -->\n";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [servers, corpus, document] = arguments.as_slice() else {
        eprintln!(
            "error: three files are needed\nhint: paper_tables PAPER-SERVERS.json TOOLS.jsonl docs/behavioural-identity.md"
        );
        return ExitCode::from(2);
    };
    match rebuild(servers, corpus, document) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn rebuild(servers: &str, corpus: &str, document: &str) -> Result<(), Box<dyn Error>> {
    let read = |file: &str| fs::read_to_string(file).map_err(|error| format!("{file}: {error}"));
    let tools = tables::read(&serde_json::from_str(&read(servers)?)?)?;
    let mut made = tables::write(&tools)?;
    groups::write(&mut made, &groups::read(&read(corpus)?)?)?;
    let text = read(document)?;
    let (before, rest) = text.split_once(BEGIN).ok_or("the document has no mark where the tables begin")?;
    let (_, after) = rest.split_once(END).ok_or("the document has no mark where the tables end")?;
    fs::write(document, format!("{before}{BEGIN}{made}{END}{after}"))?;
    Ok(())
}
