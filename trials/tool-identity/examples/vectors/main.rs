//! `cargo run -p tool-identity --example vectors -- FILE`: runs a file of tool-identity vectors and says which failed.
//!
//! Data goes to stdout. Exits with 1 if a vector of the core tier failed, with 2 if the file cannot be read.

mod runner;

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use serde_json::Value;

fn main() -> ExitCode {
    match run() {
        Ok(core_failed) => ExitCode::from(u8::from(core_failed)),
        Err(reason) => {
            let _ = writeln!(io::stderr(), "error: {reason}\nhint: give a file of vectors: --example vectors -- FILE");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<bool, Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("no file was given")?;
    let file: Value = serde_json::from_slice(&std::fs::read(path)?)?;
    let report = runner::run(&file).ok_or("the file has no `vectors`")?;
    writeln!(io::stdout(), "{report}")?;
    Ok(report.core_failed())
}
