//! Classifies the tools of a file, one JSON line each: `cargo run -p servanda-identity --release --example classify -- FILE.jsonl
//! [--without-names] [--ignore-annotations] [--score]`
//!
//! `--score` adds the agreement with the authors' own `readOnlyHint` on stderr; hints are withheld for it.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the output of a program")]

use std::{collections::BTreeMap, io::Write as _, process::ExitCode};

use serde::{Deserialize, Serialize};
use servanda_contract::tool::{Action, ContentType, Mutability, OutputDomain};
use servanda_identity::classifier::{
    Classification, ClassificationEvidence, ClassifierOptions, Confidence, Descriptor, classify,
};

#[derive(Deserialize)]
struct Line {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    server: Option<String>,
    #[serde(flatten)]
    descriptor: Descriptor,
}

#[derive(Serialize)]
struct Answer<'a> {
    id: &'a str,
    mutability: Mutability,
    action: Action,
    output_domain: OutputDomain,
    content_type: Option<ContentType>,
    confidence: Confidence,
    evidence: ClassificationEvidence,
}

fn main() -> ExitCode {
    match run(&std::env::args().skip(1).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            eprintln!("hint: classify FILE.jsonl [--without-names] [--ignore-annotations] [--score]");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    let flag = |name: &str| arguments.iter().any(|argument| argument == name);
    let path = arguments.iter().find(|argument| !argument.starts_with("--")).ok_or("name a file")?;
    let score = flag("--score");
    let options =
        ClassifierOptions { names: !flag("--without-names"), annotations: !flag("--ignore-annotations") && !score };
    let text = std::fs::read_to_string(path)?;
    let mut tally = Tally::default();
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let line: Line = serde_json::from_str(line).map_err(|error| format!("line {}: {error}", number + 1))?;
        let found = classify(&line.descriptor, options);
        tally.add(&line, &found);
        let id = line.id.as_deref().unwrap_or(&line.descriptor.name);
        let Classification { behaviour, confidence, evidence, .. } = found;
        let answer = Answer {
            id,
            mutability: behaviour.mutability,
            action: behaviour.action,
            output_domain: behaviour.output_domain,
            content_type: behaviour.content_type,
            confidence,
            evidence,
        };
        serde_json::to_writer(&mut out, &answer)?;
        out.write_all(b"\n")?;
    }
    out.flush()?;
    if score {
        tally.print();
    }
    Ok(())
}

#[derive(Default)]
struct Tally {
    agree: u32,
    looks: u32,
    changes: u32,
    changes_called_pure: u32,
    by_server: BTreeMap<String, (u32, u32)>,
}

impl Tally {
    fn add(&mut self, line: &Line, found: &Classification) {
        let Some(read_only) = line.descriptor.annotations.and_then(|hints| hints.read_only_hint) else { return };
        let pure = found.behaviour.mutability == Mutability::Pure;
        let agrees = u32::from(read_only == pure);
        self.agree += agrees;
        self.looks += u32::from(read_only);
        self.changes += u32::from(!read_only);
        self.changes_called_pure += u32::from(!read_only && pure);
        let server = self.by_server.entry(line.server.clone().unwrap_or_default()).or_default();
        server.0 += agrees;
        server.1 += 1;
    }

    fn print(&self) {
        let percent = |part: u32, whole: u32| 100.0 * f64::from(part) / f64::from(whole.max(1));
        let total = self.looks + self.changes;
        let servers = u32::try_from(self.by_server.len()).unwrap_or(u32::MAX).max(1);
        let by_server: f64 =
            self.by_server.values().map(|(agree, tools)| percent(*agree, *tools)).sum::<f64>() / f64::from(servers);
        eprintln!("{total} tools with a readOnlyHint on {servers} servers");
        eprintln!("agrees           {:6.2} %", percent(self.agree, total));
        eprintln!("averaged by server {by_server:4.2} %");
        let leaked = self.changes_called_pure;
        eprintln!("not read-only, came out PURE {leaked} of {} ({:.2} %)", self.changes, percent(leaked, self.changes));
    }
}
