//! What `init` decided, for a person at a terminal: by class, the gravest first. Grave and doubtful tools are shown with reasons, because a
//! person should check them; the others are only named.

use std::collections::BTreeMap;

use servanda_contract::tool::SideEffectClass;

use super::InitDecision;
use crate::{
    commands::tools,
    screen::{count, one_line, paint},
};

/// The heading for tools that were left out.
const LEFT_OUT: &str = "LEFT OUT";
/// The widest column for names of tools.
const NAME_CHARS_MAX: usize = 28;

/// The page.
pub(super) fn page(decisions: &[InitDecision]) -> String {
    let classes = SideEffectClass::ALL.iter().rev().map(|class| class.word());
    let groups = std::iter::once(LEFT_OUT).chain(classes).filter_map(|class| group(class, decisions));
    groups.collect::<Vec<_>>().join("\n")
}

fn group(class: &str, decisions: &[InitDecision]) -> Option<String> {
    let of_class = |decision: &&InitDecision| decision.side_effect_class.unwrap_or(LEFT_OUT) == class;
    let (looked_at, plain): (Vec<&InitDecision>, Vec<&InitDecision>) =
        decisions.iter().filter(of_class).partition(|decision| is_looked_at(class, decision));
    let tools = looked_at.len() + plain.len();
    if tools == 0 {
        return None;
    }
    let mut lines = vec![format!("{}: {}", paint(class, tools::style(class)), count(tools, "tool"))];
    let names = looked_at.iter().map(|decision| decision.tool.chars().count());
    let width = names.max().unwrap_or(0).min(NAME_CHARS_MAX);
    for decision in looked_at {
        let doubt = if decision.certain || decision.side_effect_class.is_none() { "" } else { "uncertain: " };
        let why = std::iter::once(&decision.why).chain(&decision.notes).map(|text| one_line(text)).collect::<Vec<_>>();
        lines.push(format!("  {:width$}  {doubt}{}", decision.tool, why.join("; ")));
    }
    lines.extend(named(&plain));
    Some(lines.join("\n"))
}

/// The names of tools, one line per server, so that the server's name is not repeated.
fn named(plain: &[&InitDecision]) -> Vec<String> {
    let mut servers: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for decision in plain {
        let (server, own) = decision.tool.split_once("__").unwrap_or(("", &decision.tool));
        servers.entry(server).or_default().push(own);
    }
    let line = |(server, tools): (&str, Vec<&str>)| {
        let server = if server.is_empty() { String::new() } else { format!("{server}: ") };
        format!("  {server}{}", tools.join(", "))
    };
    servers.into_iter().map(line).collect()
}

/// Whether a person should check it: it is grave or doubtful, or there is a note about it.
fn is_looked_at(class: &str, decision: &InitDecision) -> bool {
    let is_grave =
        [SideEffectClass::HighRiskExternal.word(), SideEffectClass::CriticalMutation.word()].contains(&class);
    class == LEFT_OUT || is_grave || !decision.certain || !decision.notes.is_empty()
}
