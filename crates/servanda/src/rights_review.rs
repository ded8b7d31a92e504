//! Whether rights that somebody is given come to anything with the contracts there are: a scope that none asks for, or a pattern that
//! is no tool's, is a slip of the pen more often than not. It only tells; what is given is given.

use std::collections::BTreeSet;

use servanda_authority::{
    Rights,
    rights::{Scopes, Tools},
};

use crate::{config::Loaded, contracts, screen::Screen};

/// Tells what comes to nothing.
pub(crate) fn tell(rights: &Rights, loaded: &Loaded, screen: Screen) {
    // What is wrong with contracts is told elsewhere.
    let Ok((admitted, _)) = contracts::judge_all(loaded) else { return };
    let contracts: Vec<_> = admitted.iter().map(servanda_gates::CompiledContract::contract).collect();
    let scopes = contracts.iter().flat_map(|contract| contract.security.required_scopes.iter().map(String::as_str));
    let tools = contracts.iter().map(|contract| contract.identity.name.as_str());
    for remark in remarks(rights, &scopes.collect(), &tools.collect()) {
        screen.say(format_args!("note: {remark}"));
    }
}

fn remarks(rights: &Rights, scopes: &BTreeSet<&str>, tools: &BTreeSet<&str>) -> Vec<String> {
    let mut remarks = Vec::new();
    let asked: Vec<&str> = scopes.iter().copied().collect();
    let asked = asked.join(", ");
    if let Scopes::These(given) = &rights.scopes {
        let unknown: Vec<&str> = given
            .iter()
            .map(servanda_authority::rights::Scope::as_str)
            .filter(|scope| !scopes.contains(scope))
            .collect();
        if given.is_empty() && !scopes.is_empty() {
            remarks.push(format!("it has no scopes; contracts ask for {asked}"));
        } else if !unknown.is_empty() {
            let some = if asked.is_empty() { "for none".to_owned() } else { format!("for {asked}") };
            remarks.push(format!("no contract asks for `{}`; they ask {some}", unknown.join("`, `")));
        }
    }
    for pattern in Vec::<String>::from(rights.tools.clone()) {
        let covers = Tools::read(&[&pattern]).is_ok_and(|only| tools.iter().any(|tool| only.covers(tool)));
        if let Some(example) = tools.first().filter(|_| !covers) {
            remarks.push(format!("`{pattern}` is no tool's name; they are named like `{example}`"));
        }
    }
    remarks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_to_nothing_is_told() {
        let (scopes, tools) = (BTreeSet::from(["company:read"]), BTreeSet::from(["company.look", "company.pay"]));
        let table: [(&[&str], &[&str], &[&str]); 5] = [
            (&["company:read"], &["company.*"], &[]),
            (&[], &[], &["it has no scopes; contracts ask for company:read"]),
            (&["company:raed"], &[], &["no contract asks for `company:raed`; they ask for company:read"]),
            (
                &["company:read"],
                &["company__look"],
                &["`company__look` is no tool's name; they are named like `company.look`"],
            ),
            (&["company:read"], &["company.look"], &[]),
        ];
        for (given, patterns, expected) in table {
            let tools_of = if patterns.is_empty() { Tools::all() } else { Tools::read(patterns).unwrap() };
            let rights = Rights { scopes: Scopes::of(given).unwrap(), tools: tools_of, ..Rights::unlimited() };
            assert_eq!(remarks(&rights, &scopes, &tools), expected);
        }
    }
}
