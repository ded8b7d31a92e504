//! Every statement of the shared corpus of effects, judged and compared with what the engines and the system calls showed. The
//! corpus is read in place; if it is missing, the tests are skipped and counted, and fail in CI.

use std::fs;

use serde::Deserialize;
use servanda_identity::effects::{ProgramEffect, ProgramLanguage, classify};
use servanda_requirements::shared;

#[derive(Deserialize)]
struct Line {
    sql: Option<String>,
    shell: Option<String>,
    dialect: String,
    effect: ProgramEffect,
}

impl Line {
    fn text(&self) -> &str {
        self.sql.as_deref().or(self.shell.as_deref()).expect("a text")
    }

    fn language(&self) -> ProgramLanguage {
        ProgramLanguage::parse(&self.dialect).expect("a known dialect")
    }
}

/// The results for one kind of statement.
#[derive(Debug, Default)]
struct Score {
    mutating: usize,
    missed: Vec<String>,
    reads: usize,
    accused: usize,
    puzzled: usize,
}

impl Score {
    fn count(&mut self, label: ProgramEffect, verdict: ProgramEffect, text: &str) {
        if label == ProgramEffect::Read {
            self.reads += 1;
            self.puzzled += usize::from(verdict == ProgramEffect::Unknown);
            self.accused += usize::from(matches!(verdict, ProgramEffect::Write | ProgramEffect::Ddl));
        } else {
            self.mutating += 1;
            if verdict == ProgramEffect::Read {
                self.missed.push(text.to_owned());
            }
        }
    }

    fn assert_bars(&self, title: &str) {
        println!(
            "{title}: {} of {} changes called read, {} of {} reads called changes, {} called unknown",
            self.missed.len(),
            self.mutating,
            self.accused,
            self.reads,
            self.puzzled
        );
        assert!(self.mutating > 500 && self.reads > 1_000, "{title}: the corpus is not whole");
        assert!(self.missed.len() * 1_000 <= 3 * self.mutating, "{title}: changes called read: {:#?}", self.missed);
        assert!(
            self.accused * 100 <= 2 * self.reads,
            "{title}: {} of {} reads called changes",
            self.accused,
            self.reads
        );
        assert!(
            self.puzzled * 100 <= 12 * self.reads,
            "{title}: {} of {} reads called unknown",
            self.puzzled,
            self.reads
        );
    }
}

/// The corpus beside the workspace, or beside the folder of a worktree.
fn corpus() -> Option<Vec<Line>> {
    let text = fs::read_to_string(shared("corpora/effects/effects.jsonl")?).expect("the corpus can be read");
    Some(text.lines().map(|line| serde_json::from_str(line).expect("a line of the corpus")).collect())
}

#[test]
fn the_corpus_of_effects_is_within_its_bars() {
    let Some(lines) = corpus() else { return };
    let (mut sql, mut shell) = (Score::default(), Score::default());
    for line in &lines {
        let verdict = classify(line.language(), line.text());
        let kind = if line.sql.is_some() { &mut sql } else { &mut shell };
        kind.count(line.effect, verdict.effect, line.text());
    }
    sql.assert_bars("SQL");
    // Only a text that provably reads is called a read, so that no change passes. docs/behavioural-identity.md gives the cost
    // of that.
    println!("shell: {} of {} reads called unknown", shell.puzzled, shell.reads);
    assert!(shell.missed.is_empty(), "shell: changes called read: {:#?}", shell.missed);
    assert_eq!(shell.accused, 0, "nothing is said to change something without proof");
    assert!(
        shell.puzzled * 100 <= 56 * shell.reads,
        "shell: {} of {} reads called unknown",
        shell.puzzled,
        shell.reads
    );
}

/// Without the name of the engine a text must be harmless to all of them: no change may pass, but more reads stay unknown.
#[test]
fn no_change_of_the_corpus_passes_when_the_engine_is_not_stated() {
    let Some(lines) = corpus() else { return };
    let generic = ProgramLanguage::parse("sql").expect("sql");
    let passed = |line: &&Line| {
        line.sql.is_some()
            && line.effect != ProgramEffect::Read
            && classify(generic, line.text()).effect == ProgramEffect::Read
    };
    let passed: Vec<&str> = lines.iter().step_by(3).filter(passed).map(Line::text).collect();
    assert!(passed.is_empty(), "{passed:#?}");
}

/// Statements cut, doubled and garbled: nothing panics, and every text gets an answer.
#[test]
fn garbled_statements_of_the_corpus_make_nothing_panic() {
    const PIECES: &[char] = &['\'', '"', '(', ')', '$', '`', '*', '\\', ';', '\u{e9}', '{', '<', '/', '#', '-'];
    let Some(lines) = corpus() else { return };
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % u64::try_from(below.max(1)).expect("small")).expect("small")
    };
    for line in lines.iter().step_by(7) {
        let mut garbled: Vec<char> = line.text().chars().collect();
        for _ in 0..=random(4) {
            let (at, from) = (random(garbled.len() + 1), random(garbled.len() + 1));
            match random(4) {
                0 => garbled.truncate(at),
                1 => garbled.insert(at, PIECES[random(PIECES.len())]),
                2 => {
                    let piece: Vec<char> = garbled.iter().skip(from).take(20).copied().collect();
                    garbled.splice(at..at, piece);
                }
                _ => {
                    garbled.drain(at.min(from)..at.max(from).min(at.min(from) + 5));
                }
            }
        }
        let garbled: String = garbled.into_iter().collect();
        for language in [line.language(), ProgramLanguage::Shell, ProgramLanguage::parse("sql").expect("sql")] {
            assert!(!classify(language, &garbled).why.is_empty());
        }
    }
}
