//! The table at the end: what ran, what happened more than once, what was lost, what stayed unknown.

use std::collections::BTreeMap;

use crate::{
    checker::{Lie, Verdict},
    matrix::{self, Outcome},
    trials::Ended,
    world::Store,
};

/// The most complaints of a schedule that are printed.
const WRONG_SHOWN_MAX: usize = 12;

/// The most findings of each kind that are printed.
const LIES_SHOWN_MAX: usize = 3;

/// The most reasons for unknown outcomes that are printed, the commonest first.
const REASONS_SHOWN_MAX: usize = 12;

/// The result of a random schedule.
#[derive(Debug)]
pub struct RandomFigures {
    pub store: Store,
    pub seconds: u64,
    pub keys: usize,
    pub attempts: usize,
    pub replayed: usize,
    pub duplicated: usize,
    pub lost: usize,
    pub unknown: usize,
    pub unknown_happened: usize,
    pub unknown_reasons: BTreeMap<String, usize>,
    pub disasters: BTreeMap<&'static str, u64>,
    pub wrong: Vec<String>,
    /// The result of the budget check, if calls cost money.
    pub budget: Option<String>,
    /// What the history checker says.
    pub checked: Option<Verdict>,
}

/// What is printed.
#[derive(Debug)]
pub struct Report {
    seed: u64,
    lines: Vec<String>,
    failures: usize,
    duplicated: usize,
}

impl RandomFigures {
    pub fn new(store: Store) -> Self {
        Self {
            store,
            seconds: 0,
            keys: 0,
            attempts: 0,
            replayed: 0,
            duplicated: 0,
            lost: 0,
            unknown: 0,
            unknown_happened: 0,
            unknown_reasons: BTreeMap::new(),
            disasters: BTreeMap::new(),
            wrong: Vec::new(),
            budget: None,
            checked: None,
        }
    }
}

impl Report {
    pub fn new(seed: u64) -> Self {
        Self { seed, lines: Vec::new(), failures: 0, duplicated: 0 }
    }

    pub fn add_matrix(&mut self, verdicts: &[matrix::Verdict]) {
        let (mut passed, mut failed, mut waiting) = (0, 0, BTreeMap::<String, Vec<&str>>::new());
        for verdict in verdicts {
            match &verdict.outcome {
                Outcome::Passed => passed += 1,
                Outcome::Failed(wrong) => {
                    failed += 1;
                    println!(
                        "FAILED {} {} ({} ms): {}",
                        verdict.store.name(),
                        verdict.name,
                        verdict.ms,
                        wrong.join("; ")
                    );
                }
                Outcome::NotYet(why) => waiting.entry(format!("not yet: {why}")).or_default().push(&verdict.name),
                Outcome::NotHere(why) => waiting.entry(format!("not here: {why}")).or_default().push(&verdict.name),
            }
        }
        for (why, names) in &waiting {
            println!("{why}: {}", names.join(" "));
        }
        let counted = |wanted: fn(&Outcome) -> bool| verdicts.iter().filter(|verdict| wanted(&verdict.outcome)).count();
        let not_here = counted(|outcome| matches!(outcome, Outcome::NotHere(_)));
        let not_yet = counted(|outcome| matches!(outcome, Outcome::NotYet(_)));
        let rows: std::collections::BTreeSet<u8> = verdicts
            .iter()
            .filter(|verdict| matches!(verdict.outcome, Outcome::Passed | Outcome::Failed(_)))
            .map(|verdict| verdict.row)
            .collect();
        let duplicated = verdicts.iter().filter(|verdict| verdict.duplicated).count();
        let unknown: Vec<bool> = verdicts.iter().filter_map(|verdict| verdict.unknown).collect();
        let store = verdicts.first().map_or("", |verdict| verdict.store.name());
        self.lines.push(format!(
            "{:<9} {:<8} rows {:>2}, cases {:>3} passed, {failed:>3} failed, {not_yet:>2} not yet, {not_here:>2} not here | effects > 1: {duplicated} | unknown: {} ({} had happened)",
            "matrix", store, rows.len(), passed, unknown.len(), unknown.iter().filter(|happened| **happened).count(),
        ));
        self.failures += failed;
        self.duplicated += duplicated;
    }

    pub fn add_random(&mut self, figures: &RandomFigures) {
        let store = figures.store.name();
        for wrong in figures.wrong.iter().take(WRONG_SHOWN_MAX) {
            println!("FAILED {store} random: {wrong}");
        }
        if figures.wrong.len() > WRONG_SHOWN_MAX {
            println!("FAILED {store} random: and {} more", figures.wrong.len() - WRONG_SHOWN_MAX);
        }
        let mut reasons: Vec<(&String, &usize)> = figures.unknown_reasons.iter().collect();
        reasons.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        for (reason, count) in reasons.into_iter().take(REASONS_SHOWN_MAX) {
            println!("unknown {store}: {count} × {reason}");
        }
        let disasters: Vec<String> = figures.disasters.iter().map(|(what, count)| format!("{count} {what}")).collect();
        self.lines.push(format!(
            "{:<9} {store:<8} {} s, schedules: {} keys in {} calls, {} replayed; {} | effects > 1: {} | lost: {} | unknown: {} ({} had happened) | other violations: {}",
            "random", figures.seconds, figures.keys, figures.attempts, figures.replayed, disasters.join(", "), figures.duplicated,
            figures.lost, figures.unknown, figures.unknown_happened, figures.wrong.len(),
        ));
        if let Some(budget) = &figures.budget {
            self.lines.push(format!("{:<9} {store:<8} {budget}", "budget"));
        }
        self.failures += figures.wrong.len();
        self.duplicated += figures.duplicated;
        let name = if figures.budget.is_some() { "budget" } else { "random" };
        match &figures.checked {
            Some(verdict) => self.add_checked(name, store, verdict),
            None => self.lines.push(format!(
                "{:<9} {store:<8} too long for the checker here: `chaos check` reads its files",
                "history"
            )),
        }
    }

    pub fn add_trials(&mut self, ended: &[Ended]) {
        for trial in ended {
            let (name, store) = (trial.name, trial.store.name());
            for wrong in trial.wrong.iter().take(WRONG_SHOWN_MAX) {
                println!("FAILED {store} {name}: {wrong}");
            }
            if let Some(why) = &trial.not_run {
                self.lines.push(format!("{name:<9} {store:<8} {why}"));
                self.failures += trial.wrong.len();
                continue;
            }
            let lies = trial.checked.as_ref().map_or(0, |verdict| verdict.findings.len());
            let verdict = if lies + trial.wrong.len() == 0 { "passed" } else { "FAILED" };
            self.lines.push(format!(
                "{name:<9} {store:<8} {verdict}, seed {}, {} s; {}; violations: {lies} by the checker, {} by the trial",
                trial.seed,
                trial.seconds,
                trial.figures.join(", "),
                trial.wrong.len(),
            ));
            self.failures += trial.wrong.len();
            if let Some(verdict) = &trial.checked {
                self.add_checked(name, store, verdict);
            }
        }
    }

    /// What the history checker says about a schedule or a trial.
    pub fn add_checked(&mut self, name: &str, store: &str, verdict: &Verdict) {
        for finding in verdict.examples(LIES_SHOWN_MAX) {
            println!("FAILED {store} {name}: {finding}");
        }
        self.lines.push(format!("{name:<9} {store:<8} history: {verdict}"));
        self.failures += verdict.findings.len();
        self.duplicated += verdict.count(&[Lie::EffectsMoreThanOne]);
    }

    /// Prints the table and returns whether everything is as expected.
    pub fn print(&self, expects_violations: bool) -> bool {
        println!();
        for line in &self.lines {
            println!("{line}");
        }
        println!("seed {}", self.seed);
        if expects_violations {
            let found = self.duplicated > 0;
            println!(
                "{}",
                if found {
                    "violations were found, as they should be"
                } else {
                    "NO VIOLATION WAS FOUND: this check can not fail"
                }
            );
            return found;
        }
        println!("{}", if self.failures == 0 { "no violation" } else { "VIOLATIONS" });
        self.failures == 0
    }
}
