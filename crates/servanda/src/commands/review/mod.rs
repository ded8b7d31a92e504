//! `servanda review`: walks through what was inferred about tools, the grave and the doubtful first, and records in the contract files who
//! decided what. On a terminal one key is one decision; elsewhere it lists what is open.

mod decision;
mod walk;

use std::{cmp::Reverse, path::Path};

use serde::Serialize;
use servanda_config::LoadedConfig;
use servanda_contract::tool::SideEffectClass;

use self::decision::ReviewDecision;
use crate::{
    cli::ReviewArgs,
    commands::{contract, tools},
    configuration,
    contracts::reading::{ContractFolder, LocatedContract},
    failure::CommandFailure,
    screen::{Screen, consent, count, lines, paint, table},
};

/// How much a doubt raises a tool in the order of the walk.
const DOUBT_WEIGHT: usize = 2;

/// A tool in a server's file, as a list shows it.
#[derive(Debug, Serialize)]
struct ReviewListEntry<'a> {
    tool: String,
    file: &'a Path,
    side_effect_class: &'static str,
    why: Option<&'a str>,
    doubts: &'a [String],
    reviewed_by: Option<&'a str>,
    reviewed_at: Option<&'a str>,
}

pub(crate) fn run(config: &Path, args: &ReviewArgs, screen: Screen) -> Result<(), CommandFailure> {
    let loaded = configuration::read(config)?;
    if let Some(tool) = &args.tool {
        let written = contract::named(&loaded, tool)?;
        return match asked_for(args)? {
            Some(decision) => {
                let said = decision::apply(&loaded, &written, &decision)?;
                if screen.json {
                    return screen.json(&serde_json::json!({ "tool": tool, "decided": said }));
                }
                screen.say(said);
                Ok(())
            }
            None => walk::walk(&loaded, vec![written], screen),
        };
    }
    let all = in_order(&loaded)?;
    let open =
        |written: &LocatedContract| written.composed.as_ref().is_some_and(|composed| composed.entry.reviewed.is_none());
    if !args.all && consent::is_asked(false, screen) {
        let open: Vec<LocatedContract> = all.into_iter().filter(open).collect();
        return walk::walk(&loaded, open, screen);
    }
    let shown: Vec<&LocatedContract> = all.iter().filter(|written| args.all || open(written)).collect();
    list(&loaded, &shown, screen)
}

/// The decision that the options ask for.
fn asked_for(args: &ReviewArgs) -> Result<Option<ReviewDecision>, CommandFailure> {
    if args.agree {
        return Ok(Some(ReviewDecision::Agree));
    }
    if args.hold_back {
        return Ok(Some(ReviewDecision::HoldBack));
    }
    if args.release {
        return Ok(Some(ReviewDecision::Release));
    }
    let Some(word) = &args.class else { return Ok(None) };
    let class = SideEffectClass::ALL.into_iter().find(|class| class.word().eq_ignore_ascii_case(word));
    let Some(class) = class else {
        let words: Vec<&str> = SideEffectClass::ALL.iter().map(|class| class.word()).collect();
        return Err(CommandFailure::bad_input(format!("there is no side-effect class `{word}`"))
            .hint(format!("there are {}", words.join(", "))));
    };
    Ok(Some(ReviewDecision::Class { class, reason: args.reason.clone() }))
}

/// Every tool of a server's file, the grave and the doubtful first.
fn in_order(loaded: &LoadedConfig) -> Result<Vec<LocatedContract>, CommandFailure> {
    let mut all: Vec<LocatedContract> =
        ContractFolder::read(loaded)?.written.into_iter().filter(|written| written.composed.is_some()).collect();
    all.sort_by_key(|written| {
        let class = written.contract.transactional.side_effect_class;
        let grave = SideEffectClass::ALL.iter().position(|one| *one == class).unwrap_or(0);
        let doubtful = written.composed.as_ref().is_some_and(|composed| !composed.entry.doubts.is_empty());
        Reverse(grave + if doubtful { DOUBT_WEIGHT } else { 0 })
    });
    Ok(all)
}

fn list(loaded: &LoadedConfig, shown: &[&LocatedContract], screen: Screen) -> Result<(), CommandFailure> {
    let listed: Vec<ReviewListEntry<'_>> = shown.iter().filter_map(|written| listed(loaded, written)).collect();
    if screen.json {
        return screen.json(&listed);
    }
    if listed.is_empty() {
        screen.say("a person has decided about every tool; `servanda review --all` lists the decisions");
        return Ok(());
    }
    let mut page = table(&["tool", "class", "because of", "decided by"]).with_prose(2);
    for one in &listed {
        let because: Vec<&str> = one.why.into_iter().chain(one.doubts.iter().map(String::as_str)).collect();
        let class = paint(one.side_effect_class, tools::style(one.side_effect_class));
        page.add_row([one.tool.clone(), class, because.join("; "), one.reviewed_by.unwrap_or("-").to_owned()]);
    }
    screen.data(lines(&page))?;
    let open = listed.iter().filter(|one| one.reviewed_by.is_none()).count();
    if open > 0 {
        screen.say(format_args!("{} to review", count(open, "tool")));
        screen.hint(
            "`servanda review` on a terminal asks about them one by one; `servanda review TOOL --agree` agrees to one",
        );
    }
    Ok(())
}

fn listed<'a>(loaded: &LoadedConfig, written: &'a LocatedContract) -> Option<ReviewListEntry<'a>> {
    let entry = &written.composed.as_ref()?.entry;
    Some(ReviewListEntry {
        tool: contract::exposed(loaded, written),
        file: &written.place.file,
        side_effect_class: entry.class().word(),
        why: entry.why.as_deref(),
        doubts: &entry.doubts,
        reviewed_by: entry.reviewed.as_ref().map(|review| review.by.as_str()),
        reviewed_at: entry.reviewed.as_ref().map(|review| review.at.as_str()),
    })
}
