//! The corpus: which tools of one server, and of all servers, take the same arguments although some read and some change
//! something by their authors' own hints; and whether the classifier, without the hints, tells them apart.

use std::fmt::Write as _;

use serde::Deserialize;
use servanda_contract::tool::{Behaviour, Mutability};
use servanda_identity::{
    classifier::{self, ClassifierOptions, classify},
    layers::confusions::{self, Conduct, confusions},
};

use crate::tables::{Failure, share};

/// A tool of the corpus.
pub(crate) struct Tool {
    /// What its author says about it; groups are built from this.
    told: confusions::ConfusionCandidate,
    found: Behaviour,
    found_nameless: Behaviour,
}

#[derive(Deserialize)]
struct Line {
    id: String,
    server: String,
    #[serde(flatten)]
    descriptor: classifier::Descriptor,
}

/// A group that mixes reads and changes, and its pairs of a read and a change.
struct Mixed<'a> {
    pairs: Vec<(&'a Tool, &'a Tool)>,
}

/// The tools whose authors say whether they read or change.
pub(crate) fn read(lines: &str) -> Result<Vec<Tool>, Failure> {
    lines.lines().filter(|line| !line.trim().is_empty()).map(tool).collect()
}

fn tool(line: &str) -> Result<Tool, Failure> {
    let Line { id, server, mut descriptor } = serde_json::from_str(line)?;
    let hints = descriptor.annotations.take();
    let looks = hints.as_ref().and_then(|hints| hints.read_only_hint);
    let mutability = looks.map(|looks| if looks { Mutability::Pure } else { Mutability::Mutates });
    let found = classify(&descriptor, ClassifierOptions::default()).behaviour;
    let found_nameless = classify(&descriptor, ClassifierOptions { names: false, annotations: true }).behaviour;
    let conduct = Conduct { mutability, ..Conduct::default() };
    let input_schema = serde_json::Value::Object(descriptor.input_schema.unwrap_or_default());
    let told = confusions::ConfusionCandidate { id, server, name: descriptor.name, input_schema, conduct };
    Ok(Tool { told, found, found_nameless })
}

/// The section.
pub(crate) fn write(text: &mut String, tools: &[Tool]) -> Result<(), Failure> {
    writeln!(
        text,
        "\n### Tools of the shared corpus that take the same arguments\n\n\
         Groups of equal input schemas (titles, descriptions and order aside), and those in which some tools look and some change \
         something by their authors' own `readOnlyHint`. A pair is a look and a change of one group; it is told apart if the identities \
         differ that the classifier recovers, hints withheld. By what the authors declare, each of these groups is told apart.\n\n\
         | groups | how many | mixed | told apart wholly | without names | pairs | told apart | without names |\n\
         |---|---|---|---|---|---|---|---|"
    )?;
    let mut servers: Vec<&str> = tools.iter().map(|tool| tool.told.server.as_str()).collect();
    servers.sort_unstable();
    servers.dedup();
    let (mut count, mut within) = (0, Vec::new());
    for server in servers {
        let (of_server, mixed) = groups(tools.iter().filter(|tool| tool.told.server == server));
        count += of_server;
        within.extend(mixed);
    }
    row(text, "of one server", count, &within)?;
    let (count, across) = groups(tools.iter());
    row(text, "of all servers together", count, &across)?;
    let mut alike: Vec<String> = within
        .iter()
        .flat_map(|group| &group.pairs)
        .filter(|(look, change)| look.found.identity() == change.found.identity())
        .map(|(look, change)| {
            format!("| `{}` | `{}` | {} |", look.told.id, change.told.id, look.found.words().replace('|', "\\|"))
        })
        .collect();
    alike.sort();
    writeln!(
        text,
        "\nPairs of one server that the classifier does not tell apart:\n\n| a look, says its author | a change, says its author | both look like |\n|---|---|---|"
    )?;
    writeln!(text, "{}", alike.join("\n"))?;
    Ok(())
}

fn row(text: &mut String, name: &str, count: usize, mixed: &[Mixed<'_>]) -> Result<(), Failure> {
    type Reading = fn(&Tool) -> &Behaviour;
    let apart = |found: Reading| move |pair: &&(&Tool, &Tool)| found(pair.0).identity() != found(pair.1).identity();
    let readings: [Reading; 2] = [|tool| &tool.found, |tool| &tool.found_nameless];
    let [whole, nameless] = readings.map(|found| {
        let wholly = mixed.iter().filter(|group| group.pairs.iter().all(|pair| apart(found)(&pair))).count();
        let pairs = mixed.iter().flat_map(|group| &group.pairs).filter(apart(found)).count();
        (wholly, pairs)
    });
    let pairs: usize = mixed.iter().map(|group| group.pairs.len()).sum();
    writeln!(
        text,
        "| {name} | {count} | {} | {} | {} | {pairs} | {} | {} |",
        mixed.len(),
        share(whole.0, mixed.len()),
        share(nameless.0, mixed.len()),
        share(whole.1, pairs),
        share(nameless.1, pairs),
    )?;
    Ok(())
}

/// The number of groups, and those that mix reads and changes.
fn groups<'a>(tools: impl Iterator<Item = &'a Tool>) -> (usize, Vec<Mixed<'a>>) {
    let tools: Vec<&Tool> = tools.collect();
    let told: Vec<confusions::ConfusionCandidate> = tools.iter().map(|tool| tool.told.clone()).collect();
    let found = confusions(&told);
    let mixed = found.iter().filter_map(|group| {
        let of = |wanted: Mutability| {
            let ids = group.tools.iter().filter(move |tool| tool.conduct.mutability == Some(wanted));
            let ids: Vec<&str> = ids.map(|tool| tool.id.as_str()).collect();
            tools.iter().copied().filter(move |tool| ids.contains(&tool.told.id.as_str())).collect::<Vec<&Tool>>()
        };
        let (looks, changes) = (of(Mutability::Pure), of(Mutability::Mutates));
        let pairs: Vec<(&Tool, &Tool)> =
            looks.iter().flat_map(|look| changes.iter().map(|change| (*look, *change))).collect();
        (!pairs.is_empty()).then_some(Mixed { pairs })
    });
    (found.len(), mixed.collect())
}
