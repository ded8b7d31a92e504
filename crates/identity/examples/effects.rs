//! Judges the statements of a JSONL file, one line of JSON per statement, in order: `cargo run -p servanda-identity --release --example
//! effects -- FILE.jsonl [--score [--part dev|held] [--show KIND]]`.
//!
//! A line of input has `sql` and `dialect`, or `shell`. `--score` compares with the labels (`effect`) instead and prints
//! confusion tables and the bars of the effects corpus; `--part` takes the half of the statements whose digest is even (`dev`)
//! or odd (`held`); `--show` lists the statements of a cell, such as `sqlite:read:unknown`.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::collections::BTreeMap;
use std::fs;
use std::process::ExitCode;

use serde::Deserialize;
use servanda_identity::effects::{ProgramEffect, ProgramLanguage, ProgramVerdict, classify};
use sha2::{Digest, Sha256};

#[derive(Deserialize)]
struct Line {
    sql: Option<String>,
    shell: Option<String>,
    dialect: Option<String>,
    effect: Option<ProgramEffect>,
    #[serde(default)]
    why: String,
    #[serde(default)]
    source: String,
}

impl Line {
    fn text(&self) -> &str {
        self.sql.as_deref().or(self.shell.as_deref()).unwrap_or_default()
    }

    fn language(&self) -> Option<ProgramLanguage> {
        let fallback = if self.shell.is_some() { "shell" } else { "sql" };
        ProgramLanguage::parse(self.dialect.as_deref().unwrap_or(fallback))
    }

    fn in_part(&self, part: &str) -> bool {
        let digest = Sha256::digest(self.text().as_bytes());
        let odd = digest.get(3).is_some_and(|byte| byte % 2 == 1);
        match part {
            "dev" => !odd,
            "held" => odd,
            _ => true,
        }
    }
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (mut file, mut score, mut part, mut show) = (None, false, String::new(), None);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--score" => score = true,
            "--part" => part = arguments.next().unwrap_or_default(),
            "--show" => show = arguments.next(),
            _ => file = Some(argument),
        }
    }
    let Some(file) = file else {
        eprintln!("no file given\nhint: effects FILE.jsonl [--score [--part dev|held] [--show sqlite:read:unknown]]");
        return ExitCode::from(2);
    };
    let text = match fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) => {
            eprintln!("cannot read {file}: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut tables = Tables::default();
    for (number, line) in text.lines().enumerate() {
        let line: Line = match serde_json::from_str(line) {
            Ok(line) => line,
            Err(error) => {
                eprintln!("line {}: {error}", number + 1);
                return ExitCode::FAILURE;
            }
        };
        if !line.in_part(&part) {
            continue;
        }
        let Some(language) = line.language() else {
            eprintln!("line {}: the dialect is not known", number + 1);
            return ExitCode::FAILURE;
        };
        let verdict = classify(language, line.text());
        if score {
            tables.count(&line, &verdict, show.as_deref());
        } else {
            println!("{}", serde_json::to_string(&verdict).unwrap_or_default());
        }
    }
    if score && !tables.print() {
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Counts by dialect, label and verdict.
#[derive(Default)]
struct Tables {
    counts: BTreeMap<(String, Name, Name), usize>,
}

/// The name of an effect, which has an order for tables.
type Name = &'static str;

fn name(effect: ProgramEffect) -> Name {
    match effect {
        ProgramEffect::Read => "read",
        ProgramEffect::Write => "write",
        ProgramEffect::Ddl => "ddl",
        ProgramEffect::Unknown => "unknown",
    }
}

impl Tables {
    fn count(&mut self, line: &Line, verdict: &ProgramVerdict, show: Option<&str>) {
        let Some(label) = line.effect else { return };
        let dialect = line.dialect.clone().unwrap_or_else(|| "sql".to_owned());
        let cell = format!("{dialect}:{}:{}", name(label), name(verdict.effect));
        if show == Some(cell.as_str()) {
            println!(
                "{} | {} | {} | {}",
                verdict.why,
                line.why,
                line.source.rsplit('/').next().unwrap_or_default(),
                line.text().replace('\n', " ")
            );
        }
        *self.counts.entry((dialect, name(label), name(verdict.effect))).or_default() += 1;
    }

    fn print(&self) -> bool {
        println!("{:<12} {:<6} {:>7} {:>7} {:>7} {:>8}", "dialect", "label", "read", "write", "ddl", "unknown");
        let mut rows: BTreeMap<(&str, &str), [usize; 4]> = BTreeMap::new();
        for ((dialect, label, verdict), count) in &self.counts {
            let column = ["read", "write", "ddl", "unknown"].iter().position(|name| name == verdict).unwrap_or(3);
            if let Some(cell) = rows.entry((dialect, label)).or_default().get_mut(column) {
                *cell += count;
            }
        }
        for ((dialect, label), [read, write, ddl, unknown]) in &rows {
            println!("{dialect:<12} {label:<6} {read:>7} {write:>7} {ddl:>7} {unknown:>8}");
        }
        let shell = |dialect: &str| dialect == "bash";
        let sql = self.bars("SQL", |dialect| !shell(dialect));
        let bash = self.bars("shell", shell);
        let all = self.bars("all", |_| true);
        sql && bash && all
    }

    fn bars(&self, title: &str, of: impl Fn(&str) -> bool) -> bool {
        let sum = |label_read: bool, fits: &dyn Fn(&str) -> bool| -> usize {
            self.counts
                .iter()
                .filter(|((dialect, label, verdict), _)| {
                    of(dialect) && (*label == "read") == label_read && fits(verdict)
                })
                .map(|(_, count)| count)
                .sum()
        };
        let (mutating, reads) = (sum(false, &|_| true), sum(true, &|_| true));
        let missed = sum(false, &|verdict| verdict == "read");
        let accused = sum(true, &|verdict| verdict == "write" || verdict == "ddl");
        let puzzled = sum(true, &|verdict| verdict == "unknown");
        let per_thousand = |part: usize, whole: usize| (part * 100_000).checked_div(whole).unwrap_or(0);
        let percent =
            |part, whole| format!("{}.{:03} %", per_thousand(part, whole) / 1000, per_thousand(part, whole) % 1000);
        println!(
            "{title}: mutating called read {missed}/{mutating} = {} (bar 0.3), reads called mutating {accused}/{reads} = {} (bar 2), reads called unknown {puzzled}/{reads} = {} (bar 10)",
            percent(missed, mutating),
            percent(accused, reads),
            percent(puzzled, reads)
        );
        missed * 1000 <= 3 * mutating && accused * 100 <= 2 * reads && puzzled * 10 <= reads
    }
}
