//! The classifier on real tools: the bars of agreement with authors, our own judgements, and the list of disagreements. Needs
//! the shared corpus; if it is missing, the tests are skipped and counted, and fail in CI.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use serde::Deserialize;
use servanda_contract::tool::{Behaviour, ContentType, Mutability};
use servanda_identity::classifier::{ClassifierOptions, DeclaredBehaviour, Descriptor, classify, review};
use servanda_requirements::shared;

#[derive(Deserialize)]
struct Tool {
    id: String,
    server: String,
    #[serde(flatten)]
    descriptor: Descriptor,
}

impl Tool {
    fn found(&self, names: bool) -> Behaviour {
        classify(&self.descriptor, ClassifierOptions { names, annotations: false }).behaviour
    }

    /// What its author says, if anything.
    fn author(&self) -> Option<Mutability> {
        let read_only = self.descriptor.annotations?.read_only_hint?;
        Some(if read_only { Mutability::Pure } else { Mutability::Mutates })
    }
}

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn corpus() -> Option<Vec<Tool>> {
    let text = std::fs::read_to_string(shared("corpora/tools/tools.jsonl")?).expect("the corpus can be read");
    Some(text.lines().map(|line| serde_json::from_str(line).expect("a tool a line")).collect())
}

/// Agreement, agreement averaged by server, and the share of changes that were classified as reads; in percent.
fn bars(tools: &[Tool], names: bool) -> (f64, f64, f64) {
    let mut by_server: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    let (mut changes, mut leaked) = (0.0, 0.0);
    for tool in tools {
        let Some(author) = tool.author() else { continue };
        let found = tool.found(names).mutability;
        let (agree, total) = by_server.entry(&tool.server).or_default();
        *agree += if found == author { 1.0 } else { 0.0 };
        *total += 1.0;
        if author == Mutability::Mutates {
            changes += 1.0;
            leaked += if found == Mutability::Pure { 1.0 } else { 0.0 };
        }
    }
    let (agree, total) = by_server.values().fold((0.0, 0.0), |sum, server| (sum.0 + server.0, sum.1 + server.1));
    let servers = f64::from(u32::try_from(by_server.len()).expect("few servers"));
    let averaged = by_server.values().map(|(agree, total)| agree / total).sum::<f64>() / servers;
    (100.0 * agree / total, 100.0 * averaged, 100.0 * leaked / changes)
}

#[test]
fn mutability_agrees_with_authors_as_far_as_the_bars_ask() {
    let Some(tools) = corpus() else { return };
    let (agree, averaged, leaked) = bars(&tools, true);
    println!("with names: {agree:.2} % agree, {averaged:.2} % by server, {leaked:.2} % of changes came out PURE");
    assert!(agree >= 95.0 && averaged >= 92.0 && leaked <= 1.0);
    let (agree, averaged, leaked) = bars(&tools, false);
    println!("without names: {agree:.2} % agree, {averaged:.2} % by server, {leaked:.2} % of changes came out PURE");
    assert!(agree >= 88.0 && leaked <= 1.0);
}

#[test]
fn the_list_of_disagreements_is_complete_and_current() {
    let Some(tools) = corpus() else { return };
    let text = std::fs::read_to_string(here().join("../../docs/classifier-disagreements.md")).expect("the list");
    let listed: BTreeSet<&str> = text.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    let differs = |tool: &&Tool| {
        tool.author().is_some_and(|author| [true, false].iter().any(|names| tool.found(*names).mutability != author))
    };
    let differing: BTreeSet<&str> = tools.iter().filter(differs).map(|tool| tool.id.as_str()).collect();
    assert_eq!(listed, differing, "left: docs/classifier-disagreements.md, right: what the classifier says");
}

#[test]
fn the_other_fields_agree_with_our_own_judgements() {
    let Some(tools) = corpus() else { return };
    let by_id: BTreeMap<&str, &Tool> = tools.iter().map(|tool| (tool.id.as_str(), tool)).collect();
    let text = std::fs::read_to_string(here().join("train/fields.tsv")).expect("the judgements");
    let judged: Vec<Vec<&str>> =
        text.lines().filter(|line| !line.starts_with('#')).map(|line| line.split('\t').collect()).collect();
    let mut right = [0.0; 3];
    let mut confusions: [BTreeMap<(&str, &str), usize>; 3] = Default::default();
    for line in &judged {
        let found = by_id[line[0]].found(true);
        let content = found.content_type.map_or("", ContentType::word);
        for (field, said) in [found.action.word(), found.output_domain.word(), content].into_iter().enumerate() {
            right[field] += if said == line[field + 1] { 1.0 } else { 0.0 };
            *confusions[field].entry((line[field + 1], said)).or_default() += 1;
        }
    }
    let total = f64::from(u32::try_from(judged.len()).expect("few judgements"));
    let [action, domain, content] = right.map(|right| 100.0 * right / total);
    println!("{total} judged: action {action:.1} %, output domain {domain:.1} %, content type {content:.1} %");
    println!("judged, found: {confusions:#?}");
    assert!(judged.len() >= 200 && action >= 94.0 && domain >= 85.0 && content >= 98.0);
}

/// What review would ask people about if every author's `readOnlyHint` were a contract's declaration, and who is right there,
/// by the judgements in the list of disagreements. `docs/classifier.md` has the figures.
#[test]
fn review_asks_seldom_and_mostly_rightly() {
    let Some(tools) = corpus() else { return };
    let text = std::fs::read_to_string(here().join("../../docs/classifier-disagreements.md")).expect("the list");
    let judged: BTreeMap<&str, &str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` | "))
        .map(|(id, rest)| (id, rest.split(' ').next().unwrap_or_default()))
        .collect();
    let (mut asked, mut declared) = (BTreeMap::<&str, u32>::new(), 0);
    for tool in &tools {
        let Some(author) = tool.author() else { continue };
        declared += 1;
        let found = classify(&tool.descriptor, ClassifierOptions { names: true, annotations: false });
        let declaration = DeclaredBehaviour { mutability: author, action: None, grave: false, reviewed: None };
        if !review(declaration, None, &found).open_objections().is_empty() {
            *asked.entry(judged[tool.id.as_str()]).or_default() += 1;
        }
    }
    let (of, all) = (|who| asked.get(who).copied().unwrap_or_default(), asked.values().sum::<u32>());
    println!("{all} of {declared} asked about: {asked:?}");
    assert!(all * 100 <= declared * 2, "{all} of {declared} are too many questions");
    assert!(of("we") * 100 >= all * 80, "{asked:?}: people would stop reading");
}
