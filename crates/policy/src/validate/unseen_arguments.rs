//! Policies that read an argument that they cannot see. To a policy such an argument is absent, so it would skip exactly the
//! calls it was written for: it is not loaded.

use std::collections::BTreeMap;

use crate::{
    findings::{PolicyFinding, PolicyFindingKind},
    loaded::{LoadedPolicy, PolicySource},
    unseen::UnseenArgument,
    vocabulary::{PolicyTool, Vocabulary},
};

/// The most tools that a finding names.
const TOOLS_SHOWN_MAX: usize = 3;

/// Every place at which a policy reads what it cannot see of a tool in its scope.
pub(crate) fn findings(
    vocabulary: &Vocabulary,
    policy: &LoadedPolicy,
    sources: &[PolicySource<'_>],
) -> Vec<PolicyFinding> {
    if policy.argument_accesses.is_empty() {
        return Vec::new();
    }
    let mut found: BTreeMap<&[String], Vec<(&str, &UnseenArgument)>> = BTreeMap::new();
    let covered = |(name, tool): &(&String, &PolicyTool)| policy.scope.covers(name, tool);
    for (name, tool) in vocabulary.tools().iter().filter(covered) {
        for look in &policy.argument_accesses {
            let unseen = tool.facts.parameters().unseen.iter().find(|unseen| unseen.is_accessed(look));
            found.entry(&look.path).or_default().extend(unseen.map(|unseen| (name.as_str(), unseen)));
        }
    }
    found.retain(|_, tools| !tools.is_empty());
    found.into_iter().map(|(path, tools)| finding(policy, path, &tools, sources)).collect()
}

fn finding(
    policy: &LoadedPolicy,
    path: &[String],
    tools: &[(&str, &UnseenArgument)],
    sources: &[PolicySource<'_>],
) -> PolicyFinding {
    let reason = tools.first().map_or("", |(_, unseen)| unseen.reason.as_str());
    let mut names: Vec<String> = tools.iter().map(|(name, _)| format!("`{name}`")).collect();
    names.dedup();
    let more = names.len().saturating_sub(TOOLS_SHOWN_MAX);
    names.truncate(TOOLS_SHOWN_MAX);
    let names = names.join(", ") + &if more > 0 { format!(" and {more} more") } else { String::new() };
    let looked = [&["context.args".to_owned()], path].concat().join(".");
    let message = format!("it looks at `{looked}`, and policies cannot see that of {names}: {reason}");
    let hint = "name the tools it is about, `action in [Action::\"call:...\"]`, and decide about the others without that argument; \
                or give it one type in the contract";
    // Cedar's JSON has no positions; the first occurrence of the name is near enough.
    let offset = path.last().and_then(|step| policy.text.find(step.as_str())).unwrap_or_default();
    PolicyFinding { hint: Some(hint.to_owned()), ..policy.finding(sources, offset, PolicyFindingKind::Type, message) }
}
