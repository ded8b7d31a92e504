//! `servanda identity confusions`: groups of tools that take the same arguments, and what tells them apart.

use serde::Serialize;
use servanda_catalog::{Catalog, pins::LockFile};
use servanda_contract::tool::Behaviour;
use servanda_identity::{
    classifier::ReviewOutcome,
    layers::confusions::{Confusion, ConfusionSeverity, DistinguishingField, confusions},
};

use super::{descriptors, words};
use crate::{
    commands::objections,
    failure::CommandFailure,
    screen::{Screen, TextStyle, count, paint},
};

/// Tools that take the same arguments.
#[derive(Serialize)]
struct ConfusionGroup {
    severity: ConfusionSeverity,
    parameters: Vec<String>,
    tools: Vec<ConfusedTool>,
    /// The fields in which they differ.
    separated_by: Vec<DistinguishingField>,
    /// Tools that differ only in name and server.
    not_separated: Vec<Vec<String>>,
}

#[derive(Serialize)]
struct ConfusedTool {
    tool: String,
    upstream: String,
    words: String,
    identity: Option<String>,
    /// Objections that it does more than its contract says. Then the declared behaviour may not tell it from the others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    objections: Vec<String>,
}

pub(super) fn run(catalog: &Catalog, screen: Screen) -> Result<(), CommandFailure> {
    let (descriptors, lock) = (descriptors(catalog), catalog.lock_file());
    let groups = confusions(&descriptors);
    let groups: Vec<ConfusionGroup> = groups.iter().map(|found| group(found, catalog, lock.as_deref())).collect();
    if screen.json {
        return screen.json(&groups);
    }
    for group in &groups {
        page(group, screen)?;
    }
    let tools = count(descriptors.len(), "tool");
    if groups.is_empty() {
        screen.say(format_args!("no two of {tools} take the same arguments"));
        return Ok(());
    }
    let open = groups.iter().filter(|group| !group.not_separated.is_empty()).count();
    let groups = count(groups.len(), "group");
    screen.say(format_args!(
        "{tools}, {groups} with the same arguments; {open} of them with tools that nothing tells apart"
    ));
    if open > 0 {
        screen.hint(
            "say more in `behaviour` of their contracts, such as `content_type`, or leave out what no agent needs",
        );
    }
    Ok(())
}

fn group(found: &Confusion<'_>, catalog: &Catalog, lock: Option<&LockFile>) -> ConfusionGroup {
    let member = |id: &String, upstream: &String| {
        let contract = catalog.entry(id).map(|entry| entry.contract.contract());
        let review = contract.map(|contract| objections::review_offline(contract, lock));
        let objections = review.iter().flat_map(ReviewOutcome::open_objections).map(objections::sentence);
        ConfusedTool {
            objections: objections.collect(),
            tool: id.clone(),
            upstream: upstream.clone(),
            words: contract.map(words).unwrap_or_default(),
            identity: contract.and_then(|contract| contract.behaviour.as_ref()).map(Behaviour::identity),
        }
    };
    let names = |tools: &Vec<&servanda_identity::layers::confusions::ConfusionCandidate>| {
        tools.iter().map(|tool| tool.id.clone()).collect::<Vec<_>>()
    };
    ConfusionGroup {
        severity: found.severity,
        parameters: found.parameters.clone(),
        tools: found.tools.iter().map(|tool| member(&tool.id, &tool.server)).collect(),
        separated_by: found.separated_by.clone(),
        not_separated: found.alike().iter().map(names).collect(),
    }
}

fn page(group: &ConfusionGroup, screen: Screen) -> Result<(), CommandFailure> {
    let style = match group.severity {
        ConfusionSeverity::High => TextStyle::Bad,
        ConfusionSeverity::Medium | ConfusionSeverity::Unknown => TextStyle::Careful,
        ConfusionSeverity::Low => TextStyle::Quiet,
    };
    let severity = paint(&group.severity.to_string(), style);
    let taken = if group.parameters.is_empty() { "nothing".to_owned() } else { group.parameters.join(", ") };
    screen.page(format_args!("{severity}: {} that take {taken}", count(group.tools.len(), "tool")))?;
    let width = group.tools.iter().map(|member| member.tool.chars().count()).max().unwrap_or_default();
    for member in &group.tools {
        screen.page(format_args!("  {:<width$}  {}", member.tool, member.words))?;
        for objection in &member.objections {
            screen.page(format_args!("  {:<width$}  {}", "", paint(objection, TextStyle::Bad)))?;
        }
    }
    let conduct = group
        .separated_by
        .iter()
        .filter(|field| !matches!(field, DistinguishingField::Name | DistinguishingField::Server));
    let fields: Vec<&str> = conduct.map(|field| field.name()).collect();
    if !fields.is_empty() {
        screen.page(format_args!("  told apart by {}", fields.join(", ")))?;
    }
    for alike in &group.not_separated {
        let what = paint("nothing that is declared tells these apart:", TextStyle::Bad);
        screen.page(format_args!("  {what} {}", alike.join(", ")))?;
    }
    screen.page("")
}
