//! Learns the classifier's weights from the corpus, measures them on families of servers they were not learnt from, and writes
//! them to a file. `cargo run -p servanda-identity --release --example train_classifier -- CORPUS.jsonl [--write]
//! [--disagreements=FOLDER]`
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::indexing_slicing,
    reason = "a tool for developers, run by hand"
)]

mod corpus;
mod fit;
mod measure;
mod regression;

use std::{collections::BTreeMap, path::Path};

use fit::Prepared;
use servanda_identity::classifier::training::{ClassifierModel, cautions_of, features_of};

/// How many parts the families are dealt into.
const FOLDS: usize = 20;
/// The heading of the weights file.
const HEADING: &str = "The classifier's weights, in hundredths: kind, word, weight with names, weight without. Positive speaks for a change.\n\
                       Learnt, not written: rebuild with the example train_classifier (docs/classifier.md).";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let path = arguments.iter().find(|argument| !argument.starts_with("--")).ok_or("name the corpus's tools.jsonl")?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let tools = corpus::load(Path::new(path))?;
    let judged = corpus::judgements(&root.join("train/mutability.tsv"))?;
    let refuted = corpus::ids(&root.join("train/refuted.tsv"))?;
    let prepared: Vec<Prepared<'_>> = tools
        .iter()
        .map(|tool| {
            let author = tool.author_mutates();
            let mutates = if refuted.contains(&tool.id) { author.map(|mutates| !mutates) } else { author };
            let mutates = mutates.or_else(|| judged.get(&tool.id).copied());
            let doubtful = mutates == Some(false) && !cautions_of(&tool.descriptor, true).is_empty();
            let named = features_of(&tool.descriptor, true);
            Prepared { tool, mutates, named, unnamed: features_of(&tool.descriptor, false), doubtful }
        })
        .collect();
    let labelled: Vec<usize> = (0..prepared.len()).filter(|at| prepared[*at].mutates.is_some()).collect();

    println!("held-out families ({FOLDS} parts)");
    let fold = deal(&prepared);
    let mut held_out = vec![None; prepared.len()];
    for held in 0..FOLDS {
        let chosen: Vec<usize> = labelled.iter().copied().filter(|at| fold[*at] != held).collect();
        let model = ClassifierModel::parse(&fit::fit(&prepared, &chosen, ""));
        for at in (0..prepared.len()).filter(|at| fold[*at] == held) {
            held_out[at] = Some(measure::verdict(&model, &tools[at]));
        }
    }
    measure::report(&tools, &held_out, &judged);

    let text = fit::fit(&prepared, &labelled, HEADING);
    println!("in sample ({} lines, {} bytes)", text.lines().count(), text.len());
    let model = ClassifierModel::parse(&text);
    let verdicts: Vec<_> = tools.iter().map(|tool| Some(measure::verdict(&model, tool))).collect();
    measure::report(&tools, &verdicts, &judged);
    if let Some(folder) = arguments.iter().find_map(|argument| argument.strip_prefix("--disagreements=")) {
        measure::write_disagreements(&tools, &held_out, &Path::new(folder).join("held-out.tsv"))?;
        measure::write_disagreements(&tools, &verdicts, &Path::new(folder).join("in-sample.tsv"))?;
    }
    if arguments.iter().any(|argument| argument == "--write") {
        std::fs::write(root.join("src/classifier/data/weights.tsv"), text)?;
    }
    Ok(())
}

/// Deals the families into parts of about the same number of tools, the largest first.
fn deal(tools: &[Prepared<'_>]) -> Vec<usize> {
    let mut sizes: BTreeMap<&str, usize> = BTreeMap::new();
    for tool in tools {
        *sizes.entry(&tool.tool.family).or_default() += 1;
    }
    let mut families: Vec<(&str, usize)> = sizes.into_iter().collect();
    families.sort_by(|one, other| other.1.cmp(&one.1).then(one.0.cmp(other.0)));
    let mut load = [0_usize; FOLDS];
    let mut part: BTreeMap<&str, usize> = BTreeMap::new();
    for (family, size) in families {
        let lightest = (0..FOLDS).min_by_key(|at| load[*at]).unwrap_or(0);
        load[lightest] += size;
        part.insert(family, lightest);
    }
    tools.iter().map(|tool| part[tool.tool.family.as_str()]).collect()
}
