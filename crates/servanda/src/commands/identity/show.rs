//! `servanda identity show`: describes one tool by what it does.

use serde::Serialize;
use servanda_catalog::Catalog;
use servanda_contract::tool::{Behaviour, EffectClass};
use servanda_identity::{
    classifier::ReviewOutcome,
    layers::confusions::{ConfusionCandidate, DistinguishingField, confusions},
};

use super::{descriptors, words};
use crate::{
    commands::{next_step, objections},
    failure::CommandFailure,
    screen::{Screen, TextStyle, paint},
};

#[derive(Serialize)]
struct ToolIdentityReport<'a> {
    tool: &'a str,
    contract: String,
    version: String,
    upstream: &'a str,
    upstream_tool: &'a str,
    mutability: &'static str,
    effect_class: EffectClass,
    side_effect_class: &'static str,
    /// The behaviour that the contract declares, if it declares one.
    behaviour: Option<&'a Behaviour>,
    words: Option<String>,
    identity: Option<String>,
    extended_words: Option<String>,
    extended_identity: Option<String>,
    programs: Vec<ProgramArgumentReport>,
    /// What its author and its definition say about that.
    review: ReviewOutcome,
    same_arguments: Vec<SimilarTool>,
}

/// An argument that is a program and not only data.
#[derive(Serialize)]
struct ProgramArgumentReport {
    argument: String,
    x_effect: &'static str,
}

/// A tool that takes the same arguments.
#[derive(Serialize)]
struct SimilarTool {
    tool: String,
    words: String,
    /// What tells the two apart, besides name and server.
    separated_by: Vec<DistinguishingField>,
}

pub(super) fn run(catalog: &Catalog, tool: &str, screen: Screen) -> Result<(), CommandFailure> {
    let Some(entry) = catalog.entry(tool) else { return Err(unknown(catalog, tool)) };
    let contract = entry.contract.contract();
    let behaviour = contract.behaviour.as_ref();
    let shown = ToolIdentityReport {
        tool,
        contract: contract.identity.name.clone(),
        version: contract.identity.version.clone(),
        upstream: &contract.binding.upstream,
        upstream_tool: &contract.binding.tool,
        mutability: contract.mutability().word(),
        effect_class: contract.effect_class(),
        side_effect_class: contract.transactional.side_effect_class.word(),
        behaviour,
        words: behaviour.map(Behaviour::words),
        identity: behaviour.map(Behaviour::identity),
        extended_words: behaviour.map(Behaviour::extended_words),
        extended_identity: behaviour.map(Behaviour::extended_identity),
        programs: (entry.contract.program_arguments())
            .map(|program| ProgramArgumentReport { argument: program.place, x_effect: program.kind })
            .collect(),
        review: objections::review_offline(contract, catalog.lock_file().as_deref()),
        same_arguments: similar_tools(catalog, tool),
    };
    if screen.json {
        return screen.json(&shown);
    }
    page(&shown, screen)?;
    if !shown.review.open_objections().is_empty() {
        screen.hint(objections::NEXT_STEP);
    }
    Ok(())
}

fn unknown(catalog: &Catalog, tool: &str) -> CommandFailure {
    let known = catalog.entries().map(|(name, entry)| (name, entry.contract.contract().binding.tool.as_str()));
    CommandFailure::bad_input(format!("there is no tool `{tool}`")).hint(next_step::nearest(tool, known))
}

/// The other tools of its group, the most similar first.
fn similar_tools(catalog: &Catalog, tool: &str) -> Vec<SimilarTool> {
    let descriptors = descriptors(catalog);
    let groups = confusions(&descriptors);
    let own = groups.iter().find(|group| group.tools.iter().any(|one| one.id == tool));
    let members = own.map(|group| group.tools.as_slice()).unwrap_or_default();
    let Some(this) = members.iter().find(|one| one.id == tool) else { return Vec::new() };
    let mut others: Vec<SimilarTool> = members
        .iter()
        .filter(|one| one.id != tool)
        .map(|one| SimilarTool {
            tool: one.id.clone(),
            words: words_of(catalog, one),
            separated_by: separation(this, one),
        })
        .collect();
    others.sort_by_key(|other| other.separated_by.len());
    others
}

fn words_of(catalog: &Catalog, descriptor: &ConfusionCandidate) -> String {
    catalog.entry(&descriptor.id).map(|entry| words(entry.contract.contract())).unwrap_or_default()
}

/// What tells two tools apart by their behaviour.
fn separation(one: &ConfusionCandidate, other: &ConfusionCandidate) -> Vec<DistinguishingField> {
    let bare = |descriptor: &ConfusionCandidate| ConfusionCandidate {
        input_schema: serde_json::Value::Null,
        ..descriptor.clone()
    };
    let pair = [bare(one), bare(other)];
    let apart = confusions(&pair).first().map(|group| group.separated_by.clone()).unwrap_or_default();
    apart
        .into_iter()
        .filter(|field| !matches!(field, DistinguishingField::Name | DistinguishingField::Server))
        .collect()
}

/// Shows only objections and answers to them; a clean review needs no line.
fn tell_review(review: &ReviewOutcome, screen: Screen) -> Result<(), CommandFailure> {
    let line = |text: &str| screen.page(format_args!("  {:<10}{text}", "review"));
    match review {
        ReviewOutcome::Flagged { objections } => {
            objections.iter().try_for_each(|objection| line(&paint(&objections::sentence(objection), TextStyle::Bad)))
        }
        ReviewOutcome::Settled { why, objections } => {
            objections.iter().try_for_each(|objection| line(&objections::sentence(objection)))?;
            line(&format!("answered: {why}"))
        }
        ReviewOutcome::Corroborated | ReviewOutcome::Cautious | ReviewOutcome::Unclear => Ok(()),
    }
}

fn page(shown: &ToolIdentityReport<'_>, screen: Screen) -> Result<(), CommandFailure> {
    let line = |label: &str, text: &str| screen.page(format_args!("  {label:<10}{text}"));
    screen.page(paint(shown.tool, TextStyle::Strong))?;
    match (&shown.words, &shown.identity) {
        (Some(words), Some(identity)) => line("identity", &format!("{words}  {identity}"))?,
        _ => line(
            "identity",
            &format!("none: the contract declares no behaviour, only that it is {}", shown.mutability),
        )?,
    }
    if let (Some(words), Some(identity)) = (&shown.extended_words, &shown.extended_identity) {
        line("extended", &format!("{words}  {identity}"))?;
    }
    line("contract", &format!("{} {}", shown.contract, shown.version))?;
    line("bound to", &format!("`{}` as `{}`", shown.upstream, shown.upstream_tool))?;
    line("effects", &format!("class {:?}, {}", shown.effect_class, shown.side_effect_class))?;
    for program in &shown.programs {
        line("program", &format!("`{}` is {}", program.argument, program.x_effect))?;
    }
    tell_review(&shown.review, screen)?;
    match shown.same_arguments.as_slice() {
        [] => line("alike", "no other tool takes the same arguments"),
        others => {
            line("alike", "these take the same arguments, so no schema tells them from it")?;
            for other in others {
                let apart = match other.separated_by.as_slice() {
                    [] => paint("nothing tells them apart", TextStyle::Bad),
                    fields => {
                        let names: Vec<&str> = fields.iter().map(|field| field.name()).collect();
                        format!("told apart by {}", names.join(", "))
                    }
                };
                screen.page(format_args!("    {}  {}  {apart}", other.tool, other.words))?;
            }
            Ok(())
        }
    }
}
