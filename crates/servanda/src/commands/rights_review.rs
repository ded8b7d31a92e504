//! Checks whether granted rights have any effect with the existing contracts: a scope that no tool requires, or a pattern that matches no
//! tool, is probably a mistake. It only warns; the rights are granted as given.

use std::collections::{BTreeMap, BTreeSet};

use servanda_authority::{
    Rights,
    rights::{Scopes, ToolPatterns},
};
use servanda_config::LoadedConfig;

use crate::{contracts, screen::Screen};

/// How many scopes one message names.
const SCOPES_SHOWN_MAX: usize = 8;

/// Prints a warning for each right without effect.
pub(crate) fn tell(rights: &Rights, loaded: &LoadedConfig, screen: Screen) {
    for user_note in user_notes(rights, loaded) {
        screen.say(format_args!("note: {user_note}"));
    }
}

/// The rights without effect, one sentence each.
pub(crate) fn user_notes(rights: &Rights, loaded: &LoadedConfig) -> Vec<String> {
    // Invalid contracts are reported elsewhere.
    let Ok((admitted, _)) = contracts::judge_all(loaded) else { return Vec::new() };
    let tools = admitted.iter().map(|admitted| {
        let contract = admitted.contract();
        (contract.identity.name.as_str(), contract.security.required_scopes.iter().map(String::as_str).collect())
    });
    user_notes_for_tools(rights, &tools.collect())
}

/// The scopes that each tool requires.
type ScopesByTool<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

fn user_notes_for_tools(rights: &Rights, tools: &ScopesByTool<'_>) -> Vec<String> {
    let mut user_notes = Vec::new();
    let scopes: BTreeSet<&str> = tools.values().flatten().copied().collect();
    if let Scopes::These(given) = &rights.scopes {
        let given: BTreeSet<&str> = given.iter().map(servanda_authority::rights::Scope::as_str).collect();
        let unknown: Vec<&str> = given.difference(&scopes).copied().collect();
        if given.is_empty() && !scopes.is_empty() {
            user_notes.push(without_scopes(tools, &scopes));
        } else if !unknown.is_empty() {
            let asked: Vec<&str> = scopes.iter().copied().collect();
            let some = if asked.is_empty() { "for none".to_owned() } else { format!("for {}", asked.join(", ")) };
            user_notes.push(format!("no contract asks for `{}`; they ask {some}", unknown.join("`, `")));
        }
    }
    for pattern in Vec::<String>::from(rights.tools.clone()) {
        let covers = ToolPatterns::read(&[&pattern]).is_ok_and(|only| tools.keys().any(|tool| only.covers(tool)));
        if let Some(example) = tools.keys().next().filter(|_| !covers) {
            user_notes.push(format!("`{pattern}` is no tool's name; they are named like `{example}`"));
        }
    }
    user_notes
}

/// What may be called without any scope, and how to get more.
fn without_scopes(tools: &ScopesByTool<'_>, scopes: &BTreeSet<&str>) -> String {
    let open: Vec<&str> = tools.iter().filter(|(_, asked)| asked.is_empty()).map(|(tool, _)| *tool).collect();
    let may = match open.as_slice() {
        [] => "it has no scopes, so it may call nothing".to_owned(),
        [one] => format!("it has no scopes, so it may call only `{one}`"),
        several => format!("it has no scopes, so it may call only {} of {} tools", several.len(), tools.len()),
    };
    let flags: Vec<String> = scopes.iter().take(SCOPES_SHOWN_MAX).map(|scope| format!("--scope {scope}")).collect();
    let more = if scopes.len() > SCOPES_SHOWN_MAX { " …" } else { "" };
    format!("{may}; a key gets scopes when it is made: {}{more}", flags.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_to_nothing_is_told() {
        let read = BTreeSet::from(["company:read"]);
        let closed = ScopesByTool::from([("company.look", read.clone()), ("company.pay", read.clone())]);
        let table: [(&[&str], &[&str], &[&str]); 5] = [
            (&["company:read"], &["company.*"], &[]),
            (
                &[],
                &[],
                &["it has no scopes, so it may call nothing; a key gets scopes when it is made: --scope company:read"],
            ),
            (&["company:raed"], &[], &["no contract asks for `company:raed`; they ask for company:read"]),
            (
                &["company:read"],
                &["company__look"],
                &["`company__look` is no tool's name; they are named like `company.look`"],
            ),
            (&["company:read"], &["company.look"], &[]),
        ];
        for (given, patterns, expected) in table {
            let tools_of =
                if patterns.is_empty() { ToolPatterns::all() } else { ToolPatterns::read(patterns).unwrap() };
            let rights = Rights { scopes: Scopes::from_words(given).unwrap(), tools: tools_of, ..Rights::unlimited() };
            assert_eq!(user_notes_for_tools(&rights, &closed), expected);
        }
        let open = ScopesByTool::from([("company.look", BTreeSet::new()), ("company.pay", read)]);
        let none = Rights { scopes: Scopes::none(), ..Rights::unlimited() };
        let told = user_notes_for_tools(&none, &open).concat();
        assert!(told.starts_with("it has no scopes, so it may call only `company.look`; "), "{told}");
    }
}
