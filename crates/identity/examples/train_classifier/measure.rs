//! The figures: agreement with authors, averaged by server, and how many changes were classified as reads.

use std::{collections::BTreeMap, fmt::Write as _, path::Path};

use servanda_contract::tool::Mutability;
use servanda_identity::classifier::{
    ClassifierOptions,
    training::{ClassifierModel, classify_with},
};

use crate::corpus::Tool;

/// Whether a tool mutates, with its name and without.
pub(crate) type Verdict = (bool, bool);

/// A model's result for a tool, with hints withheld.
pub(crate) fn verdict(model: &ClassifierModel, tool: &Tool) -> Verdict {
    let mutates = |names| {
        let found = classify_with(model, &tool.descriptor, ClassifierOptions { names, annotations: false });
        found.behaviour.mutability == Mutability::Mutates
    };
    (mutates(true), mutates(false))
}

/// Prints the bars against the authors' hints and against our own judgements.
pub(crate) fn report(tools: &[Tool], verdicts: &[Option<Verdict>], judged: &BTreeMap<String, bool>) {
    for (whose, names) in [("authors", true), ("authors", false), ("ours", true), ("ours", false)] {
        let mut tally = Tally::default();
        for (tool, verdict) in tools.iter().zip(verdicts) {
            let truth = if whose == "authors" { tool.author_mutates() } else { judged.get(&tool.id).copied() };
            let (Some(truth), Some(verdict)) = (truth, verdict) else { continue };
            tally.add(&tool.server, truth, if names { verdict.0 } else { verdict.1 });
        }
        println!("  {whose}, {}: {tally}", if names { "with names" } else { "without names" });
    }
}

#[derive(Default)]
struct Tally<'a> {
    /// By truth (mutates) and verdict (mutates).
    matrix: [[usize; 2]; 2],
    by_server: BTreeMap<&'a str, (f64, f64)>,
}

impl<'a> Tally<'a> {
    fn add(&mut self, server: &'a str, truth: bool, said: bool) {
        self.matrix[usize::from(truth)][usize::from(said)] += 1;
        let entry = self.by_server.entry(server).or_default();
        entry.0 += if truth == said { 1.0 } else { 0.0 };
        entry.1 += 1.0;
    }
}

impl std::fmt::Display for Tally<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [[pure_pure, pure_mutates], [mutates_pure, mutates_mutates]] =
            self.matrix.map(|row| row.map(|count| f64::from(u32::try_from(count).unwrap_or(u32::MAX))));
        let total = pure_pure + pure_mutates + mutates_pure + mutates_mutates;
        let servers = f64::from(u32::try_from(self.by_server.len()).unwrap_or(u32::MAX));
        let by_server: f64 = self.by_server.values().map(|(right, total)| right / total).sum::<f64>() / servers;
        write!(
            formatter,
            "{:.2} % of {total} agree, {:.2} % by server, {mutates_pure} of {} changes came out PURE ({:.2} %), {pure_mutates} of {} looks came out MUTATES",
            100.0 * (pure_pure + mutates_mutates) / total,
            100.0 * by_server,
            mutates_pure + mutates_mutates,
            100.0 * mutates_pure / (mutates_pure + mutates_mutates),
            pure_pure + pure_mutates,
        )
    }
}

/// Writes the disagreements with authors: id, what the author says, what we say with the name and without.
pub(crate) fn write_disagreements(tools: &[Tool], verdicts: &[Option<Verdict>], path: &Path) -> std::io::Result<()> {
    let word = |mutates: bool| if mutates { "MUTATES" } else { "PURE" };
    let mut text = String::new();
    for (tool, verdict) in tools.iter().zip(verdicts) {
        if let (Some(truth), Some((named, unnamed))) = (tool.author_mutates(), verdict)
            && (truth != *named || truth != *unnamed)
        {
            let _ = writeln!(text, "{}\t{}\t{}\t{}", tool.id, word(truth), word(*named), word(*unnamed));
        }
    }
    std::fs::write(path, text)
}
